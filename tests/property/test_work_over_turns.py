"""What one turn has no steps for goes on in the next, whatever comes between: nothing is lost, doubled or out of order.

The other properties take few messages at a time; here each step is about hundreds of messages or consumers.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from engine.broker import Broker
from engine.consumers.consumer import AUTO, CLIENT, Consumer
from engine.sources.composite import Destination
from engine.transaction import Transaction, TransactionLimits
from engine.values.delivery import HELD, IN_FLIGHT, Delivery
from engine.values.destination import TOPIC
from engine.values.message import Message
from engine.values.refusal import Refusal
from tests.support.engine.engine_world import address
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import FakeClient

BACK = Refusal("requeue")
LATER = Refusal("requeue", delay_ms=2)
A_SEND = 300

# Windows of a consumer: what it asks for, with room for so many messages.
WINDOWS: list[dict[str, Any]] = [{}, {"window_bytes": 1_000}, {"window_bytes": 100_000}, {"is_credited": True}]
TAKER_STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("send", "refuse", "refuse", "ack", "hold", "hold-refused", "commit", "abort", "turn", "leave")
        ),
        st.integers(1, 1_000),
        st.booleans(),
    ),
    min_size=4,
    max_size=14,
)


class World(RestartWorld):
    def __init__(self, broker_class: type[Broker] = Broker, **values: object) -> None:
        self.broker_class = broker_class
        super().__init__(address("q", **values))

    def next_turn(self) -> None:
        self.broker.end_turn()
        self.broker.begin_turn()


class Taker:
    """One client that answers to many messages at a time.  sent: how many; settled: bodies of those acknowledged."""

    def __init__(self, world: World, limit: int, asked: dict[str, Any]) -> None:
        self.world = world
        self.limit = limit
        self.asked = asked
        self.client = world.client()
        self.consumer = self._subscribed()
        self.transaction: Transaction | None = None
        self.deliveries: list[Delivery] = []
        self.sent = 0
        self.settled: Counter[bytes] = Counter()

    def _subscribed(self) -> Consumer:
        consumer = self.world.consumer(self.client, "q", CLIENT, self.limit, **self.asked)
        self._grant(consumer)
        return consumer

    def _grant(self, consumer: Consumer) -> None:
        if "is_credited" in self.asked:
            consumer.grant(self.limit)

    def in_flight(self) -> list[Delivery]:
        self.deliveries += self.client.take()
        self.deliveries = [
            one for one in self.deliveries if one.state in (IN_FLIGHT, HELD) and one.consumer is self.consumer
        ]
        return [one for one in self.deliveries if one.state == IN_FLIGHT]

    def step(self, what: str, count: int, flag: bool) -> None:
        broker = self.world.broker
        some = self.in_flight()[:count]
        if what == "send":
            self.world.send(*[b"%d" % (self.sent + number) for number in range(A_SEND)], persistent=flag)
            self.sent += A_SEND
        elif what == "turn":
            self.world.next_turn()
        elif what == "leave" and self.transaction is None:
            broker.unsubscribe(self.consumer, is_lost=flag)
            self.consumer = self._subscribed()
        elif what in ("commit", "abort") and self.transaction is not None:
            transaction, self.transaction = self.transaction, None
            if what == "commit":
                self.settled.update(one.message.body for one in transaction.accepted)
                broker.commit(transaction)
            else:
                broker.abort(transaction)
        elif not some:
            return
        elif what == "refuse":
            broker.refuse_all(some, LATER if flag else BACK)
        elif what == "ack":
            self.settled.update(one.message.body for one in some)
            broker.acknowledge_all(some)
        elif what in ("hold", "hold-refused"):
            if self.transaction is None:
                self.transaction = Transaction(self.client, "tx", TransactionLimits())
            if what == "hold":
                self.transaction.add_accepted(some)
            else:
                self.transaction.add_refused(some, BACK)

    def finish(self) -> None:
        self.step("abort", 0, False)
        for _ in range(self.sent + 10):
            self.world.advance(10)
            assert not self.client.is_refusing
            self._grant(self.consumer)
            if not self.in_flight() and not self.world.stats().depth:
                break
            self.step("ack", self.sent, False)
        assert self.settled == Counter(b"%d" % number for number in range(self.sent))
        stats, window = self.world.stats(), self.consumer.window
        assert (stats.depth, stats.in_flight, stats.delayed) == (0, 0, 0)
        octets = window.octets
        assert octets is not None
        assert (window.in_flight, octets.in_flight(), self.world.memory_used()) == (0, 0, 0)
        assert not window.is_full


def answers(broker_class: type[Broker], phases: tuple[Phase, ...], examples: int = 30) -> None:
    @settings(
        max_examples=examples, phases=phases, derandomize=broker_class is not Broker, database=None, deadline=None
    )
    @given(st.sampled_from(WINDOWS), st.sampled_from((300, 1_000)), st.sampled_from((0, 3)), TAKER_STEPS)
    def hold(asked: dict[str, Any], limit: int, delay_ms: int, steps: list[tuple[str, int, bool]]) -> None:
        world = World(broker_class, redelivery__redelivery_delay_ms=delay_ms, redelivery__maximum_redeliveries=-1)
        taker = Taker(world, limit, asked)
        taker.step("send", 0, True)
        for step in steps:
            taker.step(*step)
        taker.finish()

    hold()


def test_answers_to_many_are_each_given_once() -> None:
    answers(Broker, tuple(Phase))


# -- who comes after a consumer that refused much and left

ONE_AT_A_TIME: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "an exclusive consumer": ({}, {"is_exclusive": True}, ""),
    "a queue with one consumer": ({"queue__exclusive_consumer": True}, {}, ""),
    "a group": ({}, {}, "g"),
    "strict order": ({"queue__strict_order_dispatch": True}, {}, ""),
}


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("end", ["closed", "lost", "left"])
@pytest.mark.parametrize("kind", ONE_AT_A_TIME)
@pytest.mark.parametrize("count", [250, 700])
def test_the_next_one_gets_all_in_order(count: int, kind: str, end: str, is_there: bool) -> None:
    values, asked, group = ONE_AT_A_TIME[kind]
    world = World(redelivery__redelivery_delay_ms=0, **values)
    client, heir = world.client(), world.client("heir")
    consumer = world.consumer(client, "q", CLIENT, count, **asked)
    if is_there and kind != "strict order":
        world.consumer(heir, "q", CLIENT, 10_000, **asked)
    else:
        is_there = False
    world.send(*[b"%d" % number for number in range(count + 3)], group=group)
    world.advance(0)
    deliveries = client.take()
    assert len(deliveries) == count and not heir.handed
    world.broker.refuse_all(deliveries, BACK)
    if end == "closed":
        world.broker.unsubscribe(consumer, is_lost=False)
    elif end == "left":
        world.broker.leave([consumer])
    else:
        world.broker.disconnect(client, is_lost=True)
    if not is_there:
        world.consumer(heir, "q", CLIENT, 10_000, **asked)
    world.advance(10)
    assert heir.bodies() == [b"%d" % number for number in range(count + 3)]


# -- topics with more selectors than one turn asks

DURABLE = "durable"
SELECTORS = ("n LIKE '%'", "n = '7'", "n = '7' AND n LIKE '7'", "n = '8'")
AUDIENCES = (1, 100, 600, 2_000)


class Audience:
    """Subscribers of a topic, by its name and a wildcard.  expected: what each must get."""

    def __init__(self, broker_class: type[Broker], chance: Random) -> None:
        self.world = World(broker_class)
        self.chance = chance
        self.topic = self.world.topic("t.a")
        self.expected: dict[Consumer, list[bytes]] = {}
        self.selectors: dict[Consumer, str] = {}
        self.clients: list[FakeClient] = []
        self.count = 0

    def join(self, count: int) -> None:
        client = self.world.client(client_id=f"id{len(self.clients)}")
        self.clients.append(client)
        for number in range(count):
            selector = self.chance.choice(SELECTORS)
            if number == 0 and self.chance.random() < 0.3:
                consumer = self.world.consumer(
                    client, self.topic, AUTO, selector=selector, is_durable=True, name=DURABLE, subscription="d"
                )
            else:
                source = self.chance.choice((self.topic, self.world.source(TOPIC, "t.>")))
                consumer = self.world.consumer(client, source, AUTO, selector=selector)
            self.expected[consumer] = []
            self.selectors[consumer] = selector

    def publish(self, persistent: bool) -> None:
        self.count += 1
        body = b"%d" % self.count
        for consumer, bodies in self.expected.items():
            if self.selectors[consumer] != SELECTORS[-1]:
                bodies.append(body)
        self.world.broker.send(self.topic, self.world.message(self.topic, body, persistent=persistent, headers="n:7"))

    def leave(self) -> None:
        consumer = self.chance.choice(list(self.expected))
        if consumer.name == DURABLE:
            return  # what is published meanwhile would be kept for it
        del self.expected[consumer]
        self.world.broker.unsubscribe(consumer, is_lost=False)

    def finish(self) -> None:
        self.world.sync()
        while self.world.is_more_to_come():
            self.world.advance(0)
        got: dict[Consumer, list[bytes]] = {}
        for client in self.clients:
            for one in client.handed:
                got.setdefault(one.consumer, []).append(one.body)
        for consumer, bodies in self.expected.items():
            assert got.get(consumer, []) == bodies, self.selectors[consumer]
        assert self.world.memory_used() == 0


def publications(broker_class: type[Broker], phases: tuple[Phase, ...], examples: int = 6) -> None:
    steps = st.sampled_from(("publish", "publish", "publish", "join", "leave", "turn"))

    @settings(
        max_examples=examples, phases=phases, derandomize=broker_class is not Broker, database=None, deadline=None
    )
    @given(st.lists(steps, min_size=4, max_size=12), st.randoms(use_true_random=False))
    def reach(names: list[str], chance: Random) -> None:
        audience = Audience(broker_class, chance)
        audience.join(chance.choice(AUDIENCES))
        audience.join(chance.choice(AUDIENCES))
        for name in names:
            if name == "publish":
                audience.publish(chance.random() < 0.5)
            elif name == "join":
                audience.join(chance.choice(AUDIENCES[:3]))
            elif name == "leave" and audience.expected:
                audience.leave()
            else:
                audience.world.next_turn()
        audience.finish()

    reach()


def test_a_publication_reaches_all_who_were_there() -> None:
    publications(Broker, tuple(Phase))


# -- that these laws can fail


class OneTakenAsAccepted(Broker):
    """Of many messages that are refused those behind the first 200 are lost."""

    def refuse_all(self, deliveries: list[Delivery], refusal: Refusal) -> None:
        super().acknowledge_all(deliveries[200:])
        super().refuse_all(deliveries[:200], refusal)


class PublishedTwice(Broker):
    def send(self, destination: Destination, message: Message) -> int:
        if message.body == b"3":
            super().send(destination, message)
        return super().send(destination, message)


def test_planted_bugs_are_found() -> None:
    with pytest.raises(AssertionError):
        answers(OneTakenAsAccepted, (Phase.generate,), 200)
    with pytest.raises(AssertionError):
        publications(PublishedTwice, (Phase.generate,), 50)
