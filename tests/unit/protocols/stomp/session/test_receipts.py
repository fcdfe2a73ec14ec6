"""What a RECEIPT promises, what it waits for, and in which order they leave (docs/explanation/architecture.md)."""

from __future__ import annotations

import pytest

from tests.support.engine.engine_world import address
from tests.support.protocols.stomp_gateway import StompGateway, connected


def held_back() -> StompGateway:
    """Return a gateway whose store makes nothing durable until ``sync``."""
    gateway = StompGateway()
    gateway.syncs = False
    return gateway


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_a_persistent_send_waits_for_the_disk(version: str) -> None:
    gateway = held_back()
    peer = gateway.connect(version)
    peer.publish("/queue/q", b"x", persistent="true", receipt="r")
    assert peer.octets == b""
    gateway.sync()
    assert peer.receipts() == ["r"]


def test_a_send_that_is_not_persistent_waits_for_nothing() -> None:
    peer = held_back().connect()
    peer.publish("/queue/q", b"x", receipt="r")
    assert peer.receipts() == ["r"]


def test_logged_but_not_persistent_is_confirmed_without_waiting() -> None:
    gateway = StompGateway(address("q", log_non_persistent=True))
    gateway.syncs = False
    peer = gateway.connect()
    peer.publish("/queue/q", b"x", receipt="r")
    assert peer.receipts() == ["r"]
    assert gateway.store.append_offset() > gateway.store.durable_offset()


def test_a_delivery_may_leave_before_the_sync() -> None:
    gateway = held_back()
    consumer = gateway.subscriber("/queue/q")
    producer = gateway.connect()
    producer.publish("/queue/q", b"x", persistent="true", receipt="r")
    assert consumer.bodies() == [b"x"]
    assert producer.octets == b""
    assert gateway.store.written_offset() == gateway.store.append_offset()


def test_receipts_keep_the_order_of_the_frames() -> None:
    gateway = held_back()
    peer = gateway.connect()
    peer.publish("/queue/q", b"1", persistent="true", receipt="1")
    peer.publish("/queue/q", b"2", receipt="2")
    peer.send("BEGIN", transaction="t", receipt="3")
    assert peer.octets == b"", "a receipt stands for earlier frames too"
    gateway.sync()
    assert peer.receipts() == ["1", "2", "3"]


def test_a_receipt_stands_for_earlier_frames_that_asked_for_none() -> None:
    gateway = held_back()
    peer = gateway.connect()
    peer.publish("/queue/q", b"1", persistent="true")
    peer.send("BEGIN", transaction="t", receipt="r")
    assert peer.octets == b""
    gateway.sync()
    assert peer.receipts() == ["r"]


def test_other_connections_do_not_wait() -> None:
    gateway = held_back()
    slow, quick = gateway.connect(), gateway.connect()
    slow.publish("/queue/q", b"1", persistent="true", receipt="slow")
    quick.publish("/queue/q", b"2", receipt="quick")
    assert (slow.octets, quick.receipts()) == (b"", ["quick"])


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_receipts_are_echoed_as_they_stood_on_the_wire(version: str) -> None:
    peer = StompGateway().connect(version)
    peer.send_octets(b"SEND\ndestination:/queue/q\nreceipt:a\\cb \\\\c\n\n\0")
    assert peer.octets == b"RECEIPT\nreceipt-id:a\\cb \\\\c\n\n\0\n"


@pytest.mark.parametrize("receipt", ["77", "ignore:5", "close-0", "1f0c-9"])
def test_receipts_of_real_clients(receipt: str) -> None:
    peer = StompGateway().connect("1.1")
    peer.send("DISCONNECT", receipt=receipt)
    assert peer.receipts() == [receipt]


def test_every_frame_may_ask_for_one() -> None:
    peer = StompGateway().connect()
    peer.publish("/queue/q", b"1", b"2")
    peer.subscribe("/queue/q", receipt="subscribe")
    receipt, first, second = peer.take()
    assert (receipt.command, receipt["receipt-id"]) == ("RECEIPT", "subscribe")
    peer.send("BEGIN", transaction="x", receipt="begin")
    peer.send("ACK", id=first["ack"], transaction="x", receipt="ack in")
    peer.send("NACK", id=second["ack"], transaction="x", receipt="nack in")
    peer.send("SEND", destination="/queue/other", transaction="x", receipt="send in")
    peer.send("ABORT", transaction="x", receipt="abort")
    peer.send("ACK", id=first["ack"], receipt="ack")
    peer.send("NACK", id=second["ack"], receipt="nack")
    peer.send("BEGIN", transaction="x", receipt="begin again")
    peer.send("COMMIT", transaction="x", receipt="commit")
    peer.send("UNSUBSCRIBE", id="s", receipt="unsubscribe")
    peer.send("DISCONNECT", receipt="disconnect")
    expected = "begin,ack in,nack in,send in,abort,ack,nack,begin again,commit,unsubscribe,disconnect"
    assert peer.receipts() == expected.split(",")


# -- SUBSCRIBE


def test_the_receipt_of_subscribe_precedes_the_first_message() -> None:
    peer = StompGateway().connect()
    peer.publish("/queue/q", b"1", b"2")
    peer.subscribe("/queue/q", receipt="s")
    assert [frame.command for frame in peer.take()] == ["RECEIPT", "MESSAGE", "MESSAGE"]


def test_it_does_so_too_when_it_has_to_wait() -> None:
    gateway = held_back()
    peer = gateway.connect()
    with gateway.one_turn():
        peer.publish("/queue/q", b"1", persistent="true", receipt="p")
        peer.subscribe("/queue/q", receipt="s")
    peer.publish("/queue/q", b"2", persistent="true")
    assert peer.octets == b""
    gateway.sync()
    frames = peer.take()
    assert [frame.command for frame in frames] == ["RECEIPT", "RECEIPT", "MESSAGE", "MESSAGE"]


def test_it_does_so_within_one_turn_with_a_receipt_before_it() -> None:
    gateway, peer = connected()
    with gateway.one_turn():
        peer.publish("/queue/q", b"1", receipt="p")
        peer.subscribe("/queue/q", receipt="s")
        peer.publish("/queue/q", b"2")
    frames = peer.take()
    assert [frame.headers.get("receipt-id", "message") for frame in frames] == ["p", "s", "message", "message"]


def test_without_a_receipt_messages_come_at_once_whatever_waits() -> None:
    gateway = held_back()
    peer = gateway.connect()
    with gateway.one_turn():
        peer.publish("/queue/q", b"1", persistent="true", receipt="p")
        peer.subscribe("/queue/q")
    assert peer.bodies() == [b"1"]


def test_unsubscribing_before_the_receipt_has_left() -> None:
    gateway = held_back()
    peer = gateway.connect()
    peer.publish("/queue/q", b"1", persistent="true")
    peer.subscribe("/queue/q", receipt="s")
    peer.send("UNSUBSCRIBE", id="s", receipt="u")
    gateway.sync()
    assert peer.receipts() == ["s", "u"]


def test_after_the_receipt_of_unsubscribe_no_message_comes() -> None:
    gateway, peer = connected()
    peer.subscribe("/queue/q", "auto")
    with gateway.one_turn():
        peer.publish("/queue/q", b"1")
        peer.send("UNSUBSCRIBE", id="s", receipt="u")
        peer.publish("/queue/q", b"2")
    assert peer.receipts() == ["u"]
    assert gateway.stats("q").depth == 2


def test_a_topic_message_of_the_same_turn_leaves_before_the_receipt_of_unsubscribe() -> None:
    gateway, peer = connected()
    peer.subscribe("/topic/t", "auto")
    with gateway.one_turn():
        peer.publish("/topic/t", b"1")
        peer.send("UNSUBSCRIBE", id="s", receipt="u")
        peer.publish("/topic/t", b"2")
    assert [frame.command for frame in peer.take()] == ["MESSAGE", "RECEIPT"]


# -- DISCONNECT


def test_disconnect_is_answered_last_and_stands_for_everything() -> None:
    gateway = held_back()
    peer = gateway.subscriber("/queue/q", "auto")
    with gateway.one_turn():
        peer.publish("/queue/q", b"1", persistent="true")
        peer.publish("/queue/other", b"2", persistent="true", receipt="p")
        peer.send("DISCONNECT", receipt="bye")
    assert peer.octets == b"" and not peer.is_closed
    gateway.sync()
    assert peer.receipts() == ["p", "bye"]
    assert peer.is_closed


def test_a_lost_socket_is_owed_nothing() -> None:
    gateway = held_back()
    peer = gateway.connect()
    peer.publish("/queue/q", b"1", persistent="true", receipt="p")
    peer.vanish()
    gateway.sync()
    assert peer.octets == b""
    assert gateway.awaiting() == []
    assert gateway.stats("q").depth == 1


@pytest.mark.parametrize("command", ["SEND", "UNSUBSCRIBE", "DISCONNECT"])
def test_a_receipt_stands_for_an_acknowledgement_before_it_that_asked_for_none(command: str) -> None:
    gateway = held_back()
    peer = gateway.subscriber("/queue/q")
    peer.publish("/queue/q", b"1", persistent="true")
    (message,) = peer.messages()
    gateway.sync()
    with gateway.one_turn():
        peer.send("ACK", id=message["ack"])
        headers = {"SEND": {"destination": "/queue/other"}, "UNSUBSCRIBE": {"id": "s"}, "DISCONNECT": {}}[command]
        peer.send(command, receipt="r", **headers)
    assert peer.octets == b""
    gateway.sync()
    assert peer.receipts() == ["r"]
    assert gateway.store.durable_offset() == gateway.store.append_offset()


# -- a store that fails


def test_while_the_store_fails_nothing_is_confirmed_and_nothing_is_lost() -> None:
    gateway, peer = connected()
    with gateway.one_turn():
        peer.publish("/queue/q", b"1", persistent="true", receipt="1")
        gateway.store.fail("disk full")
    assert peer.octets == b""
    gateway.store.heal()
    gateway.settle()
    assert peer.receipts() == ["1"]
