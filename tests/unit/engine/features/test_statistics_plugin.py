"""Statistics destinations: a question, and the answer to its reply-to."""

from __future__ import annotations

import json

import pytest

from config.matching import BOTH, Pattern
from config.permissions import Permission, PermissionMap
from engine.consumers.consumer import AUTO
from engine.features.statistics_plugin import (
    ANSWER_STEPS,
    QUESTIONS_MAX,
    QUESTIONS_PER_CLIENT_MAX,
    QUESTIONS_PER_USER_MAX,
    STEPS_AT_ONCE,
)
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.composite import Composite, CompositeSource
from engine.sources.queue import MANAGEMENT, Queue
from engine.values.destination import QUEUE, TEMP_QUEUE, TOPIC
from engine.values.errors import AccessDenied, LimitReached
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer
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
    world, client = world_with_consumer(destination="answers", ack_mode=AUTO)
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
    world, client = world_with_consumer(destination="answers", ack_mode=AUTO)
    world.send(b"1", b"2", to="orders.new")
    world.consumer(client, world.topic("orders.news"), AUTO)
    world.send(b"3", to=world.topic("orders.news"))
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
    account = world.queue("answers").account
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
    assert world.store.messages == [] and world.memory_used() == 0
    assert [name for name in world.queue_names() if name.startswith("ActiveMQ")] == []


def test_in_a_transaction() -> None:
    world, client = world_with_consumer(destination="answers", ack_mode=AUTO)
    queue = world.queue("ActiveMQ.Statistics.Broker")
    transaction = Transaction(client, "tx", TransactionLimits())
    question = world.message(queue, b"", headers="reply-to:/queue/answers")
    world.broker.send_in(transaction, queue, question)
    world.turn()
    assert client.bodies() == []
    world.broker.commit(transaction)
    world.turn()
    assert len(_answers(client)) == 1


@pytest.mark.parametrize(
    "name", ["ActiveMQ.Statistics.Broker", "ActiveMQ.Statistics.Destination.q", "ActiveMQ.Statistics.x", MANAGEMENT]
)
def test_an_answer_to_a_name_that_only_answers_goes_nowhere(name: str) -> None:
    world = EngineWorld()
    for prefix in ("/queue/", "queue://", "/topic/"):
        _ask(world, "Broker", f"reply-to:{prefix}{name}".replace("://", "\\c//"))
    assert world.memory_used() == 0


def test_what_many_destinations_cost_is_spread_over_turns() -> None:
    world, client = world_with_consumer(destination="answers", ack_mode=AUTO)
    for number in range(STEPS_AT_ONCE):
        world.queue(f"many.{number:04d}")
    asked = ("Destination.many.>", "Destination.many.*", "Broker")
    several = Composite([world.queue(f"ActiveMQ.Statistics.{name}") for name in asked])
    world.broker.send(several, world.message(several, b"", headers="reply-to:/queue/answers"))
    world.delete(world.queue("many.0700"))
    answers: list[dict[str, object]] = []
    for _ in range(40):
        world.turn()
        came = _answers(client)
        assert len(came) <= STEPS_AT_ONCE // ANSWER_STEPS + 1
        answers += came
        world.broker.begin_turn()
        world.answer_questions()
    names = [f"queue://many.{number:04d}" for number in range(STEPS_AT_ONCE) if number != 700]
    assert [one.get("destinationName") for one in answers] == [*names, *names, None]
    assert answers[-1]["enqueueCount"] == 2 * len(names)
    world.advance(1)
    assert world.question_count() == 0 and world.question_steps() == STEPS_AT_ONCE


def test_so_many_questions_wait_and_no_more() -> None:
    world, client = world_with_client()
    broker = world.broker
    reply = broker.open_temporary(client, TEMP_QUEUE)
    for number in range(2 * STEPS_AT_ONCE):
        world.queue(f"many.{number}")
    headers = f"reply-to:/remote-temp-queue/{_escaped(reply.name)}"
    queue = world.queue("ActiveMQ.Statistics.Broker")
    askers = [world.client() for _ in range(QUESTIONS_MAX // QUESTIONS_PER_CLIENT_MAX + 1)]
    for asker in askers[:-1]:
        world.let_send(asker)
        while world.questions_of(asker) < QUESTIONS_PER_CLIENT_MAX:
            broker.send(queue, world.message(queue, b"", headers=headers))
    world.let_send(askers[-1])
    with pytest.raises(LimitReached, match=f"{QUESTIONS_MAX} questions for statistics wait"):
        broker.send(queue, world.message(queue, b"", headers=headers))
    assert world.question_count() == QUESTIONS_MAX
    transaction = Transaction(client, "tx", TransactionLimits())
    transaction.add_send(queue, world.message(queue, b"", headers=headers))
    broker.commit(transaction)
    assert world.question_count() == QUESTIONS_MAX
    world.leave(client)
    world.advance(1)
    assert world.question_count() == 0 and world.memory_used() == 0
    assert world.asking_count() == 0


def test_one_client_has_its_share_of_them() -> None:
    world = EngineWorld()
    broker = world.broker
    client, other = world.client(), world.client()
    for number in range(2 * STEPS_AT_ONCE):
        world.queue(f"many.{number}")
    queue = world.queue("ActiveMQ.Statistics.Broker")
    world.let_send(client)
    question = world.message(queue, b"", headers="reply-to:/queue/answers")
    transaction = Transaction(client, "tx", TransactionLimits())
    transaction.add_send(queue, question)
    while world.questions_of(client) < QUESTIONS_PER_CLIENT_MAX:
        broker.send(queue, world.message(queue, b"", headers="reply-to:/queue/answers"))
    with pytest.raises(LimitReached, match=f"{QUESTIONS_PER_CLIENT_MAX} questions for statistics of this connection"):
        broker.send(queue, world.message(queue, b"", headers="reply-to:/queue/answers"))
    broker.commit(transaction)
    assert world.question_count() == QUESTIONS_PER_CLIENT_MAX
    world.let_send(other)
    broker.send(queue, world.message(queue, b"", headers="reply-to:/queue/answers"))
    assert world.question_count() == QUESTIONS_PER_CLIENT_MAX + 1


def test_a_user_has_its_share_of_them_and_another_one_is_answered_in_its_turn() -> None:
    world = EngineWorld()
    broker = world.broker
    for number in range(2 * STEPS_AT_ONCE):
        world.queue(f"many.{number}")
    queue = world.queue("ActiveMQ.Statistics.Broker")
    headers = "reply-to:/queue/answers"
    for _ in range(QUESTIONS_PER_USER_MAX // QUESTIONS_PER_CLIENT_MAX):
        asker = world.client()
        world.enter(asker, "mallory", "192.0.2.1")
        world.let_send(asker)
        while world.questions_of(asker) < QUESTIONS_PER_CLIENT_MAX:
            broker.send(queue, world.message(queue, b"", headers=headers))
    last = world.client()
    world.enter(last, "mallory", "192.0.2.1")
    world.let_send(last)
    with pytest.raises(LimitReached, match=f"{QUESTIONS_PER_USER_MAX} questions for statistics of user 'mallory' wait"):
        broker.send(queue, world.message(queue, b"", headers=headers))
    alice = world.client()
    world.enter(alice, "alice", "192.0.2.2")
    world.consumer(alice, "mine", AUTO)
    world.let_send(alice)
    broker.send(queue, world.message(queue, b"", headers="reply-to:/queue/mine"))
    for _ in range(12):
        world.turn()
        world.broker.begin_turn()
        world.answer_questions()
    assert len(_answers(alice)) == 1, "it does not wait for all that others have asked before"
    assert world.question_count() > QUESTIONS_PER_USER_MAX - 10


# -- what the asker may see


def _guarded() -> tuple[EngineWorld, FakeClient]:
    """Somebody who may read mine.> and send questions, beside a queue that is not theirs."""
    mine = Permission(Pattern.parse("mine.>"), BOTH, {"read": frozenset({"me"})})
    asking = Permission(Pattern.parse("ActiveMQ.Statistics.>"), BOTH, {"write": frozenset({"me"})})
    secret = Permission(Pattern.parse("secret.>"), BOTH, {"read": frozenset({"others"})})
    world = EngineWorld(permissions=PermissionMap([mine, asking, secret]))
    client = world.client("me")
    client.groups = frozenset({"me"})
    for name in ("mine.q", "secret.q"):
        world.send(b"1", to=name)
    reply = world.broker.open_temporary(client, TEMP_QUEUE)
    assert isinstance(reply, Queue)
    world.consumer(client, reply, AUTO, name="replies")
    return world, client


def _ask_of(world: EngineWorld, client: FakeClient | None, name: str) -> None:
    (reply,) = world.temporary_names()
    headers = f"reply-to:/remote-temp-queue/{_escaped(reply)}"
    world.send(b"", to=f"ActiveMQ.Statistics.{name}", headers=headers, sender=client)


@pytest.mark.parametrize(
    ("asked", "seen"), [(">", ["queue://mine.q"]), ("mine.q", ["queue://mine.q"]), ("secret.q", [])]
)
def test_only_what_the_asker_may_see_is_told(asked: str, seen: list[str]) -> None:
    world, client = _guarded()
    _ask_of(world, client, f"Destination.{asked}")
    assert [one["destinationName"] for one in _answers(client)] == seen


def test_only_consumers_of_what_the_asker_may_see_and_its_own_are_told() -> None:
    world, client = _guarded()
    other = world.client("other")
    other.groups = frozenset({"others", "me"})
    world.consumer(other, "secret.q", name="theirs")
    world.consumer(other, "mine.q", name="ours")
    world.consumer(other, world.broker.open_temporary(other, TEMP_QUEUE), name="their answers")
    (reply, _) = world.temporary_names()
    headers = f"reply-to:/remote-temp-queue/{_escaped(reply)}"
    world.send(b"", to="ActiveMQ.Statistics.Subscription", headers=headers, sender=client)
    assert [one["subscriptionName"] for one in _answers(client)] == ["replies", "ours"]


@pytest.mark.parametrize(
    ("asked", "is_told"),
    [
        ("mine.q,queue://mine.r", True),
        ("mine.q,topic://mine.t", True),
        ("mine.q,queue://secret.q", False),
        ("mine.q,topic://secret.t", False),
        ("mine.q,queue://secret.>", False),
        ("secret.q,queue://mine.q", False),
    ],
)
def test_a_consumer_of_several_is_told_of_to_who_may_see_each(asked: str, is_told: bool) -> None:
    world, client = _guarded()
    for one in ("mine.r", world.topic("mine.t"), world.topic("secret.t")):
        world.send(b"", to=one)
    other = world.client("other")
    other.groups = frozenset({"others", "me"})
    first, second = asked.split(",")
    form, _, name = second.partition("://")
    kind = QUEUE if form == "queue" else TOPIC
    parts = [world.broker.source(other, QUEUE, first), world.broker.source(other, kind, name)]
    world.consumer(other, CompositeSource(parts), name="both")
    _ask_of(world, client, "Subscription")
    told = [one["destinationName"] for one in _answers(client) if one["subscriptionName"] == "both"]
    assert (f"queue://{asked}" in told) == is_told
    assert is_told or "secret" not in str(told)


def test_the_broker_is_told_of_to_who_may_see_everything() -> None:
    world, client = _guarded()
    with pytest.raises(AccessDenied, match="browse, read or admin for all destinations"):
        _ask_of(world, client, "Broker")
    everything = Permission(Pattern.parse(">"), BOTH, {"read": frozenset({"all"}), "write": frozenset({"all"})})
    world = EngineWorld(permissions=PermissionMap([everything]))
    client = world.client("me")
    client.groups = frozenset({"all"})
    world.consumer(client, world.broker.open_temporary(client, TEMP_QUEUE), AUTO)
    _ask_of(world, client, "Broker")
    assert len(_answers(client)) == 1


def test_a_question_of_nobody_is_not_answered_where_permissions_are_set() -> None:
    world, client = _guarded()
    for name in ("Broker", "Destination.>", "Subscription"):
        _ask_of(world, None, name)
    assert _answers(client) == []
