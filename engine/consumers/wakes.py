"""Wakes consumers: resting ones as there is room, some in each turn; those with a rate as the next second begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from engine.consumers.client import RestRoom, WindowRoom
from engine.consumers.consumer import Consumer
from engine.consumers.turn_steps import Steps
from engine.ports.clock import Clock
from engine.ports.timers import Timers, TimerTarget
from engine.values import gates

RATE_STEPS: Final = 8  # for a consumer that gets the messages of its next second
WAKE_STEPS: Final = 2  # for one consumer; its queue is dispatched as well


@dataclass(slots=True, eq=False)
class Wakes:
    """The rooms whose consumers may take turns again."""

    steps: Steps
    rooms: list[RestRoom] = field(default_factory=list)

    def open(self, room: RestRoom) -> None:
        """Wake the consumers of ``room``: the cause that held them is over."""
        if room.resting and not room.is_waking:
            room.is_waking = True
            self.rooms.append(room)
            self.steps.agenda.is_open = True

    def run(self) -> None:
        """Wake as many of each room as may get a message now; call it again once they have been dispatched."""
        rooms, self.rooms = self.rooms, []
        for room in rooms:
            room.is_waking = False
            self._wake(room)
        if self.rooms and self.steps.left <= 0:
            self.steps.need_a_turn()

    def _wake(self, room: RestRoom) -> None:
        count = room.wakes_at_once()
        if count == 0:
            if isinstance(room, WindowRoom) and room.outlet.is_output_full:
                lead = room.lead
                if lead.rest_room is room:
                    room.end_rest(lead)
                room.outlet.rest(lead)  # which opens this room again
            return
        is_of_window = isinstance(room, WindowRoom)
        steps = self.steps
        while count > 0 and room.resting and steps.left > 0:
            steps.left -= WAKE_STEPS
            consumer = next(iter(room.resting.values()))
            room.end_rest(consumer)
            siblings = consumer.siblings
            if not is_of_window and siblings is not None and siblings.lead is consumer:
                siblings.opened()
                continue
            consumer.queue.list_one(consumer)
            if consumer.is_listed:
                count -= 1
        self.open(room)


@dataclass(slots=True, eq=False)
class Rates(TimerTarget):
    """Consumers that have used up this second's messages and wait for the next (``TokenBucket``).

    waiting: a heap of (when, consumer id, consumer).  _armed: times for which a timer is set.
    """

    clock: Clock
    timers: Timers
    _steps: Steps
    waiting: list[tuple[int, int, Consumer]] = field(default_factory=list)
    _armed: set[int] = field(default_factory=set)

    def wait(self, consumer: Consumer, due_ms: int) -> None:
        """Let ``consumer`` take turns again at ``due_ms``."""
        heappush(self.waiting, (due_ms, consumer.consumer_id, consumer))
        self._arm(due_ms)

    def timer_fired(self, key: int) -> None:
        waiting = self.waiting
        steps = self._steps
        self._armed.discard(key)
        while waiting and waiting[0][0] <= key:
            if steps.left <= 0:
                self._arm(self.clock.monotonic_ms())
                return
            steps.left -= RATE_STEPS
            consumer = heappop(waiting)[2]
            consumer.window.reopen(gates.RATE)
            consumer.queue.list_consumer(consumer)

    def _arm(self, due_ms: int) -> None:
        if due_ms not in self._armed:
            self._armed.add(due_ms)
            self.timers.call_at(due_ms, self, due_ms)
