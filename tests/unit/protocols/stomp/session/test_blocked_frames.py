"""Full addresses as a STOMP client meets them: BLOCK throttles it, DROP and FAIL answer at once."""

from __future__ import annotations

import pytest

from protocols.stomp.session.settings import SessionSettings
from tests.support.engine.engine_world import address
from tests.support.protocols.stomp_gateway import Peer, StompGateway

KIB = 1024


def blocking(settings: SessionSettings | None = None, **values: object) -> StompGateway:
    """Return a gateway whose queue q blocks beyond 100 octets, headers and bodies."""
    limits: dict[str, object] = {"full__address_full_policy": "BLOCK", "full__max_size_bytes": 100, **values}
    return StompGateway(address("q", **limits), settings=settings)


def settle_all(peer: Peer) -> list[bytes]:
    """Acknowledge what comes until nothing comes."""
    bodies: list[bytes] = []
    while messages := [frame for frame in peer.take() if frame.command == "MESSAGE"]:
        for message in messages:
            bodies.append(message.body)
            peer.send("ACK", id=message["ack"])
    return bodies


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_a_flood_with_receipts_waits_and_each_receipt_comes_when_there_is_room(persistent: str) -> None:
    gateway = blocking()
    sender = gateway.connect()
    for number in range(20):
        sender.publish("/queue/q", b"%020d" % number, persistent=persistent, receipt=str(number))
    confirmed = sender.receipts()
    assert 0 < len(confirmed) < 10
    assert "address-full: queue://q holds" in gateway.reason(sender)
    receiver = gateway.subscriber("/queue/q", **{"activemq.prefetchSize": "2"})
    assert settle_all(receiver) == [b"%020d" % number for number in range(20)]
    assert confirmed + sender.receipts() == [str(number) for number in range(20)]
    assert gateway.reason(sender) == ""


def test_a_flood_without_receipts_is_not_read_on_and_loses_nothing() -> None:
    gateway = blocking(SessionSettings(block_park_bytes=4 * KIB))
    sender = gateway.connect()
    for number in range(200):
        sender.publish("/queue/q", b"%0100d" % number)
    assert not sender.link.is_reading
    assert sender.session.blocked.size_bytes < 6 * KIB
    receiver = gateway.subscriber("/queue/q")
    assert settle_all(receiver) == [b"%0100d" % number for number in range(200)]
    assert sender.link.is_reading


def test_a_connection_that_consumes_what_it_floods_does_not_stop_itself() -> None:
    both = blocking().subscriber("/queue/q", **{"activemq.prefetchSize": "1"})
    for number in range(40):
        both.publish("/queue/q", b"%050d" % number, receipt=str(number))
    bodies: list[bytes] = []
    receipts: list[str] = []
    while frames := both.take():
        for frame in frames:
            if frame.command == "MESSAGE":
                bodies.append(frame.body)
                both.send("ACK", id=frame["ack"])
            else:
                receipts.append(frame["receipt-id"])
    assert bodies == [b"%050d" % number for number in range(40)]
    assert receipts == [str(number) for number in range(40)]


def test_a_transaction_that_consumes_from_the_address_it_sends_to_is_admitted() -> None:
    peer = blocking().connect()
    peer.publish("/queue/q", b"x" * 200)
    peer.subscribe("/queue/q")
    (message,) = peer.messages()
    peer.send("BEGIN", transaction="t")
    peer.send("ACK", id=message["ack"], transaction="t")
    peer.publish("/queue/q", b"y" * 200, transaction="t")
    peer.send("COMMIT", transaction="t", receipt="commit")
    assert sorted(frame.command for frame in peer.take()) == ["MESSAGE", "RECEIPT"]


def test_after_the_deadline_the_first_that_waits_gets_an_error() -> None:
    gateway = blocking(full__block_timeout_ms=5_000)
    peer = gateway.connect()
    peer.publish("/queue/q", b"x" * 200)
    peer.publish("/queue/q", b"1", receipt="first")
    peer.publish("/queue/q", b"2", receipt="second")
    gateway.advance(5_000)
    error = peer.error()
    assert (error["condition"], error["receipt-id"]) == ("address-full", "first")
    assert b"queue://q holds 2" in error.body
    assert b"block-timeout-ms" in error.body


def test_drop_confirms_and_discards() -> None:
    gateway = blocking(full__address_full_policy="DROP")
    peer = gateway.connect()
    for number in range(9):
        peer.publish("/queue/q", b"x" * 60, persistent="true", receipt=str(number))
    assert peer.receipts() == [str(number) for number in range(9)]
    assert gateway.stats("q").depth < 3


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_fail_answers_with_an_error_and_never_confirms(version: str) -> None:
    gateway = blocking(full__address_full_policy="FAIL")
    peer = gateway.connect(version)
    peer.publish("/queue/q", b"x" * 200, receipt="taken")
    assert peer.receipts() == ["taken"]
    peer.publish("/queue/q", b"more", receipt="refused")
    (error,) = peer.take()
    assert (error.command, error["condition"], error["receipt-id"]) == ("ERROR", "address-full", "refused")
    assert b"queue://q holds 2" in error.body and b"of 100 octets" in error.body
    assert peer.is_closed == (version != "1.0")
    assert gateway.stats("q").depth == 1


def test_fail_at_commit_rolls_the_transaction_back() -> None:
    gateway = blocking(full__address_full_policy="FAIL")
    peer = gateway.connect("1.0")
    peer.publish("/queue/q", b"x" * 200)
    peer.subscribe("/queue/other")
    peer.publish("/queue/other", b"held")
    (message,) = peer.messages()
    peer.send("BEGIN", transaction="t")
    peer.send("ACK", transaction="t", **{"message-id": message["message-id"]})
    peer.publish("/queue/q", b"more", transaction="t")
    peer.send("COMMIT", transaction="t", receipt="commit")
    (error,) = peer.take()
    assert (error.command, error["condition"]) == ("ERROR", "address-full")
    assert gateway.stats("other").in_flight == 1, "its acknowledgement is undone"
    peer.send_confirmed("ACK", **{"message-id": message["message-id"]})


def test_a_producer_sends_so_many_a_second_and_the_rest_is_parked_in_order() -> None:
    gateway = StompGateway(address("q", flow__producer_max_rate_per_second=3))
    peer, other = gateway.connect(), gateway.connect()
    peer.publish("/queue/q", *(b"%d" % number for number in range(8)))
    assert gateway.stats("q").depth == 3
    assert gateway.reason(peer) == "rate: queue://q takes 3 messages a second (producer-max-rate)"
    other.publish("/queue/q", b"other")
    assert gateway.stats("q").depth == 4, "each producer has a rate of its own"
    gateway.advance(999)
    assert gateway.stats("q").depth == 4
    gateway.advance(1)
    assert gateway.stats("q").depth == 7
    gateway.advance(1_000)
    assert gateway.stats("q").depth == 9
    assert gateway.reason(peer) == ""
    receiver = gateway.subscriber("/queue/q", "auto")
    assert [body for body in receiver.bodies() if body != b"other"] == [b"%d" % number for number in range(8)]


def test_a_virtual_topic_with_a_rate_waits_for_it_although_a_queue_behind_it_is_full() -> None:
    queue = "Consumer.a.VirtualTopic.v"
    gateway = StompGateway(
        address("VirtualTopic.v", flow__producer_max_rate_per_second=1),
        address(queue, full__address_full_policy="BLOCK", full__max_size_messages=1),
    )
    receiver = gateway.subscriber(f"/queue/{queue}")
    peer, other = gateway.connect(), gateway.connect()
    peer.publish("/topic/VirtualTopic.v", b"1")
    other.publish(f"/queue/{queue}", b"2")
    assert "address-full" in gateway.reason(other)
    peer.publish("/topic/VirtualTopic.v", b"3")
    assert gateway.reason(peer) == "rate: topic://VirtualTopic.v takes 1 messages a second (producer-max-rate)"
    gateway.advance(1_000)
    assert "address-full" in gateway.reason(peer)
    assert settle_all(receiver) == [b"1", b"2", b"3"]


def test_the_rate_of_any_part_counts() -> None:
    gateway = StompGateway(
        address("a", expiry__expiry_delay_ms=60_000), address("b", flow__producer_max_rate_per_second=1)
    )
    peer = gateway.connect()
    peer.publish("/queue/a,/queue/b", b"1", b"2")
    peer.publish("/queue/a", b"3")
    assert [gateway.stats(name).depth for name in "ab"] == [1, 1]
    gateway.advance(1_000)
    receiver = gateway.subscriber("/queue/a", "auto")
    assert receiver.bodies() == [b"1", b"2", b"3"], "no later message overtakes"


def test_a_consumer_of_a_topic_that_settles_nothing_blocks_its_producers() -> None:
    gateway = StompGateway(address("t", full__address_full_policy="BLOCK", full__max_size_messages=2))
    slow, sender = gateway.connect(), gateway.connect()
    slow.subscribe("/topic/t")
    sender.publish("/topic/t", *(b"%d" % number for number in range(5)))
    assert "topic://t holds 2 of 2 messages" in gateway.reason(sender)
    assert settle_all(slow) == [b"%d" % number for number in range(5)]
    assert gateway.reason(sender) == ""


@pytest.mark.parametrize(
    ("values", "asked_ms", "expected_ms"),
    [
        ({"expiry__expiry_delay_ms": 1_000}, 0, 1_000),
        ({"expiry__expiry_delay_ms": 1_000}, 500, 500),
        ({"expiry__min_expiry_delay_ms": 2_000}, 500, 2_000),
        ({"expiry__max_expiry_delay_ms": 3_000}, 9_000, 3_000),
        ({"expiry__max_expiry_delay_ms": 3_000}, 0, 3_000),
        ({"expiry__no_expiry": True}, 500, None),
    ],
)
def test_the_address_decides_when_a_message_expires(
    values: dict[str, object], asked_ms: int, expected_ms: int | None
) -> None:
    gateway = StompGateway(address("q", **values))
    peer = gateway.connect()
    now_ms = gateway.clock.wall_ms()
    peer.publish("/queue/q", b"x", **({"expires": str(now_ms + asked_ms)} if asked_ms else {}))
    peer.subscribe("/queue/q", "auto")
    (message,) = peer.messages()
    assert message["expires"] == ("0" if expected_ms is None else str(now_ms + expected_ms))
