"""Brings messages back to their queues when a branch that was prepared before the last start is rolled back.

They are read a page at a time, in the order of the rollbacks.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from engine.backlog.context import Context
from engine.backlog.lane import SERIAL_BITS, Lane
from engine.ports.timers import TimerTarget
from engine.sources.queue import queue_of
from engine.values.delivery import Delivery, restored
from engine.values.message import Message
from engine.values.outcomes import CAUSE_DAMAGED, DROPPED
from engine.xa.held_entries import HeldEntries

BRANCH_READER: Final = -6  # the reader to which the store answers
PAGE_BYTES: Final = 4 * 1024 * 1024
PAGE_MESSAGES: Final = 1_024
RETRY_MS: Final = 1_000  # after the disk refused, or while memory is short


@dataclass(slots=True, eq=False)
class ReadBack(TimerTarget):
    """waiting: entries to read.  under_way: last offset of the page that was requested, -1 for none."""

    context: Context
    waiting: deque[HeldEntries] = field(default_factory=deque)
    under_way: int = -1

    def add(self, held: HeldEntries) -> None:
        self.waiting.append(held)
        self.go_on()

    def timer_fired(self, key: int) -> None:
        self.go_on()

    def go_on(self) -> None:
        """Request the next page, unless one is under way."""
        while self.waiting and (self.waiting[0].queue.is_closed or not self.waiting[0].offsets):
            self.waiting.popleft()
        if not self.waiting or self.under_way >= 0:
            return
        held = self.waiting[0]
        if self.context.memory.is_short() and held.queue.lane(held.priority).returned:
            self.context.call_later(RETRY_MS, self, 0)
            return
        first = held.offsets[0]
        count = 1
        while count < min(len(held.offsets), PAGE_MESSAGES) and held.offsets[count] == first + count:
            count += 1
        self.under_way = first + count - 1
        store = self.context.store
        store.write()  # only written records can be read
        store.request(held.queue.source_id(), held.priority, first, count, PAGE_BYTES, BRANCH_READER)

    def page_loaded(self, next_offset: int, messages: list[Message]) -> None:
        held = self._answered()
        if held is None:
            return
        count = sum(offset < next_offset for offset in held.offsets[:PAGE_MESSAGES])
        if not count:
            self.context.call_later(RETRY_MS, self, 0)
            return
        there = {message.queue_offset for message in messages}
        part = HeldEntries(held.queue, held.priority, held.offsets[:count], held.sizes[:count])
        del held.offsets[:count], held.sizes[:count]
        self._drop_gone(part, there)
        lane = held.queue.lane(held.priority)
        deliveries = [self._delivery(lane, message) for message in messages]
        held.queue.fates.enlisted_count -= len(deliveries)
        if deliveries:
            lane.give_back(deliveries)
            held.queue.mark_dirty()
        self.go_on()

    def page_failed(self) -> None:
        if self._answered() is not None:
            self.context.call_later(RETRY_MS, self, 0)

    def _answered(self) -> HeldEntries | None:
        """Note that the page is no longer under way; return its entries, None if their queue has ended."""
        self.under_way = -1
        held = self.waiting[0]
        if not held.queue.is_closed:
            return held
        self.go_on()
        return None

    def _drop_gone(self, part: HeldEntries, there: set[int]) -> None:
        """Settle entries whose record cannot be read, as the operator has allowed."""
        gone = [at for at, offset in enumerate(part.offsets) if offset not in there]
        if gone:
            offsets = [part.offsets[at] for at in gone]
            lost = HeldEntries(part.queue, part.priority, offsets, [part.sizes[at] for at in gone])
            lost.settle(self.context.store, DROPPED, CAUSE_DAMAGED)

    def _delivery(self, lane: Lane, message: Message) -> Delivery:
        delivery = Delivery(message, lane, message.queue_offset << SERIAL_BITS)
        delivery.is_redelivered = True
        known = lane.attempts.pop(message.queue_offset, None)
        if known is not None:
            delivery.failed_attempts = known.count
            delivery.history = restored(known, self.context.store.consumer_description(known.consumer_id))
        queue = queue_of(lane)
        if message.expires_ms:
            queue.has_expiring = True
        if message.group_hash:
            queue.extras.has_groups = queue.is_choosy = True
        self.context.memory.load(message)
        return delivery
