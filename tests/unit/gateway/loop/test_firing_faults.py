"""What was being fired when the engine failed is noted, and taken up by the next start."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import Plan
from engine.features.scheduler.scheduler import Scheduler
from engine.store.disk.files import RealFiles
from gateway.loop.firing_faults import NAME, FiringFaults
from tests.support.engine.engine_world import EngineWorld


def scheduled(count: int) -> tuple[Scheduler, list[int]]:
    """Return a scheduler and the places of messages that wait in it."""
    world = EngineWorld()
    target = delayed(world.queue("q"), Plan(delay_ms=1_000))
    places: list[int] = []
    for _ in range(count):
        message = world.message(target, b"x")
        world.broker.send(target, message)
        places.append(message.log_offset)
    return world.broker.scheduler, places


def faults(scheduler: Scheduler, tmp_path: Path) -> FiringFaults:
    return FiringFaults(RealFiles(), str(tmp_path), scheduler)


def test_a_failure_beside_the_schedule_leaves_no_word(tmp_path: Path) -> None:
    scheduler, _ = scheduled(1)
    faults(scheduler, tmp_path).note("KeyError: 1")
    assert list(tmp_path.iterdir()) == []


def test_the_one_that_was_being_fired_is_barred(tmp_path: Path) -> None:
    scheduler, places = scheduled(2)
    scheduler.firing.under_way, scheduler.firing.at = places[:], places[0]
    faults(scheduler, tmp_path).note("KeyError: 1")
    later, places = scheduled(2)
    faults(later, tmp_path).take_up()
    assert later.firing.barred == {places[0]: "its firing stopped the gateway: KeyError: 1"}
    assert later.firing.doubtful == set()


def test_of_several_each_is_doubtful_until_one_is_found(tmp_path: Path) -> None:
    scheduler, places = scheduled(3)
    scheduler.firing.under_way = places[:]
    faults(scheduler, tmp_path).note("KeyError: 1")
    later, _ = scheduled(3)
    one = faults(later, tmp_path)
    one.take_up()
    assert (later.firing.barred, later.firing.doubtful) == ({}, set(places))
    later.firing.under_way = [places[2]]
    one.note("KeyError: 2")
    last, _ = scheduled(3)
    faults(last, tmp_path).take_up()
    assert last.firing.barred == {places[2]: "its firing stopped the gateway: KeyError: 2"}
    assert last.firing.doubtful == set(places[:2])


def test_what_waits_no_more_is_forgotten(tmp_path: Path) -> None:
    scheduler, places = scheduled(2)
    scheduler.firing.under_way = [places[1]]
    faults(scheduler, tmp_path).note("KeyError: 1")
    later, _ = scheduled(1)
    faults(later, tmp_path).take_up()
    assert later.firing.barred == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("said", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "barred": 1, "doubtful": []}'])
def test_a_file_that_says_nothing_is_passed_over(said: str, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(said)
    scheduler, _ = scheduled(1)
    faults(scheduler, tmp_path).take_up()
    assert (scheduler.firing.barred, scheduler.firing.doubtful) == ({}, set())
