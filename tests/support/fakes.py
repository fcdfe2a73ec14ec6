"""Fakes of everything that the engine and a session get: time, timers, workers, a socket, a client."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.ports.workers import Job, Workers
from engine.values.broker_stats import BrokerStats, DestinationStats
from engine.values.delivery import Delivery
from engine.values.errors import EngineError
from engine.values.message import Message
from protocols.peer_socket import PeerSocket
from what_if.ports import virtual_time

START_MONOTONIC_MS: Final = 5_000
START_WALL_MS: Final = 1_700_000_000_000


class VirtualClock(virtual_time.VirtualClock):
    """Stands still until a test, ``VirtualTimers.advance`` or a World moves it."""

    def __init__(self, wall_ms: int = START_WALL_MS, now_ms: int = START_MONOTONIC_MS) -> None:
        super().__init__(wall_ms, now_ms)

    def set_wall(self, by_ms: int) -> None:
        """Set the wall clock forward or back."""
        self.wall_offset_ms += by_ms


class HastyClock(VirtualClock):
    """A clock on which a second passes at each reading."""

    def monotonic_ms(self) -> int:
        self.now_ms += 1_000
        return self.now_ms


class VirtualTimers(virtual_time.VirtualTimers):
    """Fires in order of time, then of setting; never inside ``call_at``."""

    def pending(self) -> int:
        """Return how many timers are set."""
        return len(self._due)

    def advance(self, milliseconds: int) -> None:
        """Let time pass, timer by timer; timers set meanwhile for that time fire, too."""
        until_ms = self.clock.now_ms + milliseconds
        while self._due and self._due[0][0] <= until_ms:
            when_ms, _, target, key = heapq.heappop(self._due)
            self.clock.now_ms = max(self.clock.now_ms, when_ms)
            target.timer_fired(key)
        self.clock.now_ms = until_ms


@dataclass(frozen=True, slots=True)
class Handed:
    """One message handed over.  delivery: None if it needs no answer."""

    body: bytes
    is_redelivered: bool
    delivery_count: int
    consumer: Consumer
    message: Message
    delivery: Delivery | None


class FakeClient(Client):
    """A connection that keeps its deliveries.  ``hold_after``: its output is full after this many, -1 for never.

    on_admit: messages to send again when a gate opens, one call of ``admit`` at a time.
    client_id: as JMS knows it.  browses_ended: browsers that have seen everything.
    """

    def __init__(self, name: str = "client", client_id: str = "") -> None:
        super().__init__()
        self.name = name
        self.client_id = client_id
        self.browses_ended: list[Consumer] = []
        self.handed: list[Handed] = []
        self.hold_after = -1
        self.admissions = 0
        self.confirmed: list[int] = []
        self.waits_for = 0
        self.waited: list[tuple[str, EngineError]] = []
        self.expelled: list[tuple[Consumer, EngineError, bool]] = []

    def bodies(self) -> list[bytes]:
        """Return the messages since the last call."""
        bodies = [one.body for one in self.handed]
        self.handed = []
        return bodies

    def take(self) -> list[Delivery]:
        """Return the deliveries since the last call."""
        deliveries = [one.delivery for one in self.handed if one.delivery is not None]
        self.handed = []
        return deliveries

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        redelivered, count = delivery.is_redelivered, delivery.failed_attempts + 1
        self._hand(Handed(delivery.message.body, redelivered, count, consumer, delivery.message, delivery))

    def deliver_settled(self, consumer: Consumer, message: Message, is_redelivered: bool, delivery_count: int) -> None:
        self._hand(Handed(message.body, is_redelivered, delivery_count, consumer, message, None))

    def _hand(self, one: Handed) -> None:
        assert not one.consumer.is_closed, "a message for a consumer that has gone"
        self.handed.append(one)
        if 0 <= self.hold_after <= len(self.handed):
            self.is_output_full = True

    def release_confirmations(self, offset: int) -> bool:
        self.confirmed.append(offset)
        return offset < self.waits_for

    def admit(self) -> None:
        self.admissions += 1

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        self.waited.append((uri, error))

    def expel(self, consumer: Consumer, error: EngineError, with_connection: bool) -> None:
        self.expelled.append((consumer, error, with_connection))

    def describe(self) -> dict[str, str]:
        return {"address": self.name, "client_id": self.client_id} if self.client_id else {"address": self.name}

    def browse_ended(self, consumer: Consumer) -> None:
        self.browses_ended.append(consumer)


@dataclass(slots=True)
class FakeLink(PeerSocket):
    """A socket that remembers the requests to it."""

    address: str = "192.0.2.1:40001"
    is_touched: bool = False
    is_reading: bool = True
    credentials: list[tuple[str, str]] = field(default_factory=list)
    proofs: list[tuple[str, bool]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    wants_tick: bool = False
    conversion_faults: list[str] = field(default_factory=list)

    def touch(self) -> None:
        self.is_touched = True

    def authenticate(self, login: str, passcode: str) -> None:
        self.credentials.append((login, passcode))

    def login_proved(self, login: str, is_right: bool) -> None:
        self.proofs.append((login, is_right))

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def tick_soon(self) -> None:
        self.wants_tick = True

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def conversion_failed(self, text: str) -> None:
        self.conversion_faults.append(text)

    def peer(self) -> str:
        return self.address


def destination_stats(stats: BrokerStats, name: str) -> DestinationStats:
    """Return the numbers of one destination; its name must be unique."""
    (found,) = [one for one in stats.destinations if one.name == name]
    return found


class HeldWorkers(Workers):
    """Jobs that run on the test's request, in the order of their submission.  submitted: how many of each lane."""

    def __init__(self) -> None:
        self.submitted: Counter[int] = Counter()
        self.jobs: deque[tuple[Job, int]] = deque()

    def submit(self, job: Job, lane: int) -> None:
        self.submitted[lane] += 1
        self.jobs.append((job, lane))

    def finish(self, lane: int) -> bool:
        """Run and finish all present jobs of ``lane``; return whether there were any."""
        mine = [job for job, found in self.jobs if found == lane]
        self.jobs = deque((job, found) for job, found in self.jobs if found != lane)
        for job in mine:
            job.run()
            job.finish()
        return bool(mine)

    def run_one(self, lane: int | None = None) -> bool:
        """Run and finish the oldest job, of one lane if given; return False if there is none."""
        for number, (job, found) in enumerate(self.jobs):
            if lane is None or found == lane:
                del self.jobs[number]
                job.run()
                job.finish()
                return True
        return False

    def run_all(self, lane: int | None = None) -> None:
        """Run jobs, and those that they submit, until none is left."""
        while self.run_one(lane):
            pass
