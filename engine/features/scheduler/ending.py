"""Cancels the schedules for destinations that end, some in each turn, because no index lists them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.features.scheduler.schedule_book import ScheduleBook
from engine.ports.timers import TimerTarget
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic

CHUNKS: Final = 32  # of pending schedules examined per turn
CANCELS: Final = 1_000  # per turn; a chunk is always finished


@dataclass(slots=True, eq=False)
class Ending(TimerTarget):
    """ended: numbers of destinations that have ended and still have schedules, which no longer fire.

    place: pending schedules up to here were examined.
    """

    scheduler: ScheduleBook
    ended: set[int] = field(default_factory=set)
    place: int = -1
    is_armed: bool = False

    def end(self, target: int) -> None:
        """Cancel all schedules for a destination, in this turn or soon."""
        if target not in self.scheduler.counts:
            return
        self.ended.add(target)
        self.place = -1
        if not self.is_armed:
            self._go_on()

    def take_up(self) -> None:
        """Continue what a stop has interrupted."""
        known = self.scheduler.destinations.by_id
        for target in self.scheduler.counts:
            if target > 0 and target not in known:
                self.ended.add(target)
        self._arm()

    def emptied(self, target: int) -> None:
        """No schedule for a destination is left."""
        if target in self.ended:
            self.ended.discard(target)
        elif target > 0:
            for observer in self.scheduler.observers:
                observer.schedule_gone(target)

    def timer_fired(self, key: int) -> None:
        self.is_armed = False
        self._go_on()

    def _go_on(self) -> None:
        if not self.ended:
            return
        scheduler = self.scheduler
        found, self.place = scheduler.pending.targeting(self.ended, self.place, CHUNKS, CANCELS)
        if found:
            scheduler.cancel(found)
        self._arm()

    def _arm(self) -> None:
        if self.ended and not self.is_armed:
            self.is_armed = True
            self.scheduler.context.call_later(1, self, 0)


@dataclass(slots=True, eq=False)
class EndsWithDestination(Observer):
    """Ends the schedules for temporary destinations that end."""

    _ending: Ending

    def temporary_ending(self, destination: Queue | Topic) -> None:
        self._ending.end(destination.destination_id)
