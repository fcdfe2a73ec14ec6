"""A transaction is one batch of the log; what a turn has no steps left to publish of it follows in the next turns."""

from __future__ import annotations

from engine.consumers.consumer import AUTO, INDIVIDUAL, Consumer
from engine.consumers.turn_steps import END_STEPS, TURN_STEPS
from engine.consumers.user_quota import UserLimits
from engine.open_transaction import Transaction, TransactionLimits
from engine.ports.workers import SYNC_LANE
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.sources.topics.topic_publication import LATE_PERCENT
from engine.values import gates
from engine.values.broker_stats import LateStats
from engine.values.destination import TEMP_TOPIC, TOPIC
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import FakeClient

LIMITS = TransactionLimits()
SENDS = 100
MANY = 400  # durable subscriptions, so that a turn publishes a few messages
NUMBERS = [b"%d" % number for number in range(SENDS)]


def with_durables(world: EngineWorld, count: int, selector: str = "") -> FakeClient:
    """Have a client subscribe so often to the topic ``t``."""
    client = world.client("durable", "durable")
    for number in range(count):
        name = f"s{number}"
        world.consumer(
            client, world.topic("t"), INDIVIDUAL, 1000, is_durable=True, subscription=name, selector=selector
        )
    world.turn()
    return client


def commit(world: EngineWorld, persistent: bool = True, count: int = SENDS, sender: FakeClient | None = None) -> None:
    """Send the numbers up to ``count`` to the topic ``t`` in one transaction; the turn stays open."""
    client = sender or world.client()
    transaction = Transaction(client, "t", LIMITS)
    world.hear(client.client_number)
    topic = world.topic("t")
    for number in range(count):
        message = world.message(topic, b"%d" % number, persistent=persistent, headers="n:7")
        world.broker.send_in(transaction, topic, message)
    world.broker.commit(transaction)


def by_consumer(client: FakeClient) -> list[list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for one in client.handed:
        found.setdefault(one.consumer.consumer_id, []).append(one.message.body)
    return list(found.values())


def test_all_get_it_in_order_over_several_turns() -> None:
    world = EngineWorld()
    durable = with_durables(world, MANY)
    plain = world.subscriber(world.topic("t"), AUTO)
    commit(world)
    world.send(b"later", to=world.topic("t"))
    assert len(plain.handed) < SENDS, "the rest is published in the next turns"
    left = len(world.topic("t").late or ())
    why = world.why.consumer(next(iter(plain.consumers)))
    assert why is not None
    assert why.remarks == (f"{left} messages of a large transaction and after it are published in the next turns",)
    world.finish_turns()
    assert plain.bodies() == [*NUMBERS, b"later"]
    assert by_consumer(durable) == [[*NUMBERS, b"later"]] * MANY
    # One message more at the COMMIT and at the end, and what the later one is charged.
    assert world.most_steps() <= TURN_STEPS + END_STEPS + 2 * MANY + MANY * LATE_PERCENT // 100 + 1
    assert world.topic("t").late is None


def test_selectors_decide_about_it() -> None:
    world = EngineWorld()
    with_durables(world, MANY, "n = 7")
    strict = world.subscriber(world.topic("t"), AUTO, selector="n = 8")
    loose = world.subscriber(world.topic("t"), AUTO, selector="n = 7")
    commit(world, persistent=False)
    assert world.finish_turns() > 1
    assert (loose.bodies(), strict.bodies()) == (NUMBERS, [])


def test_who_comes_after_the_commit_does_not_get_it() -> None:
    world = EngineWorld()
    with_durables(world, MANY)
    commit(world)
    topic = world.topic("t")
    newcomer = world.client("new", "new")
    world.consumer(newcomer, topic, INDIVIDUAL, 1000, is_durable=True, subscription="new")
    other = world.consuming(topic, AUTO)
    choosy = world.consuming(topic, AUTO, selector="n = 7")
    assert world.finish_turns() > 1
    assert newcomer.bodies() == other.bodies() == choosy.bodies() == []
    world.send(b"later", to=topic, headers="n:7")
    assert newcomer.bodies() == other.bodies() == choosy.bodies() == [b"later"]


def test_who_leaves_before_gets_nothing_more() -> None:
    world = EngineWorld()
    durable = with_durables(world, MANY)
    plain = world.subscriber(world.topic("t"), AUTO)
    commit(world, persistent=False)
    world.lose(durable)
    world.lose(plain)
    world.finish_turns()
    assert len(plain.handed) < SENDS
    assert world.topic("t").late is None


def without_own(world: EngineWorld, client: FakeClient) -> Consumer:
    return world.subscribe(client, world.topic("t"), INDIVIDUAL, is_durable=True, subscription="s", is_no_local=True)


def test_what_a_client_leaves_out_of_its_own_is_known_at_the_commit() -> None:
    world = EngineWorld()
    client = world.client("c", "c")
    consumer = without_own(world, client)
    world.leave_steps(0)
    commit(world, sender=client)
    assert world.topic("t").late
    world.broker.unsubscribe(consumer, is_lost=False)
    world.finish_turns()
    without_own(world, client)
    assert client.bodies() == []


def test_what_was_committed_while_a_subscription_had_no_consumer_is_for_it() -> None:
    world = EngineWorld()
    client = world.client("c", "c")
    world.unsubscribe(without_own(world, client))
    world.leave_steps(0)
    commit(world, sender=client)
    without_own(world, client)
    world.finish_turns()
    assert client.bodies() == NUMBERS


def test_a_wildcard_that_has_ended_is_given_nothing() -> None:
    world = EngineWorld()
    for number in range(TURN_STEPS):
        world.topic(f"t.{number}")
    topic = world.topic("t")
    client = world.client()
    consumer = world.consumer(client, world.source(TOPIC, ">"), AUTO)
    world.finish_turns()
    world.leave_steps(0)
    commit(world, persistent=False)
    world.leave_steps(0)
    world.broker.unsubscribe(consumer, is_lost=False)
    assert topic.plain, "it leaves its topics over several turns"
    world.finish_turns()
    assert client.bodies() == []
    assert world.memory_used() == 0


def test_a_topic_that_is_deleted_has_had_its_messages() -> None:
    world = EngineWorld()
    wildcard = world.subscriber(world.source(TOPIC, "t.>"), AUTO)
    topic = world.topic("t.1")
    transaction = Transaction(world.client(), "t", LIMITS)
    world.broker.send_in(transaction, topic, world.message(topic, b"1"))
    world.leave_steps(0)
    world.broker.commit(transaction)
    world.delete(topic)
    world.finish_turns()
    assert wildcard.bodies() == [b"1"]


def test_nothing_waits_for_nobody() -> None:
    world = EngineWorld()
    world.leave_steps(0)
    commit(world)
    assert world.topic("t").late is None


def test_what_waits_for_a_topic_that_ends_is_dropped() -> None:
    world = EngineWorld()
    owner = world.client("owner")
    topic = world.broker.open_temporary(owner, TEMP_TOPIC)
    assert isinstance(topic, Topic)
    world.subscribe(owner, topic, AUTO)
    transaction = Transaction(owner, "t", LIMITS)
    for number in range(SENDS):
        world.broker.send_in(transaction, topic, world.message(topic, b"%d" % number, persistent=False))
    world.leave_steps(0)
    world.broker.commit(transaction)
    assert topic.late
    world.lose(owner)
    world.finish_turns()
    assert topic.late is None
    assert world.memory_used() == 0


def test_what_nobody_takes_is_sent_on_in_the_batch() -> None:
    """After a crash nobody would know that it was not."""
    world = EngineWorld(address("t", dead_letters__send_to_dla_on_no_route=True, dead_letter_address="dead"))
    durable = with_durables(world, 3, "n = 8")
    world.leave_steps(0)
    commit(world, count=5)
    late = len(world.topic("t").late or ())
    assert late == 5
    assert world.depth("dead") == 5
    world.finish_turns()
    assert [one.body for one in world.dead_letters("dead")] == NUMBERS[:5]
    assert durable.handed == []


def test_what_is_taken_later_is_not_sent_on() -> None:
    world = EngineWorld(address("t", dead_letters__send_to_dla_on_no_route=True, dead_letter_address="dead"))
    durable = with_durables(world, MANY, "n = 7")
    commit(world)
    assert world.topic("t").late
    world.lose(durable)
    world.finish_turns()
    assert world.dead_letters("dead") == []
    durable = with_durables(world, MANY, "n = 7")
    world.finish_turns()
    assert by_consumer(durable) == [NUMBERS] * MANY


def test_a_crash_before_it_is_published_loses_nothing() -> None:
    world = RestartWorld()
    durable = with_durables(world, 3)
    world.lose(durable)
    world.sync()
    world.leave_steps(0)
    commit(world, count=5)
    assert world.topic("t").late
    world.broker.sync()
    while world.workers.finish(SYNC_LANE):
        pass
    world.crash()
    assert by_consumer(with_durables(world, 3)) == [NUMBERS[:5]] * 3


def entered(world: EngineWorld, user: str) -> FakeClient:
    client = world.client()
    world.enter(client, user, "192.0.2.1")
    return client


def gate_of_commit(world: EngineWorld, sender: FakeClient, to: Queue | Topic) -> int:
    """Try to commit one message; undo it, and wait if a gate holds it back."""
    transaction = Transaction(sender, "u", LIMITS)
    world.broker.send_in(transaction, to, world.message(to, b"x"))
    gate, destination = world.broker.commit_refusal(transaction)
    if destination is not None:
        world.park(sender, gate, destination)
    world.broker.abort(transaction)
    return gate


def test_a_user_with_much_to_be_published_commits_nothing_more_to_topics() -> None:
    world = EngineWorld(user_limits=UserLimits(late_bytes=10_000))
    with_durables(world, MANY)
    world.subscriber(world.topic("other"), AUTO)
    mallory, mallory_too, ann = entered(world, "mallory"), entered(world, "mallory"), entered(world, "ann")
    commit(world, sender=mallory)
    held = world.broker.inspect().late
    late_bytes = held.largest["user 'mallory'"]
    assert held.limit_bytes == 10_000 < late_bytes
    assert gate_of_commit(world, mallory_too, world.topic("other")) == gates.PUBLISHING
    assert world.reasons(mallory_too)[0].startswith(
        f"publishing: {late_bytes} octets that user 'mallory' has committed are still being "
        "published to topics; the limit is 10000 (limits.late-memory-per-user)"
    )
    assert gate_of_commit(world, mallory, world.queue("q")) == gates.OPEN
    assert gate_of_commit(world, mallory, world.topic("nobody")) == gates.OPEN
    assert gate_of_commit(world, ann, world.topic("t")) == gates.OPEN
    assert mallory_too.admissions == 0
    world.finish_turns()
    assert mallory_too.admissions == 1
    assert gate_of_commit(world, mallory, world.topic("t")) == gates.OPEN
    assert world.broker.inspect().late == LateStats(10_000)


def test_what_waits_for_subscribers_that_have_left_is_dropped() -> None:
    world = EngineWorld(user_limits=UserLimits(late_bytes=10_000))
    plain = world.subscriber(world.topic("t"), AUTO)
    mallory = entered(world, "mallory")
    world.leave_steps(0)
    commit(world, persistent=False, sender=mallory)
    world.lose(plain)
    world.lose(mallory)
    world.finish_turns()
    assert world.memory_used() == 0
    assert world.broker.inspect().late == LateStats(10_000)
