"""One connection too many of a user: refused in the words of its protocol, and closed."""

from __future__ import annotations

import pytest

from engine.consumers.user_quota import CONNECTIONS, UserLimits
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.performatives import Close, Open
from protocols.amqp.v1_0.wire.composites.sasl_frames import SaslInit, SaslOutcome
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_sasl_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, SASL_LAYER, protocol_header
from protocols.stomp.mapping.dialects import DIALECTS
from protocols.stomp.session.settings import SessionSettings
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer
from tests.support.protocols.stomp_gateway import Peer, StompGateway

TEXT = "user 'ann' has 1 connections, which is the limit (limits.connections-per-user: 1)"


def stomp_login(gateway: StompGateway, login: str) -> Peer:
    peer = gateway.open()
    peer.send("CONNECT", **{"accept-version": "1.2", "host": "h", "login": login, "passcode": "x"})
    peer.answer_login(is_allowed=True)
    return peer


def amqp_login(gateway: AmqpGateway, login: str) -> AmqpPeer:
    peer = gateway.open_amqp()
    peer.send_octets(protocol_header(SASL_LAYER))
    peer.take()
    peer.send_octets(encode_sasl_frame(SaslInit("PLAIN", f"\0{login}\0x".encode())))
    peer.answer_login(is_allowed=True)
    assert peer.one(SaslOutcome) == SaslOutcome(0)
    peer.expect_header()
    peer.send_octets(protocol_header(AMQP_LAYER))
    peer.send(Open("me"))
    return peer


@pytest.mark.parametrize("dialect", ["penstock", "activemq"])
def test_over_stomp(dialect: str) -> None:
    settings = SessionSettings(needs_login=True, dialect=DIALECTS[dialect])
    gateway = StompGateway(settings=settings, user_limits=UserLimits(connections=1))
    first = stomp_login(gateway, "ann")
    assert first.take()[0].command == "CONNECTED"
    second = stomp_login(gateway, "ann")
    (error,) = second.take()
    assert error.command == "ERROR"
    assert TEXT in error["message"] + error.body.decode()
    assert second.is_closed
    assert stomp_login(gateway, "bob").take()[0].command == "CONNECTED"
    first.vanish()
    assert stomp_login(gateway, "ann").take()[0].command == "CONNECTED"
    assert gateway.refused_counts()[CONNECTIONS] == 1


def test_over_amqp() -> None:
    gateway = AmqpGateway(amqp=AmqpSettings(needs_login=True), user_limits=UserLimits(connections=1))
    assert isinstance(amqp_login(gateway, "ann").take()[-1], Open)
    second = amqp_login(gateway, "ann")
    close = second.take()[-1]
    assert isinstance(close, Close) and close.error is not None
    assert (close.error.condition, close.error.description) == ("amqp:resource-limit-exceeded", TEXT)
    assert second.is_closed
