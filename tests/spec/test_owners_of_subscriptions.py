"""Durable subscriptions between logins, over STOMP, over AMQP and across both (docs/reference/consumers.md)."""

from __future__ import annotations

import pytest

from protocols.amqp.sasl import PLAIN
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Detach, Open
from protocols.amqp.v1_0.wire.composites.sasl_frames import SaslInit
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_sasl_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, SASL_LAYER, protocol_header
from protocols.amqp.v1_0.wire.types.values import UInt
from protocols.stomp.session.settings import SessionSettings
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, capabilities
from tests.support.protocols.stomp_gateway import Peer

NAME = {"activemq.subscriptionName": "billing"}


def guarded() -> AmqpGateway:
    gateway = AmqpGateway(amqp=AmqpSettings(needs_login=True))
    gateway.settings = SessionSettings(converter=gateway.settings.converter, needs_login=True)
    return gateway


def stomp(gateway: AmqpGateway, login: str) -> Peer:
    peer = gateway.open()
    peer.send("CONNECT", accept_version="1.2", host="test", client_id="shop", login=login, passcode="p")
    peer.session.authenticated(True)
    gateway.settle()
    assert [frame.command for frame in peer.take()] == ["CONNECTED"]
    return peer


def amqp(gateway: AmqpGateway, login: str) -> AmqpPeer:
    peer = gateway.open_amqp()
    peer.send_octets(protocol_header(SASL_LAYER))
    peer.send_octets(encode_sasl_frame(SaslInit(PLAIN, b"\0" + login.encode() + b"\0p")))
    peer.connection.authenticated(True)
    gateway.settle()
    peer.take()
    peer.expect_header()
    peer.send_octets(protocol_header(AMQP_LAYER))
    peer.send(Open("shop"))
    peer.take()
    peer.begin()
    return peer


def attach(peer: AmqpPeer, handle: int = 0) -> None:
    source = Source("topic://t", UInt(2), "never", capabilities=capabilities("topic"))
    peer.send(Attach("billing", handle, True, source=source, target=Target()))


@pytest.mark.parametrize("maker", ["stomp", "amqp"])
def test_over_stomp_it_is_its_makers(maker: str) -> None:
    gateway = guarded()
    if maker == "stomp":
        ann = stomp(gateway, "ann")
        ann.subscribe("/topic/t", **NAME)
        ann.send("DISCONNECT")
    else:
        own = amqp(gateway, "ann")
        attach(own)
        assert own.one(Attach).source is not None
        own.vanish()
    bob = stomp(gateway, "bob")
    bob.subscribe("/topic/t", **NAME)
    assert bob.error()["condition"] == "access-denied"
    bob = stomp(gateway, "bob")
    bob.send("UNSUBSCRIBE", id="s", **NAME)
    assert bob.error()["condition"] == "access-denied"
    ann = stomp(gateway, "ann")
    ann.send_confirmed("UNSUBSCRIBE", id="s", **NAME)


def test_over_amqp_it_is_its_makers_also_while_he_has_it() -> None:
    gateway = guarded()
    ann = amqp(gateway, "ann")
    attach(ann)
    assert ann.one(Attach).source is not None
    bob = amqp(gateway, "bob")
    attach(bob)
    assert bob.refusal()[0] == "amqp:unauthorized-access"
    bob.send(Attach("billing", 1, True, target=Target()))
    assert bob.refusal()[0] == "amqp:unauthorized-access", "nor does he hear that it is there"
    assert ann.take() == []
    thief = amqp(gateway, "ann")
    attach(thief)
    assert thief.one(Attach).source is not None
    assert isinstance(ann.take()[0], Detach), "one's own is taken from one's own connection that was lost"
