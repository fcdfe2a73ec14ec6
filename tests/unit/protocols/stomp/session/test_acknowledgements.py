"""ACK and NACK: three modes, each version's form, unknown and repeated ones (STOMP 1.2, "ACK", "NACK")."""

from __future__ import annotations

import pytest

from tests.support.engine.engine_world import address
from tests.support.protocols.stomp_gateway import Peer, Received, StompGateway, connected

VERSIONS = ["1.0", "1.1", "1.2"]


def form(peer: Peer, message: Received, version: str) -> dict[str, str]:
    """Return the headers by which each version names a message."""
    if version == "1.2":
        return {"id": message["ack"]}
    named = {"message-id": message["message-id"]}
    return named if version == "1.0" else named | {"subscription": message["subscription"]}


def with_messages(
    version: str, ack: str, count: int, *, gateway: StompGateway | None = None
) -> tuple[Peer, list[Received]]:
    peer = (gateway or StompGateway()).connect(version)
    peer.subscribe("/queue/q", ack)
    peer.publish("/queue/q", *(b"%d" % number for number in range(count)), persistent="true")
    return peer, peer.messages()


def left(peer: Peer) -> list[bytes]:
    """Return what is still on the queue once ``peer`` has gone."""
    peer.vanish()
    heir = peer.gateway.subscriber("/queue/q", "auto")
    return heir.bodies()


@pytest.mark.parametrize("version", VERSIONS)
def test_client_individual_covers_one(version: str) -> None:
    peer, messages = with_messages(version, "client-individual", 4)
    peer.send_confirmed("ACK", **form(peer, messages[2], version))
    assert left(peer) == [b"0", b"1", b"3"]


@pytest.mark.parametrize("version", VERSIONS)
def test_client_covers_all_before(version: str) -> None:
    peer, messages = with_messages(version, "client", 4)
    peer.send_confirmed("ACK", **form(peer, messages[2], version))
    assert left(peer) == [b"3"]


@pytest.mark.parametrize("version", VERSIONS)
def test_auto_needs_none_and_takes_one_kindly(version: str) -> None:
    peer, messages = with_messages(version, "auto", 2)
    named = {"message-id": messages[0]["message-id"], "id": messages[0]["message-id"], "subscription": "s"}
    peer.send_confirmed("ACK", **named)
    assert left(peer) == []


@pytest.mark.parametrize(
    ("ack", "before", "command", "headers"),
    [
        pytest.param("auto", "", "NACK", {}, id="NACK in auto mode"),
        pytest.param("client", "ACK", "ACK", {}, id="a later ACK covers it"),
        pytest.param("client", "NACK", "ACK", {}, id="a later NACK covers it"),
        pytest.param("client-individual", "NACK", "ACK", {}, id="refused before"),
        pytest.param("client-individual", "", "ACK", {"subscription": "other"}, id="of another subscription"),
    ],
)
def test_an_answer_that_is_an_error(ack: str, before: str, command: str, headers: dict[str, str]) -> None:
    peer, messages = with_messages("1.2", ack, 3)
    names = [message.headers.get("ack", message["message-id"]) for message in messages]
    if before:
        peer.send(before, id=names[2 if ack == "client" else 0])
        peer.take()
    peer.send(command, id=names[0], **headers)
    assert peer.error()["condition"] == "invalid-header"


def test_1_2_takes_the_message_id_as_id_like_stomp_php() -> None:
    peer, messages = with_messages("1.2", "client-individual", 3)
    name = messages[1]["message-id"]
    peer.send("ACK", **{"id": name, "message-id": name}, receipt="r1")
    peer.send("ACK", id=messages[2]["message-id"], subscription="s", receipt="r2")
    peer.send("ACK", **{"message-id": messages[0]["message-id"]}, receipt="r3")
    assert peer.receipts() == ["r1", "r2", "r3"]
    assert left(peer) == []


def test_1_2_finds_a_message_by_its_id_that_came_again() -> None:
    peer = StompGateway().connect("1.2")
    peer.subscribe("/queue/q")
    for _ in range(3):
        peer.publish("/queue/q", b"x")
        name = peer.messages()[0]["message-id"]
        peer.send("NACK", id=name, requeue="true")
        assert peer.messages()[0]["message-id"] == name
        peer.send_confirmed("ACK", id=name)
    peer.send("ACK", id=name)
    assert peer.error()["condition"] == "invalid-header"


def test_1_2_with_other_headers_beside_the_ack_id() -> None:
    peer, messages = with_messages("1.2", "client-individual", 2)
    peer.send_confirmed("ACK", id=messages[0]["ack"], subscription="s", **{"message-id": messages[0]["message-id"]})
    assert left(peer) == [b"1"]


def test_1_1_without_subscription_where_it_is_not_ambiguous() -> None:
    peer, messages = with_messages("1.1", "client-individual", 2)
    peer.send_confirmed("ACK", **{"message-id": messages[0]["message-id"]})


def test_1_1_with_the_id_header_of_1_2() -> None:
    peer, messages = with_messages("1.1", "client-individual", 2)
    peer.send_confirmed("ACK", id=messages[0]["message-id"])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("command", ["ACK", "NACK"])
def test_unknown_names(version: str, command: str) -> None:
    peer, _ = with_messages(version, "client-individual", 1)
    name = {"id": "4711"} if version == "1.2" else {"message-id": "ID:x", "subscription": "s"}
    peer.send(command, **name, receipt="r")
    (error,) = peer.take()
    assert (error.command, error["receipt-id"], error["condition"]) == ("ERROR", "r", "invalid-header")
    assert b"is not an unacknowledged message of this connection" in error.body
    assert peer.is_closed == (version != "1.0")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_acknowledging_twice(version: str, ack: str) -> None:
    peer, messages = with_messages(version, ack, 2)
    named = form(peer, messages[1], version)
    peer.send("ACK", **named)
    peer.send("ACK", **named)
    (error,) = peer.take()
    assert error["condition"] == "invalid-header"


@pytest.mark.parametrize(("version", "header"), [("1.0", "message-id"), ("1.1", "message-id"), ("1.2", "id")])
def test_an_ack_that_names_nothing(version: str, header: str) -> None:
    peer, _ = with_messages(version, "client-individual", 1)
    peer.send("ACK", receipt="r")
    (error,) = peer.take()
    assert error.body == f"ACK needs a header {header}".encode()


def test_another_subscription_s_message() -> None:
    peer, messages = with_messages("1.1", "client-individual", 1)
    peer.subscribe("/queue/other", id="t")
    peer.send("ACK", **{"message-id": messages[0]["message-id"], "subscription": "t"})
    assert peer.error()["condition"] == "invalid-header"


def test_ack_ids_are_unique_on_the_connection_over_subscriptions() -> None:
    peer = StompGateway().subscriber("/queue/a", id="a")
    peer.subscribe("/queue/b", id="b")
    peer.publish("/queue/a", b"1", b"2")
    peer.publish("/queue/b", b"3", b"4")
    acks = [message["ack"] for message in peer.messages()]
    assert len(set(acks)) == 4
    for ack in reversed(acks):
        peer.send("ACK", id=ack)
    assert peer.octets == b""


def test_cumulative_acknowledgement_stays_within_its_subscription() -> None:
    gateway, peer = connected()
    for id in ("a", "b"):
        peer.subscribe(f"/queue/{id}", "client", id=id)
    peer.publish("/queue/a", b"a1")
    peer.publish("/queue/b", b"b1")
    peer.publish("/queue/a", b"a2")
    messages = peer.messages()
    peer.send("ACK", id=messages[2]["ack"])
    assert (gateway.stats("a").depth, gateway.stats("b").depth) == (0, 1)


def test_acknowledgements_out_of_order() -> None:
    peer, messages = with_messages("1.2", "client-individual", 5)
    for index in (4, 0, 2):
        peer.send("ACK", id=messages[index]["ack"])
    assert left(peer) == [b"1", b"3"]


def test_the_outcome_is_durable_before_the_receipt() -> None:
    gateway = StompGateway()
    peer, messages = with_messages("1.2", "client-individual", 1, gateway=gateway)
    gateway.syncs = False
    peer.send("ACK", id=messages[0]["ack"], receipt="r")
    assert peer.octets == b""
    gateway.sync()
    assert peer.receipts() == ["r"]


def test_acknowledgements_on_a_topic_wait_for_nothing() -> None:
    gateway, peer = connected()
    peer.subscribe("/topic/t")
    peer.publish("/topic/t", b"x", persistent="true")
    gateway.syncs = False
    peer.send_confirmed("ACK", id=peer.messages()[0]["ack"])


# -- NACK


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_nack_waits_for_the_delay_and_ends_on_the_dead_letter_queue(version: str) -> None:
    gateway = StompGateway(address("q", redelivery__maximum_redeliveries=2))
    peer, messages = with_messages(version, "client-individual", 1, gateway=gateway)
    counts = []
    while messages:
        (message,) = messages
        counts.append(int(message["JMSXDeliveryCount"]))
        peer.send_confirmed("NACK", **form(peer, message, version))
        gateway.advance(999)
        assert peer.messages() == []
        gateway.advance(1)
        messages = peer.messages()
    assert counts == [1, 2, 3]
    assert gateway.stats("ActiveMQ.DLQ").depth == 1


def test_nack_with_requeue_goes_back_at_once_and_counts_nothing() -> None:
    peer, (message,) = with_messages("1.2", "client-individual", 1)
    peer.send("NACK", id=message["ack"], requeue="true")
    (again,) = peer.messages()
    assert (again["redelivered"], again["JMSXDeliveryCount"]) == ("true", "1")


def test_nack_with_requeue_false_gives_the_message_up_with_the_client_s_reason() -> None:
    gateway = StompGateway()
    peer, (message,) = with_messages("1.1", "client-individual", 1, gateway=gateway)
    peer.send("NACK", **form(peer, message, "1.1"), requeue="false", reason="no such customer")
    peer.subscribe("/queue/ActiveMQ.DLQ", "auto", "d")
    (dead,) = peer.messages()
    assert "no such customer" in dead["dlqDeliveryFailureCause"]
    assert dead["original-destination"] == "/queue/q"


@pytest.mark.parametrize(("headers", "count"), [({}, "2"), ({"requeue": "true"}, "1")])
def test_nack_with_a_delay_waits_so_long(headers: dict[str, str], count: str) -> None:
    gateway = StompGateway(address("q", redelivery__initial_redelivery_delay_ms=60_000))
    peer, (message,) = with_messages("1.2", "client-individual", 1, gateway=gateway)
    peer.send("NACK", id=message["ack"], delay="250", **headers)
    gateway.advance(249)
    assert peer.messages() == []
    gateway.advance(1)
    (again,) = peer.messages()
    assert again["JMSXDeliveryCount"] == count


def test_nack_in_a_transaction_keeps_what_it_asked_for() -> None:
    gateway = StompGateway()
    peer, (message,) = with_messages("1.2", "client-individual", 1, gateway=gateway)
    peer.send("BEGIN", transaction="t")
    peer.send("NACK", id=message["ack"], transaction="t", requeue="false")
    assert gateway.stats("q").depth == 1
    peer.send("COMMIT", transaction="t")
    assert (gateway.stats("q").depth, gateway.stats("ActiveMQ.DLQ").depth) == (0, 1)


def test_nack_in_client_mode_covers_all_before() -> None:
    gateway = StompGateway()
    peer, messages = with_messages("1.2", "client", 3, gateway=gateway)
    peer.send("NACK", id=messages[1]["ack"])
    assert gateway.stats("q").delayed == 2
    gateway.advance(1_000)
    assert [(one.body, one["JMSXDeliveryCount"]) for one in peer.messages()] == [(b"0", "2"), (b"1", "2")]


def test_ack_and_nack_mixed() -> None:
    gateway = StompGateway()
    peer, messages = with_messages("1.2", "client-individual", 4, gateway=gateway)
    peer.send("NACK", id=messages[0]["ack"])
    peer.send("ACK", id=messages[1]["ack"])
    peer.send("NACK", id=messages[3]["ack"])
    peer.send("ACK", id=messages[2]["ack"])
    gateway.advance(1_000)
    assert peer.bodies() == [b"0", b"3"]


# -- subscriptions


def test_a_subscription_needs_a_destination() -> None:
    peer = StompGateway().connect()
    peer.send("SUBSCRIBE", id="1")
    assert peer.error().body == b"SUBSCRIBE needs a header destination"


def test_an_unknown_ack_mode() -> None:
    peer = StompGateway().subscriber("/queue/q", "sometimes")
    assert peer.error().body == b"ack is 'sometimes'; allowed are auto, client, client-individual"


def test_unsubscribe_gives_back_and_counts_nothing() -> None:
    gateway = StompGateway()
    peer, messages = with_messages("1.2", "client-individual", 3, gateway=gateway)
    peer.send("ACK", id=messages[0]["ack"])
    peer.send_confirmed("UNSUBSCRIBE", id="s")
    peer.publish("/queue/q", b"3", receipt="p")
    assert peer.receipts() == ["p"], "no MESSAGE after the receipt"
    peer.subscribe("/queue/q")
    found = [(one.body, one["JMSXDeliveryCount"], one.headers.get("redelivered")) for one in peer.messages()]
    assert found == [(b"1", "1", "true"), (b"2", "1", "true"), (b"3", "1", None)]


def test_acknowledging_after_unsubscribe() -> None:
    peer, messages = with_messages("1.2", "client-individual", 1)
    peer.send("UNSUBSCRIBE", id="s")
    peer.send("ACK", id=messages[0]["ack"])
    assert peer.error()["condition"] == "invalid-header"


def test_unsubscribe_needs_an_id_that_is_there() -> None:
    peer = StompGateway().connect()
    peer.send("UNSUBSCRIBE", destination="/queue/q")
    assert peer.error().body == b"UNSUBSCRIBE needs a header id"
    peer = StompGateway().connect()
    peer.send("UNSUBSCRIBE", id="x")
    assert b"which is not a subscription of this connection" in peer.error().body


def test_an_id_may_be_used_again_after_unsubscribe() -> None:
    peer = StompGateway().subscriber("/queue/a")
    peer.send("UNSUBSCRIBE", id="s")
    peer.subscribe("/queue/b", receipt="r")
    assert peer.receipts() == ["r"]


@pytest.mark.parametrize("tail", ["", "x", "-1", "\u0661", "9" * 30])
def test_a_message_id_that_only_looks_like_one_names_nothing(tail: str) -> None:
    peer = StompGateway().subscriber("/queue/q")
    peer.publish("/queue/q", b"1")
    (message,) = peer.messages()
    prefix = message["message-id"].rpartition("-")[0] + "-"
    peer.send("ACK", id=prefix + tail, subscription="s")
    assert peer.error()["condition"] == "invalid-header"


def held_twice(version: str) -> tuple[Peer, str]:
    """Return a peer whose subscriptions a and b have one message, and the message's id."""
    peer = StompGateway().connect(version)
    peer.subscribe("/topic/t", id="a")
    peer.subscribe("/topic/t", id="b")
    return peer, held_by_both(peer, b"1")


def held_by_both(peer: Peer, body: bytes) -> str:
    peer.publish("/topic/t", body)
    return peer.messages()[0]["message-id"]


def test_1_1_names_the_subscription_where_two_have_the_message() -> None:
    peer, name = held_twice("1.1")
    peer.send_confirmed("ACK", message_id=name, subscription="b")
    peer.send("ACK", message_id=name, receipt="r2")
    assert peer.receipts() == ["r2"], "only one has it now"
    peer.send("ACK", message_id=held_by_both(peer, b"2"))
    error = peer.error()
    assert error["condition"] == "invalid-header"
    assert b"header subscription" in error.body


def test_1_2_by_message_id_names_the_subscription_where_two_have_the_message() -> None:
    peer, name = held_twice("1.2")
    peer.send_confirmed("ACK", id=name, subscription="b")
    peer.send("ACK", id=held_by_both(peer, b"2"))
    assert b"header subscription" in peer.error().body


def test_1_0_has_no_such_header_and_takes_one_after_the_other() -> None:
    peer, name = held_twice("1.0")
    peer.send("ACK", message_id=name, receipt="r1")
    peer.send("ACK", message_id=name, receipt="r2")
    assert peer.receipts() == ["r1", "r2"]


@pytest.mark.parametrize("command", ["ACK", "NACK"])
def test_1_0_finds_what_a_client_escapes_that_should_not(command: str) -> None:
    # Go's go-stomp escapes header values in every version.
    peer = StompGateway().connect("1.0")
    peer.subscribe("/queue/q", id="a:b")
    peer.publish("/queue/q", b"1", persistent="true")
    escaped = peer.messages()[0]["message-id"].replace(":", "\\c")
    assert "\\c" in escaped
    peer.send_confirmed(command, message_id=escaped, subscription="a\\cb")


def acks(version: str, messages: list[Received]) -> bytes:
    """Return what settles the messages, in one read."""
    lines = {
        "1.0": b"ACK\nmessage-id:%b\n\n\0",
        "1.1": b"ACK\nmessage-id:%b\nsubscription:s\n\n\0",
        "1.2": b"ACK\nid:%b\n\n\0",
    }
    name = "ack" if version == "1.2" else "message-id"
    return b"".join([lines[version] % message[name].encode() for message in messages])


@pytest.mark.parametrize("version", VERSIONS)
def test_those_of_one_read_make_room_for_the_send_behind_them(version: str) -> None:
    gateway = StompGateway(address("q", full__address_full_policy="FAIL", full__max_size_messages=3))
    peer, messages = with_messages(version, "client-individual", 3, gateway=gateway)
    send = b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:r\n\n\0"
    peer.send_octets(acks(version, messages[:2]) + send + acks(version, messages[2:]))
    assert [frame.command for frame in peer.take()] == ["MESSAGE", "RECEIPT"]
    assert (gateway.stats("q").acknowledged, gateway.stats("q").depth) == (3, 1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("last", [b"NONSENSE\n\n\0", b"UNSUBSCRIBE\nid:s\n\n\0", b"DISCONNECT\n\n\0"])
def test_those_of_one_read_count_before_what_ends_their_subscription(version: str, last: bytes) -> None:
    peer, messages = with_messages(version, "client-individual", 4)
    peer.send_octets(acks(version, [messages[0], messages[2]]) + last)
    assert left(peer) == [b"1", b"3"]


def test_cumulative_ones_come_after_individual_ones_of_the_same_read() -> None:
    peer, messages = with_messages("1.2", "client-individual", 2)
    peer.subscribe("/queue/other", "client", id="other")
    peer.publish("/queue/other", b"a", b"b", b"c")
    others = peer.messages()
    peer.send_octets(acks("1.2", [messages[1], others[1], messages[0]]))
    assert peer.gateway.stats("q").depth == 0
    assert peer.gateway.stats("other").depth == 1
