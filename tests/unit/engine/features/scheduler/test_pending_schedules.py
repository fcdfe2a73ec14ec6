from __future__ import annotations

import sys
from random import Random

import pytest

from engine.features.scheduler.pending_schedules import CHUNK_COUNT, PendingSchedules, Schedule


def schedule(place: int, lane: int = 3, due_ms: int = 1_700_000_000_000) -> Schedule:
    return Schedule(place, lane, place // 8, due_ms + place, 7, 100)


def test_each_is_found_as_it_was_put_in() -> None:
    pending = PendingSchedules()
    put = [schedule(8 * number, number % 10) for number in range(1, 3 * CHUNK_COUNT)]
    for one in put:
        pending.add(one)
    assert list(pending) == put
    assert all(pending.find(one.place) == one for one in put)
    assert pending.find(9) is None
    assert pending.find(0) is None
    assert pending.find(put[-1].place + 8) is None


@pytest.mark.parametrize("seed", range(3))
def test_what_was_taken_out_is_gone_and_the_rest_stays(seed: int) -> None:
    random = Random(seed)
    pending = PendingSchedules()
    model: dict[int, Schedule] = {}
    place = 0
    for _ in range(8_000):
        if model and random.random() < 0.48:
            gone = random.choice(list(model)[:400])
            assert pending.remove(gone) == model.pop(gone)
            assert pending.find(gone) is None
        elif model and random.random() < 0.1:
            moved = random.choice(list(model)[:400])
            model[moved] = model[moved]._replace(due_ms=place)
            pending.move(moved, place)
        else:
            place += random.choice((8, 80))
            model[place] = schedule(place, random.randrange(10))
            pending.add(model[place])
        assert len(pending) == len(model)
    assert list(pending) == list(model.values())


def test_a_few_left_of_many_take_little_room() -> None:
    pending = PendingSchedules()
    for number in range(1, 100 * CHUNK_COUNT):
        pending.add(schedule(8 * number))
    for number in range(1, 100 * CHUNK_COUNT):
        if number % 50:
            pending.remove(8 * number)
    octets = sum(sys.getsizeof(getattr(chunk, name)) for chunk in pending._chunks for name in chunk.__slots__)
    assert octets / len(pending) < 200
