"""Laws of dispatch under any interleaving of sending, settling, failing, closing and time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.consumers.consumer import INDIVIDUAL, Consumer
from engine.values.delivery import Delivery
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient

GROUPS = ("a", "a", "b", "")
COLOURS = ("red", "blue")

STEPS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(GROUPS), st.sampled_from(COLOURS), st.booleans()),
    st.tuples(st.just("subscribe"), st.sampled_from((1, 0, 2, 5)), st.sampled_from(("", *COLOURS))),
    st.tuples(st.sampled_from(("ack", "nack")), st.integers(0, 3)),
    st.tuples(st.sampled_from(("ack", "nack")), st.integers(0, 3)),
    st.tuples(st.just("close"), st.booleans()),
    st.tuples(st.just("pause")),
    st.tuples(st.just("advance"), st.sampled_from((0, 100, 400))),
)


@dataclass(eq=False)
class Taker:
    client: FakeClient
    consumer: Consumer
    colour: str
    held: list[Delivery] = field(default_factory=list)


@dataclass
class Run:
    """One history.  order: body -> place in the order of sending.  open: bodies neither acknowledged nor dead."""

    is_exclusive: bool
    uses_selectors: bool
    is_rebalancing: bool
    takers: list[Taker] = field(default_factory=list)
    order: dict[bytes, int] = field(default_factory=dict)
    group_of: dict[bytes, str] = field(default_factory=dict)
    colour_of: dict[bytes, str] = field(default_factory=dict)
    open: set[bytes] = field(default_factory=set)
    outcomes: Counter[bytes] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.world = EngineWorld(
            address(
                "q",
                queue__exclusive_consumer=self.is_exclusive,
                queue__group_rebalance=self.is_rebalancing,
                queue__group_idle_timeout_ms=300 if self.is_rebalancing else -1,
                redelivery__initial_redelivery_delay_ms=100,
                redelivery__redelivery_delay_ms=200,
                redelivery__maximum_redeliveries=2,
                dead_letter_address="dead",
            )
        )
        self.dead = self.world.client("dead")
        self.world.consumer(self.dead, "dead", prefetch=30_000)

    def step(self, *what: object) -> None:
        match what:
            case ("send", str(group), str(colour), bool(persistent)):
                body = b"%d" % len(self.order)
                self.order[body] = len(self.order)
                self.group_of[body] = "" if self.uses_selectors else group
                self.colour_of[body] = colour
                self.open.add(body)
                self.world.send(body, headers=f"colour:{colour}", group=self.group_of[body], persistent=persistent)
            case ("subscribe", int(prefetch), str(colour)) if len(self.takers) < 4:
                client = self.world.client()
                colour = colour if self.uses_selectors else ""
                selector = f"colour = '{colour}'" if colour else ""
                self.takers.append(
                    Taker(client, self.world.consumer(client, "q", INDIVIDUAL, prefetch, selector=selector), colour)
                )
                self.world.turn()
            case ("ack" | "nack" as kind, int(index)):
                holding = [taker for taker in self.takers if taker.held]
                if holding:
                    taker = holding[index % len(holding)]
                    delivery = taker.held.pop(index % len(taker.held))
                    if kind == "ack":
                        self.settled(delivery.message.body)
                        self.world.acknowledge(delivery)
                    else:
                        self.world.refuse(delivery)
            case ("close", bool(is_lost)) if self.takers:
                taker = self.takers.pop(0)
                (self.world.lose if is_lost else self.world.leave)(taker.client)
            case ("pause",) if self.takers:
                client = self.takers[-1].client
                if client.is_output_full:
                    self.world.broker.output_drained(client)
                    self.world.turn()
                else:
                    client.is_output_full = True
            case ("advance", int(milliseconds)):
                self.world.advance(milliseconds)
        self.look()

    def settled(self, body: bytes) -> None:
        self.open.discard(body)
        self.outcomes[body] += 1

    def look(self) -> None:
        """Take what came and check it."""
        for delivery in self.dead.take():
            self.settled(delivery.message.body)
        came = sorted(
            ((one.tag, taker, one) for taker in self.takers for one in taker.client.take()), key=lambda one: one[0]
        )
        for _, taker, delivery in came:
            taker.held.append(delivery)
        held = {one.message.body for taker in self.takers for one in taker.held}
        for _, taker, delivery in came:
            body = delivery.message.body
            assert self.outcomes[body] == 0, f"{body!r} comes though it is settled"
            assert taker.colour in ("", self.colour_of[body])
            group = [one for one in self.order if self.group_of[one] == self.group_of[body]]
            if self.is_exclusive or self.group_of[body]:
                rivals = self.order if self.is_exclusive else group
                for other in self.takers:
                    mine = [one.message.body for one in other.held if one.message.body in rivals]
                    assert other is taker or not mine, f"{body!r} and {mine} are with two consumers"
                waiting = [one for one in rivals if one in self.open and one not in held]
                assert all(self.order[one] > self.order[body] for one in waiting), f"{body!r} overtakes {waiting}"
        for taker in self.takers:
            assert len(taker.held) <= max(1, taker.consumer.window.prefetch)

    def finish(self) -> None:
        """Everything open reaches a consumer that keeps acknowledging."""
        while self.takers:
            self.step("close", False)
        self.step("subscribe", 1, "red")
        self.step("subscribe", 2, "")
        for _ in range(3 * len(self.order) + 10):
            self.step("advance", 400)
            while any(taker.held for taker in self.takers):
                self.step("ack", 0)
        assert self.open == set()
        assert all(count == 1 for count in self.outcomes.values())
        stats = self.world.stats()
        assert (stats.depth, stats.in_flight, stats.delayed) == (0, 0, 0)
        assert self.world.memory_used() == 0


@pytest.mark.parametrize(
    ("is_exclusive", "uses_selectors", "is_rebalancing"),
    [(False, False, False), (False, False, True), (True, False, False), (False, True, False)],
    ids=["groups", "rebalanced", "exclusive", "selectors"],
)
@settings(max_examples=100, deadline=None)
@given(steps=st.lists(STEPS, min_size=15, max_size=60))
def test_any_interleaving(
    is_exclusive: bool, uses_selectors: bool, is_rebalancing: bool, steps: list[tuple[object, ...]]
) -> None:
    run = Run(is_exclusive, uses_selectors, is_rebalancing)
    run.step("subscribe", 1, "red")
    for step in steps:
        run.step(*step)
    run.finish()
