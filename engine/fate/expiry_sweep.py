"""Expires messages on the disk without reading them: their entries contain the expiry.

It handles one lane at a time, some entries at a time, and skips lanes in which nothing can have expired.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.backlog.context import Context
from engine.backlog.lane import SERIAL_BITS, Lane
from engine.dispatch.dispatcher import Dispatcher
from engine.sources.entry_readers import Feeds
from engine.sources.queue import Queue, queue_of
from engine.values.delivery import Delivery
from engine.values.message import Message
from engine.values.outcomes import CAUSE_EXPIRED, EXPIRED
from engine.values.stored import NEVER_MS, Entry, Range

EXPIRY_READER: Final = -5  # the reader to which the store answers for messages to move
SWEPT_ENTRIES: Final = 2_048  # entries examined per request
MOVED_MESSAGES: Final = 128  # messages read per request and moved to the expiry destination
MOVED_BYTES: Final = 1024 * 1024


@dataclass(slots=True, eq=False)
class Sweep:
    """waiting: lanes with messages on disk that may have expired.  lane: the current one.

    next_entry: of that lane.  next_ms: the earliest expiry of the entries passed, as far as known.
    moving: its expired entries that must be read because they move to an expiry destination or are reported.
    """

    context: Context
    dispatcher: Dispatcher
    feeds: Feeds
    waiting: dict[Lane, None] = field(default_factory=dict)
    lane: Lane | None = None
    next_entry: int = 0
    next_ms: int = NEVER_MS
    moving: list[Entry] = field(default_factory=list)

    def add(self, queue: Queue) -> None:
        """Add a queue; its expired messages are handled in its turn."""
        if not queue.is_logged:
            return
        for lane in queue.used_lanes:
            if lane.first_expiry_ms <= self.context.wall_ms and lane.next_load < lane.tail and lane is not self.lane:
                self.waiting[lane] = None

    def go_on(self) -> None:
        """Begin with the next lane, unless one is in progress."""
        while self.lane is None and self.waiting:
            lane = next(iter(self.waiting))
            del self.waiting[lane]
            if not lane.queue.is_closed:
                self.lane = lane
                self.next_entry = lane.next_load
                self.next_ms = NEVER_MS
                lane.first_expiry_ms = NEVER_MS  # a new message lowers it again
                self._examine_next()

    # -- the store's answers

    def expired_found(
        self, destination_id: int, priority: int, first: int, next_offset: int, expired: list[Entry], next_ms: int
    ) -> None:
        lane = self._asked_of(destination_id, priority)
        if lane is not None:
            if next_offset > first:
                self._found(lane, next_offset, expired, next_ms)
            else:
                self._end(0)  # the disk refused: the next sweep tries again
        self.go_on()

    def page_loaded(self, destination_id: int, priority: int, next_offset: int, messages: list[Message]) -> None:
        """Expire the messages of a page."""
        lane = self._asked_of(destination_id, priority)
        if lane is not None:
            if next_offset > self.moving[0].offset:
                self._read(lane, next_offset, messages)
            else:
                self._end(0)
        self.go_on()

    def page_failed(self, destination_id: int, priority: int) -> None:
        """The page could not be read; the next sweep tries again."""
        if self._asked_of(destination_id, priority) is not None:
            self._end(0)
        self.go_on()

    # -- the steps

    def _found(self, lane: Lane, next_offset: int, expired: list[Entry], next_ms: int) -> None:
        self.next_entry = next_offset
        self.next_ms = min(self.next_ms, next_ms)
        found = [entry for entry in expired if _is_on_disk(lane, entry.offset)]
        queue = queue_of(lane)
        if self.dispatcher.is_missed(queue) or queue.feed.selector is not None:
            self.moving = found
            self._move()
            return
        if found:
            self._drop(lane, found)
        self._examine_next()

    def _read(self, lane: Lane, next_offset: int, messages: list[Message]) -> None:
        wanted = {entry.offset for entry in self.moving}
        self.moving = [entry for entry in self.moving if entry.offset >= next_offset]
        for message in messages:
            if message.queue_offset in wanted and _is_on_disk(lane, message.queue_offset):
                self._expire(lane, message)
        self._move()

    def _asked_of(self, destination_id: int, priority: int) -> Lane | None:
        """Return the lane of an answer, None if it has ended."""
        lane = self.lane
        if lane is None or (_source_of(lane), lane.priority) != (destination_id, priority):
            return None
        if lane.queue.is_closed:
            self._end(NEVER_MS)
            return None
        return lane

    def _examine_next(self) -> None:
        lane = self.lane
        assert lane is not None, "a sweep has a lane"
        if lane.queue.is_closed or self.next_entry >= lane.tail:
            self._end(self.next_ms)
            return
        count = min(SWEPT_ENTRIES, lane.tail - self.next_entry)
        context = self.context
        context.store.look_for_expired(_source_of(lane), lane.priority, self.next_entry, count, context.wall_ms)

    def _move(self) -> None:
        """Read more of the messages that must be moved; then continue the sweep."""
        lane = self.lane
        assert lane is not None, "a sweep has a lane"
        if not self.moving:
            self._examine_next()
            return
        first = self.moving[0].offset
        store = self.context.store
        store.write()  # only written records can be read
        count = min(MOVED_MESSAGES, self.moving[-1].offset + 1 - first)
        store.request(_source_of(lane), lane.priority, first, count, MOVED_BYTES, EXPIRY_READER)

    def _end(self, next_ms: int) -> None:
        lane = self.lane
        assert lane is not None, "a sweep has a lane"
        lane.first_expiry_ms = min(lane.first_expiry_ms, next_ms)
        self.lane = None
        self.moving = []

    def _expire(self, lane: Lane, message: Message) -> None:
        queue = queue_of(lane)
        offset = message.queue_offset
        known = lane.attempts.pop(offset, None)
        lane.settled.add(offset)
        if not self.feeds.select(queue, message):
            return
        self.context.memory.load(message)
        delivery = Delivery(message, lane, offset << SERIAL_BITS)
        if known is not None:
            delivery.failed_attempts = known.count
            delivery.is_redelivered = True
        self.dispatcher.expire(delivery, queue)

    def _drop(self, lane: Lane, found: list[Entry]) -> None:
        """Settle expired messages that are not moved anywhere."""
        queue = queue_of(lane)
        ranges: list[Range] = []
        for entry in found:
            offset = entry.offset
            lane.settled.add(offset)
            lane.attempts.pop(offset, None)
            if queue.account is not None:
                queue.account.leave(entry.size_bytes)
            last = ranges[-1] if ranges else None
            if last is not None and last.first + last.count == offset:
                last.count += 1
                last.size_bytes += entry.size_bytes
            else:
                ranges.append(Range(lane.priority, offset, 1, 0, entry.size_bytes))
        if not queue.feed.is_own:
            sizes = {entry.offset: entry.size_bytes for entry in found}
            for one in ranges:
                one.sizes = [sizes[offset] for offset in range(one.first, one.first + one.count)]
        queue.depth -= len(found)
        queue.fates.expired_count += len(found)
        self.context.store.settle(queue.destination_id, 0, EXPIRED, CAUSE_EXPIRED, ranges)


def _source_of(lane: Lane) -> int:
    """Return the destination whose entries a queue reads."""
    return queue_of(lane).source_id()


def _is_on_disk(lane: Lane, offset: int) -> bool:
    """Say whether an entry is neither settled nor in memory."""
    return offset >= lane.next_load and offset not in lane.settled and offset not in lane.ahead.by_offset
