"""Each message has one fate: acknowledged, dead or expired, whatever settles, crashes, expires and waits in between.

Laws at every step: no window is exceeded, in messages or octets; what was settled durably does not come again; the
messages of a group come in order.  At the end everything that was confirmed has exactly one fate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from engine.broker import Broker
from engine.consumers.client import Client
from engine.consumers.consumer import INDIVIDUAL, Consumer
from engine.dispatch.selection import Selection
from engine.sources.composite import Source
from engine.sources.queue import queue_of
from engine.transaction import Transaction, TransactionLimits
from engine.values.delivery import Delivery
from engine.values.options import SubscribeOptions
from engine.values.refusal import Refusal
from tests.support.engine.engine_world import address
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import FakeClient

WINDOW_BYTES = 60
SIZES = (1, 70)
GROUPS = ("a", "b", "")

STEPS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(GROUPS), st.sampled_from(SIZES), st.sampled_from((0, 0, 150))),
    st.tuples(st.just("subscribe"), st.sampled_from((1, 2, 5, 0)), st.booleans()),
    st.tuples(st.sampled_from(("ack", "nack", "dead-letter", "commit", "abort")), st.integers(0, 3)),
    st.tuples(st.sampled_from(("ack", "ack", "nack")), st.integers(0, 3)),
    st.tuples(st.just("close"), st.booleans()),
    st.tuples(st.just("advance"), st.sampled_from((1, 100, 300, 30_000))),
    st.tuples(st.just("sync")),
    st.tuples(st.just("crash")),
)


@dataclass(eq=False)
class Taker:
    client: FakeClient
    consumer: Consumer
    prefetch: int
    counts_bytes: bool
    held: list[Delivery] = field(default_factory=list)


class Fates:
    """One history.  sent: body -> its group, in order.  kept: bodies whose sending is durable; lost: those that a
    crash came upon before they were.

    gone, gone_durably: acknowledged since the start, and as of the last sync.
    """

    def __init__(self, broker_class: type[Broker]) -> None:
        self.world: RestartWorld = type("World", (RestartWorld,), {"broker_class": broker_class})(
            address(
                "q",
                redelivery__maximum_redeliveries=1,
                redelivery__initial_redelivery_delay_ms=100,
                blame="all",
                dead_letter_address="dead",
                expiry_address="late",
            )
        )
        self.takers: list[Taker] = []
        self.sent: dict[bytes, str] = {}
        self.kept: set[bytes] = set()
        self.lost: set[bytes] = set()
        self.gone: set[bytes] = set()
        self.gone_durably: set[bytes] = set()

    def step(self, *what: object) -> None:
        world = self.world
        match what:
            case ("send", str(group), int(size), int(lives_ms)):
                body = b"%d" % len(self.sent) + b"x" * size
                self.sent[body] = group
                world.send(body, group=group, expires_ms=world.broker.wall_ms + lives_ms if lives_ms else 0)
            case ("subscribe", int(prefetch), bool(counts_bytes)) if len(self.takers) < 3:
                client = world.client()
                window_bytes = WINDOW_BYTES if counts_bytes else None
                consumer = world.consumer(client, "q", INDIVIDUAL, prefetch, window_bytes=window_bytes)
                self.takers.append(Taker(client, consumer, prefetch, counts_bytes))
            case ("ack" | "nack" | "dead-letter" | "commit" | "abort" as kind, int(index)):
                self.answer(kind, index)
            case ("close", bool(is_lost)) if self.takers:
                world.broker.disconnect(self.takers.pop(0).client, is_lost)
            case ("advance", int(milliseconds)):
                world.advance(milliseconds)
            case ("sync",):
                world.sync()
                self.kept |= self.sent.keys() - self.lost
                self.gone_durably = set(self.gone)
            case ("crash",):
                world.crash()
                self.takers.clear()
                self.lost |= self.sent.keys() - self.kept
                self.gone = set(self.gone_durably)
        world.turn()
        self.look()

    def answer(self, kind: str, index: int) -> None:
        holding = [taker for taker in self.takers if taker.held]
        if not holding:
            return
        world = self.world
        taker = holding[index % len(holding)]
        delivery = taker.held.pop(index % len(taker.held))
        if kind == "nack":
            world.broker.refuse(delivery, Refusal())
        elif kind == "dead-letter":
            world.broker.refuse(delivery, Refusal("dead-letter"))
        elif kind == "abort":
            transaction = Transaction(taker.client, "t", TransactionLimits())
            transaction.add_accepted([delivery])
            world.broker.abort(transaction)
            taker.held.append(delivery)
        else:
            self.gone.add(delivery.message.body)
            if kind == "ack":
                world.broker.acknowledge(delivery)
                return
            transaction = Transaction(taker.client, "t", TransactionLimits())
            transaction.add_accepted([delivery])
            world.broker.commit(transaction)

    def look(self) -> None:
        came = sorted(
            ((one.tag, taker, one) for taker in self.takers for one in taker.client.take()), key=lambda one: one[0]
        )
        for _, taker, delivery in came:
            body = delivery.message.body
            assert body not in self.gone, f"{body!r} comes though it was settled"
            group = self.sent[body]
            rivals = [one for one in self.sent if group and self.sent[one] == group]
            with_others = {
                one.message.body for other in self.takers if other is not taker for one in other.held
            }  # of a group, one consumer alone has messages
            assert not with_others.intersection(rivals), f"the group of {body!r} is with two consumers"
            taker.held.append(delivery)
        for taker in self.takers:
            assert len(taker.held) <= max(1, taker.prefetch), "more than its window"
            if taker.counts_bytes and taker.held:
                sizes = [delivery.message.size for delivery in taker.held]
                assert sum(sizes) - max(sizes) <= WINDOW_BYTES, "more octets than its window and one message"

    def finish(self) -> None:
        """Everything reaches its fate."""
        while self.takers:
            self.step("close", False)
        self.step("subscribe", 2, False)
        for _ in range(4 * len(self.sent) + 10):
            self.step("advance", 300)
            while any(taker.held for taker in self.takers):
                self.step("ack", 0)
        self.step("sync")
        dead, late = self.drained("dead"), self.drained("late")
        assert len(set(dead)) == len(dead) and len(set(late)) == len(late), "one fate twice"
        for one, other in ((self.gone, set(dead)), (self.gone, set(late)), (set(dead), set(late))):
            assert not one & other, f"{one & other} have two fates"
        assert self.kept <= self.gone | set(dead) | set(late), "a confirmed message has no fate"
        assert self.world.stats().depth == self.world.stats().in_flight == 0
        assert self.world.memory_used() == 0

    def drained(self, name: str) -> list[bytes]:
        client = self.world.client(name)
        consumer = self.world.consumer(client, name, INDIVIDUAL, 30_000)
        self.world.turn()
        bodies = [delivery.message.body for delivery in client.take()]
        self.world.broker.unsubscribe(consumer, is_lost=False)
        return bodies


def law(broker_class: type[Broker], examples: int, phases: tuple[Phase, ...]) -> Callable[[], None]:
    @settings(
        max_examples=examples,
        deadline=None,
        phases=phases,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=broker_class is not Broker,
        database=None,
    )
    @given(st.lists(STEPS, min_size=10, max_size=50))
    def holds(steps: list[tuple[object, ...]]) -> None:
        run = Fates(broker_class)
        run.step("subscribe", 2, True)
        for step in steps:
            run.step(*step)
        run.finish()

    return holds


def test_any_interleaving_of_settle_crash_expiry_and_delay() -> None:
    law(Broker, 250, tuple(Phase))()


# -- that these laws can fail


class WideWindows(Broker):
    """Every window has a place more than it was asked for."""

    def subscribe(self, client: Client, source: Source, options: SubscribeOptions) -> Consumer:
        consumer = super().subscribe(client, source, options)
        consumer.window.limit += 1
        return consumer


class WideBytes(Broker):
    """Windows of octets never fill."""

    def subscribe(self, client: Client, source: Source, options: SubscribeOptions) -> Consumer:
        consumer = super().subscribe(client, source, options)
        assert consumer.window.octets is not None
        consumer.window.octets.credit += 1_000
        return consumer


class DeadAndAlive(Broker):
    """What is given up comes again."""

    def refuse(self, delivery: Delivery, refusal: Refusal) -> None:
        queue = queue_of(delivery.lane)
        before = queue.fates.dead_lettered_count
        message = delivery.message
        super().refuse(delivery, refusal)
        if queue.fates.dead_lettered_count > before:
            again = message.copy_to(queue.destination_id)
            self.send(queue, again)


class GroupsForgotten(Broker):
    """Nobody owns a group for longer than a turn."""

    def end_turn(self) -> int:
        for queue in self.destinations.queues.values():
            if isinstance(queue.selection, Selection):
                queue.selection.groups.by_key.clear()
        return super().end_turn()


class SettledOnlyInMemory(Broker):
    """Acknowledgements never reach the log."""

    def end_turn(self) -> int:
        self._forget()
        return super().end_turn()

    def flush_settlements(self) -> int:
        self._forget()
        return super().flush_settlements()

    def _forget(self) -> None:
        for batch, _ in self.settlements.waiting:
            batch.following = -1
            batch.ranges = []
        self.settlements.waiting.clear()


@pytest.mark.parametrize("bug", [WideWindows, WideBytes, DeadAndAlive, GroupsForgotten, SettledOnlyInMemory])
def test_a_planted_bug_is_found(bug: type[Broker]) -> None:
    with pytest.raises(AssertionError):
        law(bug, 300, (Phase.generate,))()
