"""Producers stop before the disk is full, the operator hears of it before that, and acknowledgements go on."""

from __future__ import annotations

import pytest

from engine.limits.disk_watch import CHECK_MS, DiskSpace, DiskWatch
from engine.ports.workers import FILE_LANE
from engine.values import gates
from tests.support.engine.engine_world import EngineWorld
from tests.support.fakes import HeldWorkers


class FakeSpace(DiskSpace):
    """A disk of 1,000 octets."""

    def __init__(self) -> None:
        self.free_bytes = 1_000
        self.fault = ""

    def measure(self) -> tuple[int, int]:
        if self.fault:
            raise OSError(self.fault)
        return 1_000, self.free_bytes


class Watched(EngineWorld):
    def __init__(self, max_usage_percent: int = -1, min_free_bytes: int = 0) -> None:
        super().__init__()
        self.space = FakeSpace()
        self.workers = HeldWorkers()
        flow = self.broker.producer_gates
        self.watch = DiskWatch(
            flow, self.space, self.workers, self.clock, self.timers, max_usage_percent, min_free_bytes
        )
        self.watch.start()

    def free(self, free_bytes: int) -> None:
        """Let so much be free, and look."""
        self.space.free_bytes = free_bytes
        self.advance(CHECK_MS)
        self.workers.finish(FILE_LANE)
        self.turn()


@pytest.mark.parametrize(
    ("limits", "fine", "warns", "stops", "resumes", "words"),
    [
        ({"max_usage_percent": 80}, 300, 280, 200, 211, "80.0 % of the disk are used, the limit is 80 %"),
        ({"min_free_bytes": 100}, 112, 110, 99, 105, "99 octets of the disk are free, the limit is 100"),
    ],
)
def test_it_warns_then_stops_then_goes_on(
    limits: dict[str, int], fine: int, warns: int, stops: int, resumes: int, words: str
) -> None:
    world = Watched(**limits)
    world.free(fine)
    assert (world.disk_reason(), world.disk_warning()) == ("", "")
    world.free(warns)
    assert world.disk_reason() == ""
    assert "of the disk are" in world.disk_warning()
    world.send(b"1")
    world.free(stops)
    assert words in world.disk_reason()
    assert world.try_send(b"2") == gates.DISK
    assert world.try_send(b"3", persistent=False) == gates.OPEN, "what is not logged goes on"
    world.free(resumes - 1)
    assert world.try_send(b"2") == gates.DISK, "not so near the limit"
    world.free(resumes + 1)
    assert world.try_send(b"2") == gates.OPEN


def test_it_looks_at_once_when_half_of_what_was_left_has_come() -> None:
    world = Watched(min_free_bytes=100)
    world.free(500)
    world.space.free_bytes = 90
    world.watch.turn_ended(199, 0)
    assert not world.workers.finish(FILE_LANE)
    world.watch.turn_ended(200, 0)
    world.watch.turn_ended(300, 0)
    assert world.workers.finish(FILE_LANE) and not world.workers.finish(FILE_LANE), "one look at a time"
    assert "90 octets of the disk are free" in world.disk_reason()
    world.watch.turn_ended(1_000, 1_000)
    assert not world.workers.finish(FILE_LANE), "where producers wait already a look a second does"


def test_who_has_filled_all_that_was_left_waits_for_the_look() -> None:
    world = Watched(min_free_bytes=100)
    world.free(500)
    world.watch.turn_ended(399, 150)
    assert world.try_send(b"1") == gates.OPEN
    world.watch.turn_ended(400, 150)
    assert world.disk_reason().startswith("the space left at the last check of the disk is used up")
    assert world.try_send(b"2") == gates.DISK
    world.space.free_bytes = 104  # a little above the limit does, for it was never reached
    assert world.workers.finish(FILE_LANE)
    world.turn()
    assert world.try_send(b"2") == gates.OPEN
    world.watch.turn_ended(402, 400)
    assert world.workers.finish(FILE_LANE), "what is not on the disk yet will still take some"


@pytest.mark.parametrize("room_bytes", [0, 1])
def test_turns_that_append_nothing_do_not_look_however_little_is_left(room_bytes: int) -> None:
    world = Watched(min_free_bytes=100)
    world.free(100 + room_bytes)
    for _ in range(3):
        world.watch.turn_ended(0, 0)
    assert not world.workers.finish(FILE_LANE)
    assert ("are free" in world.disk_reason()) == (not room_bytes)


def test_who_waits_is_told_why_and_goes_on() -> None:
    world = Watched(max_usage_percent=50)
    world.free(400)
    client = world.client()
    queue = world.queue("q")
    assert world.try_send(b"x") == gates.DISK
    world.park(client, gates.DISK, queue)
    (reason,) = world.reasons(client)
    assert reason.startswith("disk: queue://q, 60.0 % of the disk are used, the limit is 50 % (max-disk-usage)")
    world.free(900)
    assert client.admissions == 1
    assert not world.is_blocked()


def test_consumers_go_on() -> None:
    world = Watched(max_usage_percent=50)
    world.send(b"1")
    world.free(100)
    client = world.subscriber()
    world.acknowledge(*client.take())
    assert world.stats().depth == 0


def test_what_cannot_be_measured_changes_nothing_but_is_told() -> None:
    world = Watched(max_usage_percent=50)
    world.free(100)
    world.space.fault = "Stale file handle"
    world.free(900)
    assert world.try_send(b"x") == gates.DISK
    assert world.disk_warning() == "the disk's free space is not known: Stale file handle"
    world.space.fault = ""
    world.free(900)
    assert world.try_send(b"x") == gates.OPEN


def test_how_much_may_be_added_is_known_after_the_first_look() -> None:
    world = Watched(max_usage_percent=80, min_free_bytes=100)
    assert world.watch.room_bytes() is None
    world.free(500)
    assert world.watch.room_bytes() == 300, "the nearer limit counts"
    world.free(150)
    assert world.watch.room_bytes() == -50


def test_without_a_limit_nobody_looks() -> None:
    world = Watched()
    assert world.watch.room_bytes() is None
    assert not world.workers.finish(FILE_LANE)
