"""Destinations of every kind, as a STOMP client meets them (docs/reference/stomp.md)."""

from __future__ import annotations

import pytest

from tests.support.protocols.stomp_gateway import Peer, StompGateway, connected

VERSIONS = ["1.0", "1.1", "1.2"]


def from_where(peer: Peer) -> list[tuple[bytes, str]]:
    return [(message.body, message["destination"]) for message in peer.messages()]


# -- wildcards


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_a_wildcard_takes_from_what_is_there_and_what_comes(version: str, kind: str) -> None:
    gateway = StompGateway()
    producer, consumer = gateway.connect(), gateway.connect(version)
    producer.publish(f"/{kind}/orders.eu", b"early")
    consumer.subscribe(f"/{kind}/orders.>", "auto")
    consumer.take()
    for name in ("orders.eu", "orders.us.east", "other", "orders.eu"):
        producer.publish(f"/{kind}/{name}", name.encode())
    assert from_where(consumer) == [
        (b"orders.eu", f"/{kind}/orders.eu"),
        (b"orders.us.east", f"/{kind}/orders.us.east"),
        (b"orders.eu", f"/{kind}/orders.eu"),
    ]


def test_messages_of_a_wildcard_are_acknowledged_where_they_came_from() -> None:
    gateway, peer = connected()
    peer.subscribe("/queue/orders.*", "client", **{"activemq.prefetchSize": "3"})
    peer.publish("/queue/orders.eu", b"1", b"2")
    peer.publish("/queue/orders.us", b"3", b"4")
    messages = peer.messages()
    assert [message.body for message in messages] == [b"1", b"2", b"3"], "one window for all"
    peer.send("ACK", id=messages[2]["ack"])
    assert from_where(peer) == [(b"4", "/queue/orders.us")]
    assert gateway.stats("orders.eu").depth == 0
    assert gateway.stats("orders.us").depth == 1


# -- composite destinations


def test_a_message_to_a_composite_destination_goes_to_each() -> None:
    gateway = StompGateway()
    producer, consumer = gateway.connect(), gateway.connect()
    consumer.subscribe("/queue/a", "auto", id="a")
    consumer.subscribe("/queue/b", "auto", id="b")
    consumer.subscribe("/topic/c", "auto", id="c")
    producer.publish("/queue/a,queue://b,/topic/c", b"x", persistent="true", receipt="r")
    assert producer.receipts() == ["r"]
    messages = consumer.messages()
    assert {message["destination"] for message in messages} == {"/queue/a", "/queue/b", "/topic/c"}
    assert len({message["message-id"] for message in messages}) == 3


def test_a_composite_destination_in_a_transaction() -> None:
    gateway, peer = connected()
    peer.send("BEGIN", transaction="t")
    peer.publish("/queue/a,b", b"x", transaction="t")
    assert (gateway.stats("a").depth, gateway.stats("b").depth) == (0, 0)
    peer.send("COMMIT", transaction="t")
    assert (gateway.stats("a").depth, gateway.stats("b").depth) == (1, 1)


@pytest.mark.parametrize("names", ["/topic/a,/topic/a", "/topic/a,/topic/*", "/topic/>,/topic/*,/topic/a"])
def test_a_list_that_names_a_topic_more_than_once_gets_its_messages_once(names: str) -> None:
    gateway = StompGateway()
    producer, consumer = gateway.connect(), gateway.connect()
    consumer.subscribe(names, "auto")
    consumer.take()
    producer.publish("/topic/a", b"1", b"2")
    assert from_where(consumer) == [(b"1", "/topic/a"), (b"2", "/topic/a")]


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
def test_a_list_with_a_name_that_is_refused_makes_nothing(command: str) -> None:
    gateway, peer = connected()
    peer.send(command, destination="/queue/a,/topic/b,/queue/c..d", id="s")
    (error,) = peer.take()
    assert error.command == "ERROR" and b"c..d" in error.body
    assert not gateway.has_destinations()


def test_a_subscription_to_several_destinations() -> None:
    gateway = StompGateway()
    producer, consumer = gateway.connect(), gateway.connect()
    consumer.subscribe("/queue/a,/topic/b,/queue/c.*", "auto", id="s")
    for destination in ("/queue/a", "/topic/b", "/queue/c.d"):
        producer.publish(destination, destination.encode())
    messages = consumer.messages()
    assert [message.body.decode() for message in messages] == [message["destination"] for message in messages]
    assert {message["destination"] for message in messages} == {"/queue/a", "/topic/b", "/queue/c.d"}
    assert {message["subscription"] for message in messages} == {"s"}
    consumer.send("UNSUBSCRIBE", id="s", receipt="u")
    producer.publish("/queue/a", b"later")
    assert consumer.receipts() == ["u"]


# -- temporary destinations


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_request_and_reply_by_a_temporary_destination(kind: str) -> None:
    gateway = StompGateway()
    asking, answering = gateway.connect(), gateway.connect("1.1")
    answering.subscribe("/queue/questions", "auto")
    asking.subscribe(f"/temp-{kind}/answers", "auto", id="answers")
    asking.publish("/queue/questions", b"?", **{"reply-to": f"/temp-{kind}/answers", "correlation-id": "7"})
    (question,) = answering.messages()
    assert question["reply-to"].startswith(f"/remote-temp-{kind}/ID:")
    answering.publish(question["reply-to"], b"!", **{"correlation-id": question["correlation-id"]})
    (answer,) = asking.messages()
    assert (answer.body, answer["correlation-id"], answer["subscription"]) == (b"!", "7", "answers")
    assert answer["destination"] == f"/temp-{kind}/answers"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_shared", [False, True])
def test_one_s_own_temporary_destination_comes_back_by_the_name_it_was_given(version: str, is_shared: bool) -> None:
    gateway = StompGateway()
    peer, other = gateway.connect(version), gateway.connect(version)
    source = "/topic/questions" if is_shared else "/queue/questions"
    peer.subscribe(source, "auto", id="1")
    if is_shared:
        other.subscribe(source, "auto", id="1")
    peer.subscribe("/temp-queue/answers,/temp-topic/news", "auto", id="2")
    peer.publish(source, b"?", **{"reply-to": "/temp-queue/answers"})
    peer.publish("/temp-topic/news", b"!", **{"reply-to": "/temp-topic/news"})
    question, news = peer.messages()
    assert question["reply-to"] == "/temp-queue/answers"
    assert (news["destination"], news["reply-to"]) == ("/temp-topic/news", "/temp-topic/news")
    if is_shared:
        assert other.messages()[0]["reply-to"].startswith("/remote-temp-queue/ID:")


def test_the_same_name_on_two_connections_is_two_destinations() -> None:
    gateway = StompGateway()
    first, second = gateway.connect(), gateway.connect()
    for peer, body in ((first, b"1"), (second, b"2")):
        peer.publish("/temp-queue/a", body)
        peer.subscribe("/temp-queue/a", "auto")
    assert (first.bodies(), second.bodies()) == ([b"1"], [b"2"])


def test_a_reply_to_may_stand_before_the_subscription() -> None:
    gateway = StompGateway()
    asking, answering = gateway.connect(), gateway.connect()
    answering.subscribe("/queue/questions", "auto")
    asking.publish("/queue/questions", b"?", **{"reply-to": "/temp-queue/answers", "colour": "a:b"})
    (question,) = answering.messages()
    answering.publish(question["reply-to"], b"!")
    asking.subscribe("/temp-queue/answers", "auto")
    assert asking.bodies() == [b"!"]
    assert question["colour"] == "a:b"


def test_a_temporary_destination_ends_with_its_connection() -> None:
    gateway = StompGateway()
    asking, answering = gateway.connect(), gateway.connect("1.0")
    answering.subscribe("/queue/questions", "auto")
    asking.publish("/queue/questions", b"?", **{"reply-to": "/temp-queue/answers"})
    (question,) = answering.messages()
    asking.send("DISCONNECT")
    answering.publish(question["reply-to"], b"!", receipt="r")
    (error,) = answering.take()
    assert (error["condition"], error["receipt-id"]) == ("invalid-destination", "r")


def test_nobody_else_receives_from_a_temporary_destination() -> None:
    gateway = StompGateway()
    asking, answering = gateway.connect(), gateway.connect()
    answering.subscribe("/queue/questions", "auto")
    asking.publish("/queue/questions", b"?", **{"reply-to": "/temp-queue/answers"})
    answering.subscribe(answering.messages()[0]["reply-to"], id="2")
    assert b"belongs to another connection" in answering.error().body


# -- durable subscriptions


DURABLE_DIALECTS = [
    {"activemq.subscriptionName": "billing"},
    {"durable-subscription-name": "billing"},
    {"durable-subscriber-name": "billing"},
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", DURABLE_DIALECTS, ids=["activemq", "artemis", "hornetq"])
def test_a_durable_subscription_keeps_what_comes_while_nobody_is_there(version: str, name: dict[str, str]) -> None:
    gateway = StompGateway()
    producer, consumer = gateway.connect(), gateway.connect(version, client_id="shop")
    consumer.subscribe("/topic/orders", **name, receipt="s")
    assert consumer.receipts() == ["s"]
    producer.publish("/topic/orders", b"1", persistent="true")
    (message,) = consumer.messages()
    assert (message.body, message["destination"]) == (b"1", "/topic/orders")
    consumer.send("ACK", **({"id": message["ack"]} if version == "1.2" else {"message-id": message["message-id"]}))
    consumer.send("DISCONNECT")
    producer.publish("/topic/orders", b"2", persistent="true")
    heir = gateway.connect(version, client_id="shop")
    heir.subscribe("/topic/orders", **name)
    assert heir.bodies() == [b"2"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", DURABLE_DIALECTS, ids=["activemq", "artemis", "hornetq"])
@pytest.mark.parametrize("is_active", [True, False])
def test_unsubscribe_with_the_name_deletes_it(version: str, name: dict[str, str], is_active: bool) -> None:
    gateway = StompGateway()
    consumer = gateway.connect(version, client_id="shop")
    consumer.subscribe("/topic/orders", **name)
    if not is_active:
        consumer.send("UNSUBSCRIBE", id="s")
    consumer.send_confirmed("UNSUBSCRIBE", id="s", **name)
    assert gateway.subscriptions() == {}
    producer = gateway.connect()
    producer.publish("/topic/orders", b"1", persistent="true")
    consumer.subscribe("/topic/orders", **name, receipt="s")
    assert consumer.receipts() == ["s"], "nothing was kept"


def test_unsubscribe_without_an_id_ends_the_consumer_by_its_name() -> None:
    gateway = StompGateway()
    consumer = gateway.connect(client_id="shop")
    consumer.subscribe("/topic/orders", **{"activemq.subscriptionName": "billing"})
    consumer.send_confirmed("UNSUBSCRIBE", **{"activemq.subscriptionName": "billing"})
    assert (gateway.subscriptions(), consumer.session.unsettled.subscriptions) == ({}, {})


def test_in_1_0_the_name_may_stand_for_the_client_id() -> None:
    gateway = StompGateway()
    before = gateway.connect("1.1", client_id="billing")
    before.subscribe("/topic/t", **{"activemq.subscriptionName": "billing"})
    before.send("DISCONNECT")
    peer = gateway.connect("1.0")
    peer.send_confirmed("UNSUBSCRIBE", destination="/topic/t", **{"activemq.subscriptionName": "billing"})
    assert gateway.subscriptions() == {}


def test_the_name_in_an_unsubscribe_counts_whatever_its_id_was_for() -> None:
    gateway, peer = connected(client_id="shop")
    peer.subscribe("/topic/t", id="d", **{"activemq.subscriptionName": "billing"})
    peer.send("UNSUBSCRIBE", id="d")
    peer.subscribe("/queue/q", id="plain")
    peer.send_confirmed("UNSUBSCRIBE", id="plain", **{"activemq.subscriptionName": "billing"})
    assert (gateway.subscriptions(), peer.session.unsettled.subscriptions) == ({}, {})


def test_in_1_0_unsubscribe_may_name_the_destination_where_the_subscription_has_an_id() -> None:
    peer = StompGateway().connect("1.0")
    peer.subscribe("/queue/q", id="mine")
    peer.subscribe("/topic/t", id="other")
    peer.send_confirmed("UNSUBSCRIBE", destination="/queue/q")
    assert list(peer.session.unsettled.subscriptions) == ["other"]
    peer.send("UNSUBSCRIBE", destination="/queue/unknown")
    assert b"names '/queue/unknown'" in peer.take()[0].body


def test_plain_unsubscribe_only_makes_it_inactive() -> None:
    consumer = StompGateway().connect(client_id="shop")
    consumer.subscribe("/topic/orders", **{"activemq.subscriptionName": "billing"})
    consumer.send("UNSUBSCRIBE", id="s")
    consumer.publish("/topic/orders", b"1", persistent="true")
    consumer.subscribe("/topic/orders", **{"activemq.subscriptionName": "billing"})
    assert consumer.bodies() == [b"1"]


@pytest.mark.parametrize(
    ("client_id", "destination", "headers", "condition", "reason"),
    [
        ("", "/topic/t", {"activemq.subscriptionName": "n"}, "invalid-option", b"needs a client id"),
        ("shop", "/queue/q", {"activemq.subscriptionName": "n"}, "invalid-option", b"is a queue"),
        ("shop", "/queue/q", {"shared-subscription-name": "n"}, "invalid-option", b"is a queue"),
        ("shop", "/temp-topic/t", {"activemq.subscriptionName": "n"}, "invalid-option", b"needs a lasting topic"),
        ("shop", "/topic/a,b", {"activemq.subscriptionName": "n"}, "invalid-option", b"is several destinations"),
        ("", "/topic/t", {"browser": "true"}, "invalid-option", b"cannot be browsed"),
        ("", "/queue/*", {"browser": "true"}, "invalid-option", b"cannot be browsed"),
        ("", "/topic/*", {"activemq.retroactive": "true"}, "invalid-option", b"is many topics"),
    ],
)
def test_wrong_combinations(
    client_id: str, destination: str, headers: dict[str, str], condition: str, reason: bytes
) -> None:
    peer = StompGateway().connect(**({"client-id": client_id} if client_id else {}))
    peer.subscribe(destination, **headers, receipt="s")
    error = peer.error()
    assert (error["condition"], error["receipt-id"]) == (condition, "s")
    assert reason in error.body


def test_one_consumer_at_a_time_on_a_durable_subscription() -> None:
    gateway = StompGateway()
    first, second = gateway.connect(client_id="shop"), gateway.connect(client_id="shop")
    first.subscribe("/topic/t", **{"activemq.subscriptionName": "n"})
    second.subscribe("/topic/t", **{"activemq.subscriptionName": "n"})
    assert second.error()["condition"] == "subscription-in-use"


def test_deleting_a_subscription_that_is_in_use_elsewhere_or_unknown() -> None:
    gateway = StompGateway()
    gateway.connect(client_id="shop").subscribe("/topic/t", **{"activemq.subscriptionName": "n"})
    other = gateway.connect("1.0", client_id="shop")
    other.send("UNSUBSCRIBE", **{"activemq.subscriptionName": "n"})
    other.send("UNSUBSCRIBE", **{"activemq.subscriptionName": "m"})
    assert [error["condition"] for error in other.take()] == ["subscription-in-use", "unknown-subscription"]


# -- RabbitMQ's durable subscriptions, and shared ones


def test_rabbitmq_s_durable_subscription_is_shared_by_all_who_use_its_id() -> None:
    gateway = StompGateway()
    headers = {"durable": "true", "auto-delete": "false"}
    first, second = gateway.connect(), gateway.connect()
    first.subscribe("/topic/t", "auto", **headers)
    second.subscribe("/topic/t", "auto", **headers)
    second.subscribe("/topic/other", "auto", id="s2", **headers)
    producer = gateway.connect()
    producer.publish("/topic/t", b"1", b"2", b"3", b"4", persistent="true")
    assert sorted(first.bodies() + second.bodies()) == [b"1", b"2", b"3", b"4"]
    first.send("DISCONNECT")
    second.send("DISCONNECT")
    producer.publish("/topic/t", b"5", persistent="true")
    heir = gateway.subscriber("/topic/t", "auto", **headers)
    assert heir.bodies() == [b"5"]
    heir.send_confirmed("UNSUBSCRIBE", id="s", durable="true")
    assert [key[1] for key in gateway.subscriptions()] == ["/topic/other:s2"]
    heir.send_confirmed("UNSUBSCRIBE", id="s2", durable="true", destination="/topic/other")
    assert gateway.subscriptions() == {}


def test_unsubscribe_with_persistent_deletes_what_subscribe_with_it_made() -> None:
    gateway, peer = connected()
    peer.subscribe("/topic/t", "auto", persistent="true")
    assert [key[1] for key in gateway.subscriptions()] == ["/topic/t:s"]
    peer.send_confirmed("UNSUBSCRIBE", id="s", persistent="true")
    assert gateway.subscriptions() == {}


def test_rabbitmq_s_durable_header_means_nothing_on_a_queue() -> None:
    peer = StompGateway().subscriber("/queue/q", "auto", durable="true")
    peer.send_confirmed("UNSUBSCRIBE", id="s", durable="true")


@pytest.mark.parametrize("name", ["shared-subscription-name", "x-queue-name"])
def test_a_shared_subscription_gives_each_message_to_one_of_its_consumers(name: str) -> None:
    gateway = StompGateway()
    peers = [gateway.connect(), gateway.connect()]
    for peer in peers:
        peer.subscribe("/topic/t", "auto", **{name: "workers"})
    alone = gateway.subscriber("/topic/t", "auto")
    gateway.connect().publish("/topic/t", b"1", b"2", b"3", b"4")
    got = [peer.bodies() for peer in peers]
    assert sorted(got[0] + got[1]) == alone.bodies() == [b"1", b"2", b"3", b"4"]
    assert [len(one) for one in got] == [2, 2]


# -- what else a subscription may ask for


@pytest.mark.parametrize("header", ["activemq.noLocal", "no-local"])
def test_no_local(header: str) -> None:
    gateway = StompGateway()
    mine, other = gateway.connect(), gateway.connect()
    mine.subscribe("/topic/t", "auto", **{header: "True"})
    mine.publish("/topic/t", b"mine", receipt="r")
    other.publish("/topic/t", b"other's")
    assert [frame.body for frame in mine.take()] == [b"", b"other's"]


@pytest.mark.parametrize("version", ["1.1", "1.2"])
@pytest.mark.parametrize("ack", ["auto", "client"])
def test_a_browser_sees_everything_takes_nothing_and_is_told_the_end(version: str, ack: str) -> None:
    gateway, peer = connected(version)
    peer.publish("/queue/q", b"1", b"2", persistent="true")
    peer.publish("/queue/q", b"3")
    peer.subscribe("/queue/q", ack, id="b", browser="true")
    messages = peer.messages()
    assert [message.body for message in messages[:-1]] == [b"1", b"2", b"3"]
    end = messages[-1]
    assert end.headers == {"subscription": "b", "browser": "end", "destination": "/queue/q", "message-id": "0"}
    assert gateway.stats("q").depth == 3
    peer.send_confirmed("UNSUBSCRIBE", id="b")
    peer.subscribe("/queue/q", "auto")
    assert peer.bodies() == [b"1", b"2", b"3"]


def test_a_browser_with_a_selector_and_of_an_empty_queue() -> None:
    peer = StompGateway().subscriber("/queue/empty", "auto", id="e", browser="true")
    assert [message["message-id"] for message in peer.messages()] == ["0"]
    peer.publish("/queue/q", b"1", a="1")
    peer.publish("/queue/q", b"2", a="2")
    peer.subscribe("/queue/q", "auto", id="b", browser="true", selector="a = 2")
    assert [message.body for message in peer.messages()] == [b"2", b""]


def test_a_nack_of_what_a_browser_shows_is_an_error() -> None:
    gateway, peer = connected()
    peer.publish("/queue/q", b"1")
    peer.subscribe("/queue/q", "client", browser="true")
    peer.send("NACK", id=peer.messages()[0]["ack"])
    assert b"a browser takes no messages" in peer.error().body
    assert gateway.stats("q").depth == 1


def test_an_exclusive_consumer_gets_everything_until_it_goes() -> None:
    gateway = StompGateway()
    first, second = gateway.connect(), gateway.connect()
    first.subscribe("/queue/q", "auto", **{"activemq.exclusive": "true"})
    second.subscribe("/queue/q?consumer.exclusive=true", "auto")
    producer = gateway.connect()
    producer.publish("/queue/q", b"1", b"2")
    assert (first.bodies(), second.bodies()) == ([b"1", b"2"], [])
    first.send("DISCONNECT")
    producer.publish("/queue/q", b"3")
    assert second.bodies() == [b"3"]


def test_consumers_with_a_higher_priority_come_first_while_they_have_room() -> None:
    gateway = StompGateway()
    low, high = gateway.connect(), gateway.connect()
    low.subscribe("/queue/q")
    high.subscribe("/queue/q", **{"x-priority": "5", "activemq.prefetchSize": "2"})
    gateway.connect().publish("/queue/q", b"1", b"2", b"3")
    assert (high.bodies(), low.bodies()) == ([b"1", b"2"], [b"3"])


def test_a_group_stays_with_one_consumer() -> None:
    gateway = StompGateway()
    peers = [gateway.connect(), gateway.connect()]
    for peer in peers:
        peer.subscribe("/queue/q", "auto")
    producer = gateway.connect()
    for number in range(6):
        producer.publish("/queue/q", b"%d" % (number % 2), JMSXGroupID=f"g{number % 2}")
    assert sorted(set(peer.bodies()) for peer in peers) in ([{b"0"}, {b"1"}], [{b"1"}, {b"0"}])


def test_a_consumer_s_own_redelivery_policy() -> None:
    gateway, peer = connected()
    own = {"activemq.maximumRedeliveries": "1", "activemq.initialRedeliveryDelay": "10"}
    peer.subscribe("/queue/q", **own)
    peer.publish("/queue/q", b"x")
    peer.send("NACK", id=peer.messages()[0]["ack"])
    gateway.advance(10)
    (again,) = peer.messages()
    assert again["JMSXDeliveryCount"] == "2"
    peer.send("NACK", id=again["ack"])
    assert (gateway.stats("q").depth, gateway.stats("ActiveMQ.DLQ").depth) == (0, 1)
