"""stomp.py against the real process: every kind of destination and of subscription."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.process.gateway_process import StartGateway
from tests.support.process.stomp_py import LIMIT_S, VERSIONS, Client, Connect

Unique = Callable[[str], str]

DURABLE_HEADERS = ["activemq.subscriptionName", "durable-subscription-name", "durable-subscriber-name"]


@pytest.mark.parametrize("kind", ["queue", "topic"])
@pytest.mark.parametrize("version", VERSIONS)
def test_wildcards(version: str, kind: str, connect: Connect, unique: Unique) -> None:
    prefix = f"/{kind}/{unique('orders')}"
    sender, receiver = connect(version), connect(version)
    sender.send(f"{prefix}.early", "waits, if it is a queue")
    receiver.subscribe(f"{prefix}.>")
    for name in ("eu", "us.east"):
        sender.send(f"{prefix}.{name}", name)
    expected = ["early"] * (kind == "queue") + ["eu", "us.east"]
    got = [receiver.message() for _ in expected]
    assert sorted(message.headers["destination"] for message in got) == sorted(f"{prefix}.{name}" for name in expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_composite_destinations(version: str, connect: Connect, unique: Unique) -> None:
    parts = [f"/queue/{unique('a')}", f"/topic/{unique('b')}", f"/queue/{unique('c')}"]
    sender, each, all_of_them = connect(version), connect(version), connect(version)
    each.subscribe(parts[1])
    all_of_them.subscribe(",".join([parts[0], parts[2]]))
    sender.send(",".join(parts), "to all")
    assert each.message().headers["destination"] == parts[1]
    assert {all_of_them.message().headers["destination"] for _ in range(2)} == {parts[0], parts[2]}


@pytest.mark.parametrize("kind", ["queue", "topic"])
@pytest.mark.parametrize("version", VERSIONS)
def test_request_and_reply(version: str, kind: str, connect: Connect, unique: Unique) -> None:
    questions = f"/queue/{unique('questions')}"
    asking, answering = connect(version), connect(version)
    answering.subscribe(questions)
    asking.subscribe(f"/temp-{kind}/answers")
    for number in range(3):
        asking.send(questions, f"question {number}", reply_to=f"/temp-{kind}/answers", correlation_id=number)
    for number in range(3):
        question = answering.message()
        answering.send(question.headers["reply-to"], "answer", correlation_id=question.headers["correlation-id"])
        assert asking.message().headers["correlation-id"] == str(number)


@pytest.mark.parametrize("header", DURABLE_HEADERS)
@pytest.mark.parametrize("version", VERSIONS)
def test_durable_subscription_outlives_connection_and_gateway(
    version: str, header: str, start_gateway: StartGateway, unique: Unique
) -> None:
    gateway = start_gateway()
    topic = f"/topic/{unique('prices')}"
    named = {header: "billing"}

    def subscriber() -> Client:
        client = Client(gateway, version).connect(**{"client-id": "shop"})
        client.subscribe(topic, "client", **named)
        return client

    first = subscriber()
    sender = Client(gateway, version).connect()
    sender.send(topic, "1")
    first.ack(first.message())
    first.close()
    sender.send(topic, "2")
    sender.close()
    gateway.kill9()
    gateway.restart()
    second = subscriber()
    message = second.message()
    assert message.body == "2"
    second.ack(message)
    second.unsubscribe(**named)
    second.close()
    sender = Client(gateway, version).connect()
    sender.send(topic, "for nobody")
    third = subscriber()
    sender.send(topic, "3")
    assert third.message().body == "3"
    third.close()
    sender.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_rabbitmq_s_durable_subscription(version: str, connect: Connect, unique: Unique) -> None:
    topic = f"/topic/{unique('prices')}"
    headers = {"durable": "true", "auto-delete": "false"}
    first, sender = connect(version), connect(version)
    first.subscribe(topic, **headers)
    first.close()
    sender.send(topic, "kept")
    second = connect(version)
    second.subscribe(topic, **headers)
    assert second.message().body == "kept"
    second.unsubscribe(durable="true")


@pytest.mark.parametrize("version", VERSIONS)
def test_shared_subscription(version: str, connect: Connect, unique: Unique) -> None:
    topic = f"/topic/{unique('work')}"
    workers = [connect(version), connect(version)]
    for worker in workers:
        worker.subscribe(topic, **{"shared-subscription-name": "workers"})
    sender = connect(version)
    for number in range(10):
        sender.send(topic, str(number))
    got = [worker.bodies(5) for worker in workers]
    assert sorted(got[0] + got[1]) == [str(number) for number in range(10)]


@pytest.mark.parametrize("version", VERSIONS)
def test_no_local(version: str, connect: Connect, unique: Unique) -> None:
    topic = f"/topic/{unique('talk')}"
    mine, other = connect(version), connect(version)
    mine.subscribe(topic, **{"activemq.noLocal": "True"})
    mine.send(topic, "mine")
    other.send(topic, "other's")
    assert mine.message().body == "other's"


@pytest.mark.parametrize("version", VERSIONS)
def test_retroactive_consumer_reads_the_topic_from_the_log(version: str, connect: Connect, unique: Unique) -> None:
    topic = f"/topic/{unique('prices')}"
    client = connect(version)
    for number in range(5):
        client.send(topic, str(number))
    client.subscribe(topic, **{"activemq.retroactive": "true"})
    client.send(topic, "5")
    assert client.bodies(6) == [str(number) for number in range(6)]


@pytest.mark.parametrize("version", VERSIONS)
def test_browser(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('waiting')}"
    client = connect(version)
    for number in range(3):
        client.send(queue, str(number), number=number)
    client.subscribe(queue, browser="true", selector="number > 0")
    assert client.bodies(2) == ["1", "2"]
    assert client.message().headers["browser"] == "end"
    client.unsubscribe()
    client.subscribe(queue)
    assert client.bodies(3) == ["0", "1", "2"], "a browser takes nothing"


@pytest.mark.parametrize("kind", ["queue", "topic"])
@pytest.mark.parametrize("version", VERSIONS)
def test_selectors(version: str, kind: str, connect: Connect, unique: Unique) -> None:
    destination = f"/{kind}/{unique('sorted')}"
    sender, red, old = connect(version), connect(version), connect(version)
    red.subscribe(destination, selector="colour = 'red' AND age BETWEEN 10 AND 20")
    old.subscribe(destination, selector="age > 20")
    for number, (colour, age) in enumerate([("red", 5), ("blue", 15), ("red", 15), ("red", 25), ("blue", 30)]):
        sender.send(destination, str(number), colour=colour, age=age)
    assert red.message().body == "2"
    assert old.bodies(2) == ["3", "4"]
    assert red.nothing_came() and old.nothing_came()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_wrong_selector_is_told_with_its_position(version: str, connect: Connect, unique: Unique) -> None:
    client = connect(version)
    client.connection.subscribe(f"/queue/{unique('q')}", id="1", headers={"selector": "colour ="})
    error = client.error()
    assert error.headers["condition"] == "invalid-selector"
    assert "character 9" in error.body
    if version != "1.0":
        client.inbox.disconnects.get(timeout=LIMIT_S)


@pytest.mark.parametrize("version", VERSIONS)
def test_exclusive_consumer(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('ordered')}"
    sender, first, second = connect(version), connect(version), connect(version)
    first.subscribe(queue, **{"activemq.exclusive": "true"})
    second.subscribe(f"{queue}?consumer.exclusive=true")
    for number in range(4):
        sender.send(queue, str(number))
    assert first.bodies(4) == ["0", "1", "2", "3"]
    first.close()
    sender.send(queue, "4")
    assert second.message().body == "4"


@pytest.mark.parametrize("version", VERSIONS)
def test_consumer_priority(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('work')}"
    sender, low, high = connect(version), connect(version), connect(version)
    low.subscribe(queue, "client")
    high.subscribe(queue, "client", **{"activemq.priority": "10", "activemq.prefetchSize": "2"})
    for number in range(3):
        sender.send(queue, str(number))
    assert (high.bodies(2), low.message().body) == (["0", "1"], "2")


@pytest.mark.parametrize("version", VERSIONS)
def test_groups_stay_with_one_consumer(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('groups')}"
    sender = connect(version)
    workers = [connect(version), connect(version)]
    for worker in workers:
        worker.subscribe(queue)
    for number in range(20):
        sender.send(queue, str(number), JMSXGroupID=f"group {number % 2}", JMSXGroupSeq=number // 2 + 1)
    for worker in workers:
        got = [worker.message() for _ in range(10)]
        assert len({message.headers["JMSXGroupID"] for message in got}) == 1
        assert [int(message.body) for message in got] == sorted(int(message.body) for message in got)


@pytest.mark.parametrize("version", VERSIONS)
def test_dialects_of_destinations(version: str, connect: Connect, unique: Unique) -> None:
    name = unique("same")
    client = connect(version)
    client.subscribe(f"/queue/{name}")
    for destination in (f"jms.queue.{name}", f"/amq/queue/{name}", f"queue://{name}", name):
        client.send(destination, destination)
        assert client.message().body == destination
    client.send(name, "routed", destination_type="ANYCAST")
    assert client.message().body == "routed"


@pytest.mark.parametrize("version", VERSIONS)
def test_virtual_topic(version: str, connect: Connect, unique: Unique) -> None:
    name = f"VirtualTopic.{unique('orders')}"
    billing = f"/queue/Consumer.billing.{name}"
    first, second, store, plain = (connect(version) for _ in range(4))
    first.subscribe(billing, "client")
    second.subscribe(billing, "client")
    store.subscribe(f"/queue/Consumer.store.{name}", "client")
    plain.subscribe(f"/topic/{name}")
    sender = connect(version)
    for number in range(4):
        sender.send(f"/topic/{name}", str(number))
    expected = ["0", "1", "2", "3"]
    assert sorted(first.bodies(2) + second.bodies(2)) == expected
    got = [store.message() for _ in expected]
    assert [message.body for message in got] == plain.bodies(4) == expected
    assert got[0].headers["destination"] == f"/queue/Consumer.store.{name}"
    assert got[0].headers["original-destination"] == f"/topic/{name}"
    store.close()
    sender.send(f"/topic/{name}", "kept")
    again = connect(version)
    again.subscribe(f"/queue/Consumer.store.{name}")
    assert again.bodies(5) == [*expected, "kept"]


@pytest.mark.parametrize("version", VERSIONS)
def test_advisories(version: str, connect: Connect, unique: Unique) -> None:
    queue = unique("watched")
    watcher, client = connect(version), connect(version)
    watcher.subscribe(f"/topic/ActiveMQ.Advisory.Consumer.Queue.{queue}")
    client.subscribe(f"/queue/{queue}")
    came = watcher.message()
    assert came.headers["destination"] == f"/topic/ActiveMQ.Advisory.Consumer.Queue.{queue}"
    assert came.headers["consumerCount"] == "1"
    assert "ConsumerInfo" in json.loads(came.body)
    client.unsubscribe()
    assert watcher.message().headers["consumerCount"] == "0"


@pytest.mark.parametrize("version", VERSIONS)
def test_statistics(version: str, connect: Connect, unique: Unique) -> None:
    queue = unique("counted")
    worker, asking = connect(version), connect(version)
    worker.subscribe(f"/queue/{queue}")
    asking.subscribe("/temp-queue/statistics")
    asking.send(f"/queue/ActiveMQ.Statistics.Destination.{queue}", "", reply_to="/temp-queue/statistics")
    entries = json.loads(asking.message().body)["map"]["entry"]
    assert {"string": ["destinationName", f"queue://{queue}"]} in entries
    assert {"string": "consumerCount", "long": 1} in entries
