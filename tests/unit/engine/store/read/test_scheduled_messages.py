"""What is scheduled in a store that nobody has open."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import FOREVER, Plan
from engine.store.read.scheduled_messages import scheduled_in
from engine.store.settings import StoreSettings
from tests.support.engine.broker_view import BrokerView
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import FileHome, message


def broker_of(home: FileHome) -> Broker:
    return Broker(home.store, home.clock, home.timers, AddressMatcher(()), 1 << 30)


def schedule(broker: Broker, plan: Plan, to: str = "q", size: int = 3_000) -> str:
    target = delayed(BrokerView(broker).queue(to), plan)
    one = message(0, b"x" * size)
    broker.send(target, one)
    broker.end_turn()
    broker.begin_turn()
    return BrokerView(broker).schedule.job_id(one.log_offset)


@pytest.mark.parametrize("segment_bytes", [8_192, 1 << 20])
def test_it_is_what_a_gateway_would_find(segment_bytes: int, tmp_path: Path) -> None:
    home = FileHome(StoreSettings(segment_bytes=segment_bytes))
    broker = broker_of(home)
    now_ms = broker.wall_ms
    late = [schedule(broker, Plan(delay_ms=1_000_000 - number)) for number in range(12)]
    again = schedule(broker, Plan(period_ms=1_000, repeat=FOREVER), "other")
    gone = schedule(broker, Plan(delay_ms=5_000))
    fired = schedule(broker, Plan(delay_ms=500))
    schedules = BrokerView(broker).schedule
    assert schedules.cancel(schedules.place_named(gone))
    home.live_on(broker, 30, 100)
    copy_to(tmp_path, home.files)
    pending, listed = scheduled_in(str(tmp_path / "data"), "", 100)
    assert pending == 13
    assert [one["id"] for one in listed] == [again, *reversed(late)]
    assert fired not in [one["id"] for one in listed]
    first = listed[0]
    assert (first["destination"], first["repeats"]) == ("queue://other", True)
    assert first["due_ms"] == now_ms + (first["fired"] + 1) * 1_000
    assert first["fired"] >= 2
    assert [one["due_ms"] for one in listed[1:]] == [now_ms + 1_000_000 - number for number in range(11, -1, -1)]
    own = schedules.find(schedules.place_named(late[-1]))
    assert own is not None
    assert listed[1]["size_bytes"] == own.size > 3_000
    assert [one["id"] for one in scheduled_in(str(tmp_path / "data"), "queue://q", 2)[1]] == [late[-1], late[-2]]
    home.kill()
    assert len(broker_of(home).scheduler.pending) == pending


def test_a_store_that_never_had_a_schedule(tmp_path: Path) -> None:
    home = FileHome()
    home.send_durably(home.store.open_destination(1, "q"), 3)
    copy_to(tmp_path, home.files)
    assert scheduled_in(str(tmp_path / "data"), "", 5) == (0, [])
