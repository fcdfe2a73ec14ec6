"""Random schedules for addresses with limits: nothing is lost, doubled or reordered, and no limit is passed."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

import pytest

from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import Plan
from engine.values import gates
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient
from tests.support.long_run import LongRun
from tests.support.store.scripted_store import ScriptedStore
from tests.support.world.seeds import taken

LIMITS: Final = {"block": 2, "fail": 3, "free": -1}
BODY_BYTES: Final = 900
MEMORY_BYTES: Final = 12_000
STEP_MS: Final = 30
END_STEPS: Final = 4_000
PAGE_TURNS: Final = 7

SEEDS: Final = range(1, 61)
STEPS: Final = 80
WEIGHTS: Final = {"schedule": 3, "take": 5, "cancel": 1, "damage": 1, "wait": 3}


@dataclass
class Model:
    """wanted: (due time, place) of what is to come for a name, by number.  moved: those whose time was put off."""

    wanted: dict[str, dict[int, tuple[int, int]]] = field(default_factory=lambda: {name: {} for name in LIMITS})
    came: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in LIMITS})
    moved: set[int] = field(default_factory=set)


class SlowStore(ScriptedStore):
    """A page takes some turns."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0

    def serve_pages(self) -> bool:
        self.turns += 1
        return super().serve_pages() if self.turns % PAGE_TURNS == 0 else False


class HeldWorld(EngineWorld):
    """Consumers of one message each, who answer when they are told to."""

    def __init__(self) -> None:
        super().__init__(
            address("block", full__max_size_messages=2, full__address_full_policy="BLOCK"),
            address("fail", full__max_size_messages=3, full__address_full_policy="FAIL"),
            memory_limit_bytes=MEMORY_BYTES,
            store=SlowStore(),
        )
        self.model = Model()
        self.count = 0
        self.most_held = 0
        self.passing_count = 0
        self.takers: dict[str, FakeClient] = {}
        for name in LIMITS:
            self.takers[name] = self.client(name)
            self.consumer(self.takers[name], name, prefetch=1)

    def put_off(self, name: str, count: int, delay_ms: int, persistent: bool) -> None:
        target = delayed(self.queue(name), Plan(delay_ms))
        due_ms = self.broker.wall_ms + delay_ms
        for _ in range(count):
            message = self.message(target, b"%*d" % (BODY_BYTES, self.count), persistent=persistent)
            assert self.broker.send(target, message) == gates.OPEN
            self.model.wanted[name][self.count] = (due_ms, message.log_offset)
            self.count += 1
        self.turn()

    def take(self, name: str, most: int) -> int:
        client = self.takers[name]
        for number in range(most):
            self.turn()
            if not client.handed:
                return number
            one = client.handed.pop(0)
            self.model.came[name].append(int(one.body))
            assert one.delivery is not None
            self.broker.acknowledge(one.delivery)
        self.turn()
        return most

    def _is_pending(self, place: int) -> bool:
        return self.schedule.find(place) is not None

    def disturb(self, what: str, name: str, chance: Random) -> None:
        """Cancel one that waits, or let its record be damaged for a while."""
        wanted = self.model.wanted[name]
        pending = [one for one, (_, place) in wanted.items() if self._is_pending(place)]
        if not pending:
            return
        chosen = chance.choice(pending)
        scheduler = self.broker.scheduler
        if what == "cancel":
            scheduler.cancel([scheduler.schedule_at(wanted.pop(chosen)[1])])
        else:
            scheduler.damaged(wanted[chosen][1], "torn")
            self.model.moved.add(chosen)

    def finish(self) -> None:
        """Let everything come that is to, and count."""
        scheduler = self.broker.scheduler
        for _ in range(END_STEPS):
            self.advance(STEP_MS)
            taken = sum(self.take(name, 3) for name in LIMITS)
            self.check()
            if not taken and not len(scheduler.pending):
                break
        for name, wanted in self.model.wanted.items():
            came = self.model.came[name]
            assert sorted(came) == sorted(wanted)
            in_order = [number for number in came if number not in self.model.moved]
            assert in_order == sorted(in_order, key=wanted.__getitem__)
        assert (scheduler.ahead.loaded, scheduler.ahead.asked, scheduler.counts) == ({}, {}, {})
        assert self.memory_used() == 0

    def check(self) -> None:
        for name, most in LIMITS.items():
            depth = self.depth(name)
            assert most < 0 or depth <= most, (name, depth)
        # One message more may pass any limit of octets.
        assert self.memory_used() <= MEMORY_BYTES + 2 * BODY_BYTES
        scheduler = self.broker.scheduler
        held = scheduler.firing.held
        waiting = [key for one in [*held.shut.values(), *held.going.values()] for key in one.keys.after(-1, 10_000)]
        passed = [key for key in scheduler.keys.after(-1, 10_000) if key <= held.reached]
        assert sorted(waiting) == passed
        assert len(waiting) == held.count
        assert held.kept_bytes == sum(held.kept.values())
        self.most_held = max(self.most_held, held.count)
        self.passing_count += bool(held.going)


def run_seed(seed: int) -> HeldWorld:
    """Raises: AssertionError."""
    chance = Random(seed)
    world = HeldWorld()
    for what in chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=STEPS):
        name = chance.choice(sorted(LIMITS))
        if what == "schedule":
            delay_ms = chance.choice((1, 20, 400, 5_000))
            world.put_off(name, chance.choice((1, 3, 40)), delay_ms, chance.random() < 0.5)
        elif what == "take":
            world.take(name, chance.randint(1, 9))
        elif what == "wait":
            world.advance(chance.randint(1, 20) * STEP_MS)
        else:
            world.disturb(what, name, chance)
        world.check()
    world.finish()
    return world


@pytest.mark.parametrize("seed", taken(SEEDS))
def test_held_schedule_seed(seed: int) -> None:
    run_seed(seed)


def test_more_seeds(long_run: LongRun) -> None:
    long_run.take(run_seed)


@pytest.mark.interpreted
def test_the_seeds_see_what_they_are_for() -> None:
    worlds = [run_seed(seed) for seed in range(1, 8)]
    assert max(world.most_held for world in worlds) > 60
    assert sum(world.passing_count for world in worlds) > 0  # looks at which some went on while others were shut
