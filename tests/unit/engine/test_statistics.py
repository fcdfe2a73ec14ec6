"""Statistics destinations: a question, and the answer to its reply-to."""

from __future__ import annotations

import json

import pytest

from engine.consumer import AUTO
from engine.destination import TEMP_QUEUE
from engine.queue import Queue
from engine.transaction import Transaction, TransactionLimits
from tests.support.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient


def _ask(world: EngineWorld, name: str, headers: str = "reply-to:/queue/answers") -> None:
    world.send(b"", to=f"ActiveMQ.Statistics.{name}", headers=headers)


def _answers(client: FakeClient) -> list[dict[str, object]]:
    answers: list[dict[str, object]] = []
    for body in client.bodies():
        values: dict[str, object] = {}
        for entry in json.loads(body)["map"]["entry"]:
            if "long" in entry:
                values[entry["string"]] = entry["long"]
            else:
                values[entry["string"][0]] = entry["string"][1]
        answers.append(values)
    return answers


def test_of_the_broker() -> None:
    world = EngineWorld()
    client = world.client()
    world.consumer(client, "answers", AUTO)
    world.send(b"1", b"2")
    _ask(world, "Broker", "reply-to:/queue/answers correlation-id:c1")
    assert b"correlation-id:c1\n" in client.handed[0].message.headers
    (values,) = _answers(client)
    assert (values["brokerName"], values["size"], values["enqueueCount"], values["consumerCount"]) == (
        "Penstock",
        2,
        2,
        1,
    )


def test_of_one_destination_and_of_those_that_match() -> None:
    world = EngineWorld()
    client = world.client()
    world.consumer(client, "answers", AUTO)
    world.send(b"1", b"2", to="orders.new")
    world.consumer(client, world.broker.destinations.topic("orders.news"), AUTO)
    world.send(b"3", to=world.broker.destinations.topic("orders.news"))
    client.bodies()
    _ask(world, "Destination.orders.new")
    (values,) = _answers(client)
    assert (values["destinationName"], values["size"], values["dequeueCount"]) == ("queue://orders.new", 2, 0)
    _ask(world, "Destination.orders.>")
    assert [(one["destinationName"], one["enqueueCount"], one["dequeueCount"]) for one in _answers(client)] == [
        ("queue://orders.new", 2, 0),
        ("topic://orders.news", 1, 1),
    ]
    _ask(world, "Destination.nowhere")
    assert client.bodies() == []


@pytest.mark.parametrize(("policy", "dropped", "failed"), [("BLOCK", 0, 0), ("DROP", 1, 0), ("FAIL", 0, 1)])
def test_an_answer_that_finds_its_address_full_is_dropped(policy: str, dropped: int, failed: int) -> None:
    world = EngineWorld(address("answers", full__address_full_policy=policy, full__max_size_messages=1))
    _ask(world, "Broker")
    _ask(world, "Broker")
    account = world.broker.destinations.queue("answers").account
    assert account is not None
    assert (world.stats("answers").depth, account.dropped_count, account.failed_count) == (1, dropped, failed)


def test_of_subscriptions_to_a_temporary_queue() -> None:
    world = EngineWorld()
    client = world.client("here", client_id="me")
    reply = world.broker.open_temporary(client, TEMP_QUEUE)
    assert isinstance(reply, Queue)
    world.consumer(client, reply, AUTO, name="replies")
    world.consumer(client, "q", prefetch=5, name="work")
    world.send(b"1", b"2")
    client.bodies()
    world.send(
        b"", to="ActiveMQ.Statistics.Subscription", headers=f"reply-to:/remote-temp-queue/{_escaped(reply.name)}"
    )
    work = next(one for one in _answers(client) if one["subscriptionName"] == "work")
    assert (work["clientId"], work["prefetchSize"], work["dispatchedQueueSize"]) == ("me", 5, 2)


def _escaped(name: str) -> str:
    return name.replace(":", "\\c")


def test_a_question_without_an_answer_to_give_keeps_nothing() -> None:
    world = EngineWorld()
    for headers in ("", "reply-to:nonsense", "reply-to:/temp-queue/gone"):
        _ask(world, "Broker", headers)
    assert world.store.messages == [] and world.broker.memory.used_bytes == 0
    assert [name for name in world.broker.destinations.queues if name.startswith("ActiveMQ")] == []


def test_in_a_transaction() -> None:
    world = EngineWorld()
    client = world.client()
    world.consumer(client, "answers", AUTO)
    queue = world.broker.destinations.queue("ActiveMQ.Statistics.Broker")
    transaction = Transaction(client, "tx", TransactionLimits())
    question = world.message(queue, b"", headers="reply-to:/queue/answers")
    world.broker.send_in(transaction, queue, question)
    world.turn()
    assert client.bodies() == []
    world.broker.commit(transaction)
    world.turn()
    assert len(_answers(client)) == 1
