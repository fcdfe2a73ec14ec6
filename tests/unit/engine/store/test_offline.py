"""Scheduled messages cancelled in a store that nobody has open."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.features.scheduler.plan import FOREVER, Plan
from engine.store.disk.files import RealFiles
from engine.store.offline import Cancelled, cancel_scheduled
from engine.store.read.scheduled_messages import scheduled_in
from engine.store.settings import StoreSettings
from gateway.__main__ import main
from gateway.process.clock import SystemClock
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import FileHome
from tests.unit.engine.store.read.test_scheduled_messages import broker_of, schedule

SETTINGS = StoreSettings(segment_bytes=8_192)


def store_with(tmp_path: Path) -> tuple[str, list[str]]:
    """Return a store as a killed gateway leaves it, and the ids of what is scheduled in it, by due time."""
    home = FileHome(SETTINGS)
    broker = broker_of(home)
    ids = [schedule(broker, Plan(delay_ms=100_000 + number)) for number in range(5)]
    ids.append(schedule(broker, Plan(period_ms=200_000, repeat=FOREVER), "other"))
    home.live_on(broker, 3, 100)
    copy_to(tmp_path, home.files)
    return str(tmp_path / "data"), ids


def left_in(directory: str) -> list[str]:
    return [one["id"] for one in scheduled_in(directory, "", 100)[1]]


def cancel(directory: str, ids: list[str], destination: str = "") -> Cancelled:
    return cancel_scheduled(directory, ids, destination, RealFiles(), SystemClock(), SETTINGS)


def test_some_are_cancelled_by_their_ids_and_the_others_stay(tmp_path: Path) -> None:
    directory, ids = store_with(tmp_path)
    assert left_in(directory) == ids
    assert cancel(directory, [ids[1], "ID:nobody-7", ids[5], ids[1]]) == Cancelled(2, ["ID:nobody-7"])
    assert left_in(directory) == [ids[0], *ids[2:5]]
    assert cancel(directory, [ids[1]]) == Cancelled(0, [ids[1]])


def test_all_that_are_for_a_destination_are_cancelled(tmp_path: Path) -> None:
    directory, ids = store_with(tmp_path)
    assert cancel(directory, [], "queue://q") == Cancelled(5, [])
    assert left_in(directory) == [ids[5]]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory, ids = store_with(tmp_path)
    assert main(["schedule", "cancel", ids[0], "--data", directory]) == 0
    assert capsys.readouterr().out == "cancelled 1 message\n"
    assert main(["schedule", "cancel", "--destination", "other", "--data", directory, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"cancelled": 1, "unknown": [], "next": ""}
    assert left_in(directory) == ids[1:5]
    assert main(["schedule", "cancel", ids[0], "--data", directory]) == 1
