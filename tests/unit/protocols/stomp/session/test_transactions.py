"""BEGIN, COMMIT, ABORT over the wire (STOMP 1.2, "BEGIN")."""

from __future__ import annotations

import pytest

from protocols.stomp.session.settings import SessionSettings
from tests.support.protocols.stomp_gateway import Peer, StompGateway


def begun(gateway: StompGateway | None = None, version: str = "1.2") -> Peer:
    peer = (gateway or StompGateway()).connect(version)
    peer.send_confirmed("BEGIN", transaction="x")
    return peer


def begun_at_gateway(version: str = "1.2") -> tuple[StompGateway, Peer]:
    """Return a gateway and a peer with an open transaction x."""
    peer = begun(version=version)
    return peer.gateway, peer


def test_sends_show_at_commit_in_order_over_destinations() -> None:
    gateway, peer = begun_at_gateway()
    reader = gateway.subscriber("/queue/a", "auto", id="a")
    reader.subscribe("/queue/b", "auto", id="b")
    reader.subscribe("/topic/t", "auto", id="t")
    for to, body in (("/queue/a", b"1"), ("/queue/b", b"2"), ("/topic/t", b"3"), ("/queue/a", b"4")):
        peer.publish(to, body, transaction="x", receipt="s")
    assert peer.receipts() == ["s"] * 4
    assert reader.messages() == []
    peer.send_confirmed("COMMIT", transaction="x")
    assert sorted(reader.bodies()) == [b"1", b"2", b"3", b"4"]


def test_a_send_s_receipt_means_accepted_and_the_commit_s_durable() -> None:
    gateway, peer = begun_at_gateway()
    gateway.syncs = False
    peer.publish("/queue/q", b"1", transaction="x", persistent="true", receipt="s")
    assert peer.receipts() == ["s"]
    peer.send("COMMIT", transaction="x", receipt="c")
    assert peer.octets == b""
    gateway.sync()
    assert peer.receipts() == ["c"]


def test_an_ack_s_receipt_inside_means_accepted() -> None:
    gateway, peer = begun_at_gateway()
    peer.subscribe("/queue/q")
    peer.publish("/queue/q", b"1", persistent="true")
    (message,) = peer.messages()
    other = gateway.connect()
    gateway.syncs = False
    with gateway.one_turn():
        other.publish("/queue/other", b"2", persistent="true")
        peer.send("ACK", id=message["ack"], transaction="x", receipt="a")
    assert peer.receipts() == ["a"]


def test_abort_drops_sends_and_undoes_acks() -> None:
    gateway, peer = begun_at_gateway()
    peer.subscribe("/queue/q")
    peer.publish("/queue/q", b"1", b"2")
    first, second = peer.messages()
    peer.publish("/queue/q", b"never", transaction="x")
    peer.send("ACK", id=first["ack"], transaction="x")
    peer.send("NACK", id=second["ack"], transaction="x")
    peer.send_confirmed("ABORT", transaction="x")
    gateway.advance(10_000)
    assert peer.messages() == [], "nothing is redelivered"
    peer.send("ACK", id=first["ack"], receipt="1")
    peer.send("ACK", id=second["ack"], receipt="2")
    assert peer.receipts() == ["1", "2"]
    assert gateway.stats("q").depth == 0


def test_acknowledging_twice_with_a_transaction_open() -> None:
    for header in ({}, {"transaction": "x"}):
        peer = begun()
        peer.subscribe("/queue/q")
        peer.publish("/queue/q", b"1")
        (message,) = peer.messages()
        peer.send("ACK", id=message["ack"], transaction="x")
        peer.send("ACK", id=message["ack"], **header)
        assert b"in a transaction that is still open" in peer.error().body


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_cumulative_acknowledgement_inside(version: str) -> None:
    gateway, peer = begun_at_gateway(version)
    peer.subscribe("/queue/q", "client")
    peer.publish("/queue/q", b"1", b"2", b"3")
    second = peer.messages()[1]
    name = {"id": second["ack"]} if version == "1.2" else {"message-id": second["message-id"]}
    peer.send("ACK", **name, transaction="x")
    assert gateway.stats("q").depth == 3
    peer.send_confirmed("COMMIT", transaction="x")
    assert gateway.stats("q").depth == 1


def test_the_window_is_freed_inside() -> None:
    gateway, peer = begun_at_gateway()
    peer.subscribe("/queue/q", **{"activemq.prefetchSize": "1"})
    peer.publish("/queue/q", b"1", b"2", b"3")
    for body in (b"1", b"2", b"3"):
        (message,) = peer.messages()
        assert message.body == body
        peer.send("ACK", id=message["ack"], transaction="x")
    peer.send("COMMIT", transaction="x")
    assert gateway.stats("q").depth == 0


def test_a_nack_inside_takes_effect_at_commit() -> None:
    gateway, peer = begun_at_gateway()
    peer.subscribe("/queue/q")
    peer.publish("/queue/q", b"1")
    peer.send("NACK", id=peer.messages()[0]["ack"], transaction="x")
    gateway.advance(5_000)
    assert peer.messages() == []
    peer.send("COMMIT", transaction="x")
    gateway.advance(1_000)
    assert peer.messages()[0]["JMSXDeliveryCount"] == "2"


@pytest.mark.parametrize("leaving", ["DISCONNECT", "vanish", "error"])
def test_whoever_leaves_aborts(leaving: str) -> None:
    gateway, peer = begun_at_gateway()
    peer.subscribe("/queue/q")
    peer.publish("/queue/q", b"1")
    (message,) = peer.messages()
    peer.publish("/queue/q", b"never", transaction="x")
    peer.send("ACK", id=message["ack"], transaction="x")
    if leaving == "vanish":
        peer.vanish()
    else:
        peer.send("DISCONNECT" if leaving == "DISCONNECT" else "COMMIT")
    heir = gateway.subscriber("/queue/q")
    (message,) = heir.messages()
    assert message.body == b"1"
    assert message["JMSXDeliveryCount"] == ("1" if leaving == "DISCONNECT" else "2")


def test_an_error_in_the_middle_aborts() -> None:
    gateway, peer = begun_at_gateway()
    peer.publish("/queue/q", b"1", transaction="x")
    peer.publish("/nowhere", b"2", transaction="x")
    peer.error()
    assert gateway.stats("q").enqueued == 0


def test_under_1_0_an_error_in_the_middle_leaves_the_transaction_open() -> None:
    gateway, peer = begun_at_gateway("1.0")
    peer.publish("/queue/q", b"1", transaction="x")
    peer.publish("/nowhere", b"2", transaction="x")
    peer.send("COMMIT", transaction="x", receipt="c")
    assert [frame.command for frame in peer.take()] == ["ERROR", "RECEIPT"]
    assert gateway.stats("q").enqueued == 1


@pytest.mark.parametrize("command", ["BEGIN", "COMMIT", "ABORT"])
def test_a_name_is_needed(command: str) -> None:
    peer = StompGateway().connect()
    peer.send(command)
    assert peer.error().body == f"{command} needs a header transaction".encode()


@pytest.mark.parametrize("command", ["COMMIT", "ABORT", "SEND"])
def test_unknown_names(command: str) -> None:
    peer = StompGateway().connect()
    peer.send(command, transaction="y", destination="/queue/q")
    error = peer.error()
    assert (error["condition"], error.body) == ("transaction-error", b"transaction 'y' is not open on this connection")


def test_an_ack_in_an_unknown_transaction() -> None:
    peer = StompGateway().subscriber("/queue/q")
    peer.publish("/queue/q", b"1")
    peer.send("ACK", id=peer.messages()[0]["ack"], transaction="y")
    assert peer.error()["condition"] == "transaction-error"


def test_begin_twice() -> None:
    peer = begun()
    peer.send("BEGIN", transaction="x")
    assert peer.error().body == b"transaction 'x' is open already"


@pytest.mark.parametrize("ending", ["COMMIT", "ABORT"])
def test_a_name_is_free_again_afterwards(ending: str) -> None:
    peer = begun()
    peer.send(ending, transaction="x")
    peer.send_confirmed("BEGIN", transaction="x")


def test_names_are_the_connection_s_own() -> None:
    gateway = StompGateway()
    first, second = begun(gateway), begun(gateway)
    first.publish("/queue/q", b"1", transaction="x")
    second.send("COMMIT", transaction="x")
    assert gateway.stats("q").enqueued == 0


def test_sixteen_side_by_side_and_no_more() -> None:
    peer = StompGateway().connect()
    for number in range(16):
        peer.send("BEGIN", transaction=str(number))
    peer.send("COMMIT", transaction="3")
    peer.send_confirmed("BEGIN", transaction="x")
    peer.send("BEGIN", transaction="y")
    assert peer.error().body == b"16 transactions are open on this connection, which is the limit"


def test_ten_thousand_actions_and_no_more() -> None:
    peer = begun()
    with peer.gateway.one_turn():
        for _ in range(10_000):
            peer.send("SEND", destination="/queue/q", transaction="x")
    assert peer.octets == b""
    peer.send("SEND", destination="/queue/q", transaction="x")
    assert peer.error().body == b"transaction 'x' has 10001 actions, the limit is 10000"


def test_sixty_four_mebibytes_and_no_more() -> None:
    peer = begun(StompGateway(settings=SessionSettings()))
    piece = b"x" * (16 * 1024 * 1024)
    for _ in range(4):
        peer.send("SEND", piece, destination="/queue/q", transaction="x")
    assert peer.octets == b""
    peer.send("SEND", b"x", destination="/queue/q", transaction="x")
    assert b"the limit is 67108864" in peer.error().body


def test_subscribe_is_never_part_of_it() -> None:
    peer = begun()
    peer.subscribe("/queue/q", transaction="x")
    peer.publish("/queue/q", b"1")
    assert peer.bodies() == [b"1"]


def test_commit_after_unsubscribe_still_consumes() -> None:
    gateway, peer = begun_at_gateway()
    peer.subscribe("/queue/q")
    peer.publish("/queue/q", b"1")
    peer.send("ACK", id=peer.messages()[0]["ack"], transaction="x")
    peer.send("UNSUBSCRIBE", id="s")
    peer.send_confirmed("COMMIT", transaction="x")
    assert gateway.stats("q").depth == 0


def test_abort_after_unsubscribe_returns_it() -> None:
    peer = begun()
    peer.subscribe("/queue/q")
    peer.publish("/queue/q", b"1")
    peer.send("ACK", id=peer.messages()[0]["ack"], transaction="x")
    peer.send("UNSUBSCRIBE", id="s")
    peer.send("ABORT", transaction="x")
    peer.subscribe("/queue/q")
    assert peer.messages()[0]["redelivered"] == "true"


def test_acknowledgements_on_topics_and_queues_in_one() -> None:
    gateway, peer = begun_at_gateway()
    peer.subscribe("/queue/q", id="q")
    peer.subscribe("/topic/t", id="t")
    peer.publish("/queue/q", b"1")
    peer.publish("/topic/t", b"2")
    for message in peer.messages():
        peer.send("ACK", id=message["ack"], transaction="x")
    peer.send_confirmed("COMMIT", transaction="x")
    assert gateway.stats("q").depth == gateway.stats("t").depth == 0
    assert gateway.memory_used() == 0


def test_acknowledging_again_after_the_commit() -> None:
    peer = begun()
    peer.subscribe("/queue/q")
    peer.publish("/queue/q", b"1")
    (message,) = peer.messages()
    peer.send("ACK", id=message["ack"], transaction="x")
    peer.send("COMMIT", transaction="x")
    peer.send("ACK", id=message["ack"])
    assert b"is not an unacknowledged message of this connection" in peer.error().body


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_an_ack_that_a_cumulative_one_of_its_transaction_covers_is_taken(version: str) -> None:
    gateway, peer = begun_at_gateway(version)
    peer.subscribe("/queue/q", "client")
    peer.publish("/queue/q", b"1", b"2", b"3", persistent="true")
    first, second, _ = peer.messages()
    for number, message in ((2, second), (1, first)):
        named = {"id": message["ack"]} if version == "1.2" else {"message_id": message["message-id"]}
        peer.send("ACK", **named, subscription="s", transaction="x", receipt=f"a{number}")
    assert peer.receipts() == ["a2", "a1"]
    peer.send_confirmed("COMMIT", transaction="x")
    assert gateway.stats("q").depth == 1


@pytest.mark.parametrize(
    ("ack", "command", "transaction"),
    [("client", "NACK", "x"), ("client", "ACK", "y"), ("client", "ACK", ""), ("client-individual", "ACK", "x")],
)
def test_what_a_transaction_holds_is_answered_otherwise_only_by_an_error(
    ack: str, command: str, transaction: str
) -> None:
    peer = begun()
    peer.send("BEGIN", transaction="y")
    peer.subscribe("/queue/q", ack)
    peer.publish("/queue/q", b"1", b"2", persistent="true")
    first, second = peer.messages()
    for message in (first, second):
        if ack == "client-individual" or message is second:
            peer.send("ACK", id=message["ack"], transaction="x")
    peer.send(command, id=first["ack"], **({"transaction": transaction} if transaction else {}))
    assert peer.error()["condition"] == "invalid-header"
