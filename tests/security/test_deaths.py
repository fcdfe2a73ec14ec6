"""What once ended the process, or a connection that had done nothing."""

from __future__ import annotations

import pytest

from gateway.cli.shared.blocking_client import ConnectionLost
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Close, Detach, Disposition, End, Flow, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.composites.transaction_types import Coordinator
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Described, Symbol, ULong
from tests.support.hostile.honest_clients import Trips, go_on
from tests.support.hostile.hostile_peers import Hostiles, frame
from tests.support.typed import typed_amqp


def test_hundreds_of_sessions_that_err_in_one_read(hostile: Hostiles, trips: list[Trips]) -> None:
    peer = hostile.amqp()
    peer.write(typed_amqp.erring_sessions(500))
    go_on(trips)
    for _ in range(500):
        peer.wait_for(End)


@pytest.mark.parametrize("descriptor", [[1], {"a": 1}, ULong(1), None], ids=repr)
def test_filters_with_any_descriptor(descriptor: object, hostile: Hostiles) -> None:
    peer = hostile.amqp()
    asked = {Symbol("s"): Described(descriptor, "a = 1")}
    peer.send(Attach("r", 0, True, source=Source("topic://plain.1", filter=asked), target=Target()))
    peer.wait_for(Attach, Close, End)


@pytest.mark.parametrize("kind", ["x-opt-jms-dest", "x-opt-jms-reply-to", "x-opt-delivery-delay"])
def test_annotations_of_a_wrong_type(kind: str, hostile: Hostiles, trips: list[Trips]) -> None:
    reader = hostile.stomp()
    reader.write(frame("SUBSCRIBE", id="1", destination="/topic/plain.odd", receipt="1"))
    reader.answer()
    peer = hostile.amqp()
    peer.send(Attach("s", 0, False, source=Source(), target=Target("topic://plain.odd"), initial_delivery_count=0))
    peer.wait_for(Flow)
    for number, value in enumerate(([1], {"a": [1]}, 2.5, b"\xff")):
        annotations = b"\x00\x53\x72" + encode({Symbol(kind): value})
        octets = annotations + b"\x00\x53\x77" + encode("odd")
        peer.write(encode_frame(0, Transfer(0, number, b"%d" % number, 0, True), octets))
    peer.send(Close())
    peer.wait_for(Close)  # all of it was looked at
    reader.write(frame("SEND", destination="/topic/plain.none", receipt="end"))
    assert reader.answer().head.headers["receipt-id"] == "end", "the reader pays for what another sends"
    go_on(trips)


def test_bodies_that_are_none(hostile: Hostiles, trips: list[Trips]) -> None:
    reader = hostile.amqp("reader")
    reader.send(Attach("r", 0, True, source=Source("topic://plain.odd"), target=Target()))
    reader.send(Flow(0, 1_000, 0, 1_000, 0, 0, 100))
    reader.wait_for(Attach)
    peer = hostile.stomp()
    bodies = (b"9" * 5_000, b"[" * 5_000, b'"\\ud800"', b"18446744073709551616", b"")
    for body in bodies:
        peer.write(frame("SEND", body, **{"destination": "/topic/plain.odd", "amqp-body": "value"}))
    peer.write(frame("SEND", destination="/topic/plain.none", receipt="end"))
    assert peer.answer().head.headers["receipt-id"] == "end"
    for _ in bodies:
        reader.wait_for(Transfer)
    go_on(trips)


def test_a_scheduled_message_that_lives_as_long_as_numbers_go(hostile: Hostiles, trips: list[Trips]) -> None:
    peer = hostile.stomp()
    peer.write(
        b"SEND\ndestination:/topic/plain.1\nexpires:9223372036854775807\nAMQ_SCHEDULED_DELAY:1\nreceipt:1\n\nx\0"
    )
    assert peer.answer().head.headers.get("receipt-id") == "1"
    go_on(trips)


def test_a_send_that_waits_too_long_is_refused_while_alarms_look(hostile: Hostiles, trips: list[Trips]) -> None:
    peer = hostile.stomp()
    for number in range(21):
        peer.write(frame("SEND", destination="/queue/block.1", expiration="3000", receipt=f"{number}"))
    for _ in range(20):
        peer.answer()
    condition, _ = peer.refusal()
    assert condition == "address-full"
    go_on(trips)
    hostile.empty("block.1")


def test_a_commit_to_a_temporary_queue_that_has_gone(hostile: Hostiles, trips: list[Trips]) -> None:
    owner = hostile.amqp("owner")
    dynamic = Source(None, dynamic=True, capabilities=[Symbol("temporary-queue")])
    owner.send(Attach("r", 0, True, source=dynamic, target=Target()))
    found = owner.wait_for(Attach)
    assert isinstance(found, Attach) and found.source is not None and found.source.address is not None
    peer = hostile.stomp()
    name = found.source.address.partition("://")[2] or found.source.address
    peer.write(
        frame("BEGIN", transaction="t")
        + b"SEND\ndestination:/remote-temp-queue/"
        + name.replace(":", "\\c").encode()
        + b"\ntransaction:t\nAMQ_SCHEDULED_DELAY:1\nreceipt:sent\n\nx\0"
    )
    peer.answer()
    owner.send(Detach(0, True))
    owner.wait_for(Detach)
    peer.write(frame("COMMIT", transaction="t", receipt="committed"))
    try:
        peer.answer()
    except ConnectionLost:
        pass  # what it is told is not the matter here
    go_on(trips)


def test_a_coordinator_that_is_told_nonsense(hostile: Hostiles, trips: list[Trips]) -> None:
    for payload in (b"", b"\x00\x53\x77\x40", b"\x00\x53\x75\xa0\x01x", b"\x00\x53\x77" + encode([1])):
        peer = hostile.amqp()
        peer.send(Attach("t", 0, False, source=Source(), target=Coordinator(), initial_delivery_count=0))
        peer.wait_for(Flow)
        peer.write(encode_frame(0, Transfer(0, 0, b"t", 0), payload))
        peer.wait_for(Detach, Disposition, End, Close)
    go_on(trips)
