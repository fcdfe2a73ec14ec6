"""Headers, login, open and close, heartbeats, and what closes a connection."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.composite import Error
from protocols.amqp.v1_0.wire.composites.performatives import Close, Open, Transfer
from protocols.amqp.v1_0.wire.composites.sasl_frames import SaslInit, SaslMechanisms, SaslOutcome, SaslResponse
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame, encode_sasl_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, HEARTBEAT_OCTETS, SASL_LAYER, protocol_header
from protocols.amqp.v1_0.wire.types.values import Symbol
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, queue_of, text
from tests.unit.protocols.amqp.test_sasl import CLIENT_FINAL, CLIENT_FIRST, SERVER_FINAL, OneUser


def test_without_login_where_one_is_needed() -> None:
    peer = AmqpGateway(amqp=AmqpSettings(needs_login=True)).open_amqp()
    peer.send_octets(protocol_header(AMQP_LAYER))
    assert peer.octets == protocol_header(SASL_LAYER)
    assert peer.is_closed


def test_open_tells_terms() -> None:
    peer = AmqpGateway().connect_amqp()
    opened = peer.opened
    assert opened is not None
    assert (opened.container_id, opened.max_frame_size, opened.channel_max) == ("Penstock", 131_072, 255)
    assert opened.idle_time_out == 30_000
    assert opened.offered_capabilities is not None
    assert "ANONYMOUS-RELAY" in opened.offered_capabilities


def sasl(gateway: AmqpGateway) -> AmqpPeer:
    peer = gateway.open_amqp()
    peer.send_octets(protocol_header(SASL_LAYER))
    header, mechanisms = peer.take()
    assert header.NAME == "protocol header"
    assert isinstance(mechanisms, SaslMechanisms)
    peer.mechanisms = mechanisms.sasl_server_mechanisms
    return peer


def test_anonymous_login() -> None:
    peer = sasl(AmqpGateway())
    assert peer.mechanisms == ["PLAIN", "ANONYMOUS"]
    peer.send_octets(encode_sasl_frame(SaslInit("ANONYMOUS", b"me")))
    assert peer.one(SaslOutcome) == SaslOutcome(0)
    peer.expect_header()
    peer.send_octets(protocol_header(AMQP_LAYER))
    peer.send(Open("me"))
    assert [type(frame) for frame in peer.take()][1:] == [Open]


def test_plain_login_is_checked_elsewhere() -> None:
    peer = sasl(AmqpGateway(amqp=AmqpSettings(needs_login=True)))
    assert peer.mechanisms == ["PLAIN"]
    peer.send_octets(encode_sasl_frame(SaslInit("PLAIN")))
    peer.take()
    peer.send_octets(encode_sasl_frame(SaslResponse(b"\0alice\0secret")))
    assert peer.link.credentials == [("alice", "secret")]
    assert not peer.link.is_reading
    peer.answer_login(is_allowed=True)
    assert peer.one(SaslOutcome) == SaslOutcome(0)
    assert peer.connection.describe()["login"] == "alice"


def test_a_wrong_password_closes() -> None:
    peer = sasl(AmqpGateway(amqp=AmqpSettings(needs_login=True)))
    peer.send_octets(encode_sasl_frame(SaslInit("PLAIN", b"\0alice\0wrong")))
    peer.answer_login(is_allowed=False)
    assert peer.one(SaslOutcome) == SaslOutcome(1)
    assert peer.is_closed


def test_a_mechanism_that_is_not_offered_closes() -> None:
    peer = sasl(AmqpGateway(amqp=AmqpSettings(needs_login=True)))
    peer.send_octets(encode_sasl_frame(SaslInit("ANONYMOUS")))
    assert peer.one(SaslOutcome) == SaslOutcome(1)
    assert peer.is_closed


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [(True, True, True), (True, False, True), (False, True, True), (False, False, False)],
)
def test_a_client_id_may_be_the_only_one(first: bool, second: bool, is_refused: bool) -> None:
    gateway = AmqpGateway()
    wish: dict[str, Any] = {"desired_capabilities": [Symbol("sole-connection-for-container")]}
    holder = gateway.connect_amqp("id", **(wish if first else {}))
    peer = gateway.open_amqp()
    peer.send_octets(protocol_header(AMQP_LAYER))
    peer.send(Open("id", **(wish if second else {})))
    frames = peer.take()[1:]
    if not is_refused:
        assert [type(frame) for frame in frames] == [Open]
        return
    opened, closed = frames
    assert isinstance(opened, Open)
    assert opened.properties == {"amqp:connection-establishment-failed": True}
    assert isinstance(closed, Close)
    assert closed.error is not None
    assert (closed.error.condition, closed.error.info) == ("amqp:invalid-field", {"invalid-field": "container-id"})
    assert peer.is_closed
    holder.send(Close())
    again = gateway.connect_amqp("id", **wish)
    assert again.opened is not None
    assert "sole-connection-for-container" in (again.opened.offered_capabilities or [])


def test_heartbeats_leave_at_half_the_time() -> None:
    gateway = AmqpGateway()
    peer = gateway.connect_amqp(idle_time_out=1_000)
    gateway.advance(2_000)
    assert peer.octets.replace(HEARTBEAT_OCTETS, b"") == b""
    assert 3 <= len(peer.octets) // len(HEARTBEAT_OCTETS) <= 5


def test_a_silent_peer_is_given_up() -> None:
    gateway = AmqpGateway(amqp=AmqpSettings(idle_time_ms=2_000))
    peer = gateway.connect_amqp()
    assert peer.opened is not None
    assert peer.opened.idle_time_out == 1_000
    gateway.advance(1_900)
    peer.send_octets(HEARTBEAT_OCTETS)
    gateway.advance(1_900)
    assert not peer.is_closed
    gateway.advance(1_200)
    kind, condition, text = peer.error()
    assert (kind, condition) == (Close, "amqp:resource-limit-exceeded")
    assert "local-idle-timeout expired" in text
    assert peer.is_closed


def test_open_must_come_in_time() -> None:
    gateway = AmqpGateway(amqp=AmqpSettings(connect_time_ms=1_000))
    silent, slow = gateway.open_amqp(), gateway.open_amqp()
    slow.send_octets(protocol_header(AMQP_LAYER))
    gateway.advance(1_200)
    assert silent.is_closed
    assert slow.is_closed


def test_a_frame_must_end_in_time() -> None:
    gateway = AmqpGateway(amqp=AmqpSettings(frame_time_ms=1_000))
    peer = gateway.connect_amqp()
    peer.send_octets(b"\x00\x00\x00\xff\x02")
    gateway.advance(2_100)
    assert peer.error()[:2] == (Close, "amqp:resource-limit-exceeded")


@pytest.mark.parametrize("cut", [1, 4, 7, 8, 9, 20])
def test_a_steady_producer_is_never_late_though_each_read_ends_inside_a_frame(cut: int) -> None:
    gateway, peer = queue_of(amqp=AmqpSettings(frame_time_ms=3_000))
    frame = encode_frame(0, Transfer(0, 0, b"t", 0, True), text("body"))
    peer.send_octets(frame[:cut])
    for _ in range(10):
        gateway.advance(1_000)
        peer.send_octets(frame[cut:] + frame[:cut])
    assert not peer.is_closed, "a frame took a second each"
    peer.take()
    for octet in frame[cut:-1]:
        gateway.advance(500)
        if not peer.is_closed:
            peer.send_octets(bytes([octet]))
    assert peer.error()[2] == "a frame took longer than 3000 ms"


def test_the_limit_of_a_frame_does_not_begin_anew_with_its_header() -> None:
    gateway = AmqpGateway(amqp=AmqpSettings(frame_time_ms=3_000))
    peer = gateway.amqp_session()
    frame = encode_frame(0, Close())
    peer.send_octets(frame[:7])
    gateway.advance(2_000)
    peer.send_octets(frame[7:9])
    gateway.advance(2_000)
    assert peer.error()[2] == "a frame took longer than 3000 ms"


def test_the_gateway_stops() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_session()
    peer.connection.shut_down()
    gateway.settle()
    assert peer.error() == (Close, "amqp:connection:forced", "the gateway is shutting down")


def test_the_last_words_after_a_defect_of_the_gateway() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_session()
    words = peer.connection.fault_words("ours")
    assert words == encode_frame(0, Close(Error("amqp:internal-error", "ours")))
    assert gateway.open_amqp().connection.fault_words("ours") == b"", "no close before the open"


def test_a_peer_that_sends_no_more_gets_what_it_is_owed() -> None:
    gateway = AmqpGateway()
    gateway.syncs = False
    peer = gateway.amqp_sender("q")
    peer.transfer(b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x77\x41")
    peer.connection.input_ended()
    gateway.settle()
    assert not peer.is_closed
    assert peer.take() == []
    gateway.syncs = True
    gateway.sync()
    assert len(peer.take()) == 1
    assert peer.is_closed


@pytest.mark.parametrize("is_right", [True, False])
def test_scram_s_proof_waits_for_its_turn(is_right: bool) -> None:
    """Who guesses is slowed down as with passwords: its link answers when it will."""
    peer = sasl(AmqpGateway(amqp=AmqpSettings(needs_login=True), credentials=OneUser()))
    assert peer.mechanisms == ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]
    peer.send_octets(encode_sasl_frame(SaslInit("SCRAM-SHA-256", CLIENT_FIRST)))
    peer.take()
    final = CLIENT_FINAL if is_right else CLIENT_FINAL.replace(b"p=d", b"p=e")
    peer.send_octets(encode_sasl_frame(SaslResponse(final)))
    assert peer.link.proofs == [("user", is_right)]
    assert not peer.link.is_reading
    assert peer.take() == []
    peer.answer_login(is_allowed=is_right)
    assert peer.one(SaslOutcome) == (SaslOutcome(0, SERVER_FINAL) if is_right else SaslOutcome(1))
    assert peer.is_closed is not is_right
