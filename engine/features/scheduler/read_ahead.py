"""Reads messages from the log shortly before they are due, so that no firing waits for the disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.features.scheduler.pending_schedules import Schedule, due_of, place_of
from engine.features.scheduler.schedule_book import ScheduleBook
from engine.values.message import Message

SCHEDULE_READER: Final = -3  # the reader to which the store answers

AHEAD_MS: Final = 2_000  # before they are due
LATEST_MS: Final = 1_000  # read all within AHEAD_MS once the next unread one is due within this: large pages
AHEAD_MESSAGES: Final = 8_192
AHEAD_BYTES: Final = 16 * 1024 * 1024
GAP_ENTRIES: Final = 8  # others in between are read along rather than starting a new page
REQUEST_MESSAGES: Final = 1_024
REQUEST_BYTES: Final = 4 * 1024 * 1024
KEYS_EXAMINED: Final = 512  # of schedules examined at a time; once they have been read the next ones are
PAUSE_MS: Final = 200  # after an empty page, because the disk has not accepted the records yet
NEVER_MS: Final = 1 << 62


@dataclass(slots=True, eq=False)
class ReadAhead:
    """loaded: by place.  asked: requests under way, with their sizes.  examined_to: the last key examined.
    paused_to_ms: monotonic time before which nothing is requested.

    A schedule that is added or moved below ``examined_to`` and finds no room is read when it is due.
    """

    scheduler: ScheduleBook
    loaded: dict[int, Message] = field(default_factory=dict)
    loaded_bytes: int = 0
    asked: dict[int, int] = field(default_factory=dict)
    asked_bytes: int = 0
    examined_to: int = -1
    paused_to_ms: int = 0
    _requests: dict[tuple[int, int], list[Schedule]] = field(default_factory=dict)

    def came(self, due_ms: int, record: Message) -> None:
        """Keep a message that is in memory anyway, if it is due soon."""
        if due_ms <= self.scheduler.context.wall_ms + AHEAD_MS and self._has_room():
            self._keep(record)

    def moved(self, place: int, due_ms: int) -> None:
        """Note the new due time of a schedule."""
        if due_ms > self.scheduler.context.wall_ms + AHEAD_MS:
            self.forget(place)

    def forget(self, place: int) -> None:
        record = self.loaded.pop(place, None)
        if record is not None:
            self.loaded_bytes -= record.size

    def next_ms(self) -> int:
        """Return the wall time of the next read."""
        if not self._has_room():
            return NEVER_MS
        following = self.scheduler.keys.after(self.examined_to, 1)
        return due_of(following[0]) - LATEST_MS if following else NEVER_MS

    def pause_ms(self) -> int:
        """Return for how long nothing may be requested."""
        return max(0, self.paused_to_ms - self.scheduler.context.clock.monotonic_ms())

    def read(self) -> None:
        """Read some messages that are due soon, as far as there is room."""
        scheduler = self.scheduler
        now_ms = scheduler.context.wall_ms
        if self.asked or self.pause_ms() or self.next_ms() > now_ms:
            return
        held = scheduler.held  # messages in it are read when their gate opens
        latest_ms = now_ms + AHEAD_MS
        wanted: list[Schedule] = []
        for key in scheduler.keys.after(self.examined_to, KEYS_EXAMINED):
            if due_of(key) > latest_ms or not self._has_room():
                break
            self.examined_to = key
            place = place_of(key)
            if not held.count or held.find(scheduler.schedule_at(place).target) is None:
                self._ask(place, wanted)
        self._request(wanted)

    def want(self, places: list[int]) -> None:
        """Read due messages that were not read ahead: as many as there is room for, and at least one."""
        if self.pause_ms():
            return
        wanted: list[Schedule] = []
        for place in places:
            if self.asked and not self._has_room():
                break
            self._ask(place, wanted)
        self._request(wanted)

    # -- the store's answers

    def page_loaded(self, lane: int, first: int, next_offset: int, messages: list[Message]) -> None:
        scheduler = self.scheduler
        request = self._requests.pop((lane, first), [])
        found = {message.log_offset: message for message in messages}
        left: list[Schedule] = []
        for schedule in request:
            if schedule.queue_offset >= next_offset:
                left.append(schedule)
                continue
            self._answered(schedule)
            message = found.get(schedule.place)
            if message is None:
                scheduler.lost(schedule.place)
            elif scheduler.pending.find(schedule.place) is not None:
                if scheduler.has_use_for(schedule):
                    self._keep(message)
                scheduler.unreadable.pop(schedule.place, None)
        if left and next_offset <= first:
            for schedule in left:
                self._answered(schedule)
            self.examined_to = scheduler.held.reached
            self.paused_to_ms = scheduler.context.clock.monotonic_ms() + PAUSE_MS
        else:
            self._request(left)
        scheduler.run()

    def page_failed(self, lane: int, first: int, reason: str) -> None:
        request = self._requests.pop((lane, first), [])
        if request:
            self._answered(request[0])
            self.scheduler.damaged(request[0].place, reason)
            self._request(request[1:])
        self.scheduler.run()

    def record_skipped(self, lane: int, queue_offset: int) -> bool:
        """A record is damaged, and the operator allows to skip it; return whether it was waited for here."""
        for request in self._requests.values():
            for schedule in request:
                if schedule.lane == lane and schedule.queue_offset == queue_offset:
                    self.scheduler.lost(schedule.place)
                    return True
        return False

    # -- the steps

    def _has_room(self) -> bool:
        return (
            len(self.loaded) + len(self.asked) < AHEAD_MESSAGES and self.loaded_bytes + self.asked_bytes < AHEAD_BYTES
        )

    def _keep(self, record: Message) -> None:
        if record.log_offset not in self.loaded:
            self.loaded[record.log_offset] = record
            self.loaded_bytes += record.size

    def _ask(self, place: int, wanted: list[Schedule]) -> None:
        if place in self.loaded or place in self.asked:
            return
        schedule = self.scheduler.schedule_at(place)
        self.asked[place] = schedule.size
        self.asked_bytes += schedule.size
        wanted.append(schedule)

    def _answered(self, schedule: Schedule) -> None:
        self.asked_bytes -= self.asked.pop(schedule.place)

    def _request(self, wanted: list[Schedule]) -> None:
        """Request some from the store, neighbours together."""
        if not wanted:
            return
        store = self.scheduler.context.store
        wanted.sort(key=_where)
        if max(wanted, key=_place).place >= store.written_offset():
            store.write()  # only written records can be read
        together: list[Schedule] = []
        size_bytes = 0
        for schedule in wanted:
            last = together[-1] if together else None
            if last is not None and (
                last.lane != schedule.lane
                or schedule.queue_offset - last.queue_offset > GAP_ENTRIES
                or len(together) >= REQUEST_MESSAGES
                or size_bytes >= REQUEST_BYTES
            ):
                self._send(together)
                together = []
                size_bytes = 0
            together.append(schedule)
            size_bytes += schedule.size
        self._send(together)

    def _send(self, together: list[Schedule]) -> None:
        first = together[0]
        count = together[-1].queue_offset - first.queue_offset + 1
        self._requests[first.lane, first.queue_offset] = together
        scheduler = self.scheduler
        scheduler.context.store.request(
            scheduler.number, first.lane, first.queue_offset, count, AHEAD_BYTES, SCHEDULE_READER
        )


def _where(schedule: Schedule) -> tuple[int, int]:
    return schedule.lane, schedule.queue_offset


def _place(schedule: Schedule) -> int:
    return schedule.place
