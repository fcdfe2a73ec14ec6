"""MESSAGE in each version, windows, output that is full, expiry, topics."""

from __future__ import annotations

import pytest

from protocols.stomp.session.settings import SessionSettings
from tests.support.engine.engine_world import address
from tests.support.fakes import START_WALL_MS
from tests.support.protocols.stomp_gateway import StompGateway, connected

VERSIONS = ["1.0", "1.1", "1.2"]


# -- headers of MESSAGE


def test_every_header_of_a_message() -> None:
    peer = StompGateway().subscriber("/queue/q", id="my sub")
    expires = str(START_WALL_MS + 1_000)
    peer.publish(
        "/queue/q",
        b"hello",
        persistent="true",
        priority="7",
        expires=expires,
        type="order",
        colour="red",
        **{"reply-to": "/queue/answers", "correlation-id": "c1", "content-type": "text/plain"},
    )
    (message,) = peer.messages()
    offset = message["message-id"].removeprefix("ID:c0ffee00-")
    assert offset.isdigit()
    assert message.headers == {
        "subscription": "my sub",
        "destination": "/queue/q",
        "ack": "1",
        "message-id": f"ID:c0ffee00-{offset}",
        "priority": "7",
        "expires": expires,
        "persistent": "true",
        "JMSXDeliveryCount": "1",
        "timestamp": str(START_WALL_MS),
        "type": "order",
        "colour": "red",
        "reply-to": "/queue/answers",
        "correlation-id": "c1",
        "content-type": "text/plain",
    }
    assert (message.body, message.has_length) == (b"hello", False)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plain_message_in_each_version(version: str) -> None:
    peer = StompGateway().connect(version)
    peer.subscribe("/queue/q")
    peer.publish("/queue/q", b"x")
    (message,) = peer.messages()
    assert message["message-id"] == "ID:c0ffee00-3-n1"
    assert ("ack" in message.headers) == (version == "1.2")
    assert {"persistent", "redelivered"}.isdisjoint(message.headers)
    assert message["JMSXDeliveryCount"] == "1"
    assert (message["priority"], message["expires"]) == ("4", "0")


@pytest.mark.parametrize("sender", VERSIONS)
@pytest.mark.parametrize("receiver", VERSIONS)
def test_headers_with_special_characters_cross_versions(sender: str, receiver: str) -> None:
    gateway = StompGateway()
    producer, consumer = gateway.connect(sender), gateway.connect(receiver)
    consumer.subscribe("/topic/t", "auto")
    # 1.0 has no way to write a colon in a name, or a line end.
    name = "odd" if sender == "1.0" else "o:d\nd"
    value = "a:b\\c" if sender == "1.0" else "a:b\\c\nd"
    producer.publish("/topic/t", b"", b"", **{name: value})
    first, second = consumer.messages()
    expected = (name, value)
    if receiver == "1.0":
        expected = (name.replace(":", " ").replace("\n", " "), value.replace("\n", " "))
    assert first[expected[0]] == expected[1]
    assert second.headers | {"message-id": ""} == first.headers | {"message-id": ""}


def test_the_same_message_to_receivers_of_all_versions() -> None:
    gateway = StompGateway()
    producer = gateway.connect()
    receivers = [gateway.connect(version) for version in ("1.2", "1.1", "1.0", "1.1", "1.2")]
    for receiver in receivers:
        receiver.subscribe("/topic/t", "auto")
    producer.publish("/topic/t", b"x", colour="red")
    raw = [receiver.octets for receiver in receivers]
    assert b"message-id:ID\\cc0ffee00" in raw[0]
    assert raw[0] == raw[1] == raw[3] == raw[4]
    assert b"message-id:ID:c0ffee00" in raw[2]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_subscription_header_is_escaped_by_the_version(version: str) -> None:
    peer = StompGateway().connect(version)
    peer.subscribe("/queue/a:b", id="s:1")
    peer.publish("/queue/a:b", b"x")
    (message,) = peer.messages()
    assert (message["subscription"], message["destination"]) == ("s:1", "/queue/a:b")


def test_options_of_the_destination_are_not_shown() -> None:
    peer = StompGateway().subscriber("/queue/q?consumer.prefetchSize=1")
    peer.publish("/queue/q", b"1", b"2")
    (message,) = peer.messages()
    assert message["destination"] == "/queue/q"


def test_under_1_0_a_subscription_may_have_no_id() -> None:
    peer = StompGateway().connect("1.0")
    peer.send("SUBSCRIBE", destination="/queue/q")
    peer.publish("/queue/q", b"1")
    (message,) = peer.messages()
    assert "subscription" not in message.headers
    peer.send_confirmed("UNSUBSCRIBE", destination="/queue/q")


def test_bytes_come_back_with_a_content_length() -> None:
    peer = StompGateway().subscriber("/queue/q", "auto")
    peer.publish("/queue/q", b"a\0b", b"abc", content_length="3")
    first, second = peer.messages()
    assert (first.body, first.has_length, second.has_length) == (b"a\0b", True, True)


def test_a_text_with_a_nul_arrives_whole() -> None:
    peer = StompGateway().subscriber("/queue/q", "auto")
    peer.publish("/queue/q", b"a\0b", **{"content-length": "3", "amq-msg-type": "text"})
    assert peer.bodies() == [b"a\0b"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_s_timestamp_is_kept(version: str) -> None:
    peer = StompGateway().connect(version)
    peer.subscribe("/queue/q", "auto")
    peer.publish("/queue/q", b"x", timestamp="12:34")
    (message,) = peer.messages()
    assert message["timestamp"] == "12:34"


def test_a_client_cannot_forge_what_only_the_broker_knows() -> None:
    peer = StompGateway().subscriber("/queue/q", "auto")
    forged = {"message-id": "mine", "redelivered": "true", "JMSXDeliveryCount": "9", "subscription": "x", "ack": "1"}
    peer.publish("/queue/q", b"x", **forged)
    (message,) = peer.messages()
    assert message["message-id"] == "ID:c0ffee00-3-n1"
    assert message["JMSXDeliveryCount"] == "1"
    assert {"redelivered", "ack"}.isdisjoint(message.headers)


def test_control_headers_are_not_stored() -> None:
    peer = StompGateway().subscriber("/queue/q", "auto")
    peer.send("BEGIN", transaction="t")
    peer.publish("/queue/q", b"x", transaction="t", receipt="r")
    peer.send("COMMIT", transaction="t")
    frames = peer.take()
    assert {"transaction", "receipt"}.isdisjoint(frames[-1].headers)


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_redelivery_says_so_and_how_often_with_the_same_id(version: str) -> None:
    gateway, peer = connected(version)
    peer.subscribe("/queue/q")
    peer.publish("/queue/q", b"x", persistent="true")
    (first,) = peer.messages()
    peer.send(
        "NACK",
        **({"id": first["ack"]} if version == "1.2" else {"message-id": first["message-id"], "subscription": "s"}),
    )
    gateway.advance(1_000)
    (second,) = peer.messages()
    assert (second["redelivered"], second["JMSXDeliveryCount"]) == ("true", "2")
    assert second["message-id"] == first["message-id"]
    if version == "1.2":
        assert second["ack"] != first["ack"]


def test_automatic_redelivery_says_so_too() -> None:
    gateway, peer = connected()
    peer.subscribe("/queue/q")
    peer.publish("/queue/q", b"x")
    peer.vanish()
    for version in VERSIONS[:1]:
        heir = gateway.connect(version)
        heir.subscribe("/queue/q", "auto")
        (message,) = heir.messages()
        assert (message["redelivered"], message["JMSXDeliveryCount"]) == ("true", "2")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_dead_letter_names_its_origin_in_every_version(version: str) -> None:
    gateway = StompGateway(address("q", nack="dead-letter"))
    peer = gateway.subscriber("/queue/q")
    peer.publish("/queue/q", b"x", colour="red")
    peer.send("NACK", id=peer.messages()[0]["ack"])
    operator = gateway.connect(version)
    operator.subscribe("/queue/ActiveMQ.DLQ", "auto")
    (dead,) = operator.messages()
    assert dead["original-destination"] == "/queue/q"
    assert dead["dlqDeliveryFailureCause"] == "nack: delivery 1 failed"
    assert dead["originalMessageId"] == "ID:c0ffee00-3-n1"
    assert dead["originalDeliveryMode"] == "NON_PERSISTENT"
    assert (dead["persistent"], dead["colour"], dead.body) == ("true", "red", b"x")


# -- windows


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize(
    ("destination", "headers", "expected"),
    [
        ("/queue/q", {"activemq.prefetchSize": "3"}, 3),
        ("/queue/q?consumer.prefetchSize=4", {}, 4),
        ("/queue/q?consumer.prefetchSize=4", {"activemq.prefetchSize": "2"}, 2),
        ("/queue/q", {"activemq.prefetchSize": "0"}, 1),
        ("/queue/q", {}, 6),
    ],
)
def test_where_the_window_comes_from(destination: str, headers: dict[str, str], expected: int) -> None:
    peer = StompGateway(address("q", prefetch__queue_prefetch=6)).subscriber(destination, **headers)
    peer.publish("/queue/q", *numbered(10))
    assert peer.bodies() == numbered(10)[:expected]


def test_cumulative_acknowledgement_frees_all_it_covers() -> None:
    peer = StompGateway().subscriber("/queue/q", "client", **{"activemq.prefetchSize": "10"})
    peer.publish("/queue/q", *numbered(30))
    peer.send("ACK", id=peer.messages()[4]["ack"])
    assert peer.bodies() == numbered(30)[10:15]


def test_pull_over_stomp_is_one_at_a_time_and_never_silence() -> None:
    peer = StompGateway().subscriber("/queue/q", **{"activemq.prefetchSize": "0"})
    peer.publish("/queue/q", *numbered(3))
    for body in numbered(3):
        (message,) = peer.messages()
        assert message.body == body
        peer.send("ACK", id=message["ack"])


def test_pull_with_automatic_acknowledgement_is_explained() -> None:
    peer = StompGateway().subscriber("/queue/q", "auto", **{"activemq.prefetchSize": "0"})
    error = peer.error()
    assert error["condition"] == "invalid-option"
    assert b"use ack client or client-individual" in error.body


def test_a_misspelt_header_is_warned_about() -> None:
    peer = StompGateway().subscriber("/queue/q", **{"activemq.prefetchsize": "1"}, receipt="r")
    assert peer.receipts() == ["r"]
    assert peer.link.warnings == [
        "SUBSCRIBE has 'activemq.prefetchsize': unknown option (did you mean 'activemq.prefetchSize'?)"
    ]


def test_in_strict_mode_it_is_refused() -> None:
    peer = StompGateway(settings=SessionSettings(is_strict=True)).subscriber(
        "/queue/q", **{"activemq.prefetchsize": "1"}
    )
    assert peer.error()["condition"] == "invalid-option"


# -- output that is full


def test_no_more_is_handed_over_than_a_turn_s_output_may_hold() -> None:
    gateway = StompGateway(settings=SessionSettings(unread_output_bytes=1_000))
    peer = gateway.connect()
    peer.publish("/queue/q", *[b"x" * 400] * 10)
    peer.is_stuck = True
    peer.subscribe("/queue/q")
    got = peer.bodies()
    assert len(got) == 2
    assert gateway.broker.inspect().consumers[0].gate == "socket-paused"
    peer.drain()
    assert len(got) + len(peer.bodies()) == 10


def test_automatic_acknowledgement_does_not_empty_a_queue_into_a_stuck_socket() -> None:
    gateway = StompGateway(settings=SessionSettings(unread_output_bytes=1_000))
    peer = gateway.connect()
    peer.publish("/queue/q", *[b"x" * 400] * 10)
    peer.is_stuck = True
    peer.subscribe("/queue/q", "auto")
    assert len(peer.bodies()) == 2
    assert gateway.stats("q").depth == 8
    peer.drain()
    assert len(peer.bodies()) == 8


def test_a_topic_s_slow_subscriber_pends_and_loses_nothing() -> None:
    gateway = StompGateway()
    producer, slow, quick = (gateway.connect() for _ in range(3))
    for peer in (slow, quick):
        peer.subscribe("/topic/t", "auto")
    slow.is_stuck = True
    producer.publish("/topic/t", *numbered(20))
    assert quick.bodies() == numbered(20)
    early = slow.bodies()
    assert len(early) < 20
    assert gateway.memory_used() > 0
    slow.drain()
    assert early + slow.bodies() == numbered(20)
    assert gateway.memory_used() == 0


def test_other_connections_go_on_while_one_is_stuck() -> None:
    gateway = StompGateway()
    stuck, good = gateway.connect(), gateway.connect()
    stuck.is_stuck = True
    stuck.subscribe("/queue/q", "auto")
    good.subscribe("/queue/q", "auto")
    gateway.connect().publish("/queue/q", *numbered(10))
    assert sorted(stuck.bodies() + good.bodies()) == numbered(10)
    assert len(good.bodies() + [b""]) == 1


# -- expiry


def test_expired_messages_do_not_arrive() -> None:
    gateway, peer = connected()
    peer.publish("/queue/q", b"short", expires=str(START_WALL_MS + 100), persistent="true")
    peer.publish("/queue/q", b"long", expires="0", persistent="true")
    gateway.advance(100)
    peer.subscribe("/queue/q")
    assert peer.bodies() == [b"long"]
    assert gateway.stats("q").expired == 1


def test_the_scan_moves_expired_messages_to_the_expiry_address() -> None:
    gateway = StompGateway(address("q", expiry_address="expired"))
    peer = gateway.connect()
    peer.publish("/queue/q", b"short", expires=str(START_WALL_MS + 100))
    gateway.advance(30_000)
    assert gateway.stats("q").depth == 0
    peer.subscribe("/queue/expired", "auto")
    (message,) = peer.messages()
    assert message["dlqDeliveryFailureCause"] == f"Message Expired. Expiration:{START_WALL_MS + 100}"
    assert (message["original-destination"], message["expires"]) == ("/queue/q", "0")


# -- topics


def test_a_topic_without_subscribers_still_confirms() -> None:
    peer = StompGateway().connect()
    peer.publish("/topic/t", b"x", receipt="1")
    peer.publish("/topic/t", b"x", receipt="2", persistent="true")
    assert peer.receipts() == ["1", "2"]


def test_two_subscriptions_of_one_connection_to_one_topic() -> None:
    peer = StompGateway().connect()
    for id in ("a", "b"):
        peer.subscribe("/topic/t", id=id)
    peer.publish("/topic/t", b"x")
    messages = peer.messages()
    assert [message["subscription"] for message in messages] == ["a", "b"]
    assert messages[0]["message-id"] == messages[1]["message-id"]
    peer.send("ACK", id=messages[1]["message-id"], subscription="b", receipt="1")
    peer.send("ACK", id=messages[0]["ack"], receipt="2")
    assert peer.receipts() == ["1", "2"]


def test_a_new_subscriber_gets_what_comes_after_its_receipt() -> None:
    gateway = StompGateway()
    gateway.syncs = False
    peer = gateway.connect()
    with gateway.one_turn():
        peer.publish("/queue/other", b"x", persistent="true")
        peer.subscribe("/topic/t", "auto", receipt="s")
        peer.publish("/topic/t", b"1")
    assert peer.octets == b""
    gateway.sync()
    receipt, message = peer.take()
    assert (receipt["receipt-id"], message.body) == ("s", b"1")


def test_the_subscriptions_of_a_connection_have_a_limit() -> None:
    peer = StompGateway(settings=SessionSettings(subscriptions=2)).subscriber("/queue/a", id="1")
    peer.subscribe("/queue/b", id="2")
    peer.send("UNSUBSCRIBE", id="1")
    peer.subscribe("/queue/c", id="3")
    peer.subscribe("/queue/d", id="4")
    error = peer.error()
    assert error["condition"] == "limit-reached"
    assert b"2 subscriptions are open" in error.body


@pytest.mark.parametrize(
    ("name", "receivers", "is_shared"), [("/queue/d", 1, False), ("/topic/d", 1, False), ("/topic/d", 2, True)]
)
def test_only_what_several_receivers_share_is_kept_encoded(name: str, receivers: int, is_shared: bool) -> None:
    gateway = StompGateway()
    for _ in range(receivers):
        peer = gateway.subscriber(name)
    peer.publish(name, b"body")
    (delivery,) = peer.session.by_ack.values()
    assert (delivery.message.wire is not None) == is_shared
    assert peer.bodies() == [b"body"]


def test_what_goes_straight_to_several_subscribers_is_encoded_once() -> None:
    gateway = StompGateway()
    producer, *receivers = (gateway.connect() for _ in range(3))
    for peer in receivers:
        peer.subscribe("/topic/d", "auto")
    with gateway.one_turn():
        producer.publish("/topic/d", b"body")
        one, other = (peer.session.outbox.parts[-1] for peer in receivers)
        assert one is other and b"body" in one
    assert [peer.bodies() for peer in receivers] == [[b"body"], [b"body"]]


def test_a_send_into_a_transaction_that_is_not_open_makes_no_destination() -> None:
    gateway, peer = connected()
    peer.publish("/queue/new", b"x", transaction="none")
    assert peer.error()["condition"] == "transaction-error"
    assert gateway.queue_names() == []
