"""The messages of one queue and one priority: those in memory, in order, and the rest on disk."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from engine.backlog.delivery_row import DeliveryRow, LaneOwner, position_of
from engine.backlog.lane_entries import (
    AHEAD_BYTES,
    IDLE_LANE_BYTES,
    FoundAhead,
    LanePages,
    OffsetSet,
    memory_limits,
    spill_above,
)
from engine.backlog.memory_budget import MESSAGE_OVERHEAD_BYTES
from engine.values.delivery import READY, Delivery
from engine.values.message import Message
from engine.values.stored import NEVER_MS, Attempts

if TYPE_CHECKING:
    from engine.backlog.spilled_blocks import Spill

SERIAL_BITS: Final = 32  # positions between two entries, for messages outside the log


class Lane(DeliveryRow):
    """The row in memory: ``returned``, then ``ready``; then entries ``next_load`` to ``tail`` on disk.

    memory_bytes, memory_messages: limits of what is kept in memory; beyond, messages are paged.  PAGE lowers them to
    max-size-bytes and max-size-messages, and many lanes share the budget (``lane_shares``).
    idle_bytes: the same limit while the queue has no consumer.
    pages: requests for entries on disk.
    settled: settled entries from ``next_load`` on: from before the store was opened, or settled out of order since.
    ahead: deliveries from ``next_load`` on that a selection has found.
    attempts: the failed attempts of entries by queue offset, found when the store was opened.
    first_expiry_ms: lower bound for the expiry of messages that are only on disk; 0 for those found at the start.
    spill: messages outside the log in temporary files, behind all others outside the log (``spiller``).
    spill_above: ready octets above which messages outside the log may spill whatever memory holds; 0 while others are
    spilled.
    """

    __slots__ = (
        "tail",
        "next_load",
        "last_position",
        "memory_bytes",
        "memory_messages",
        "idle_bytes",
        "pages",
        "settled",
        "ahead",
        "attempts",
        "first_expiry_ms",
        "spill",
        "spill_above",
    )

    def __init__(self, queue: LaneOwner, priority: int) -> None:
        super().__init__(queue, priority)
        self.tail = 0
        self.next_load = 0
        self.last_position = -1 << SERIAL_BITS
        self.memory_bytes, self.memory_messages = memory_limits(queue.settings.full)
        self.idle_bytes = IDLE_LANE_BYTES
        self.pages = LanePages()
        self.pages.limit(self.memory_bytes, self.memory_messages)
        self.settled = OffsetSet()
        self.ahead = FoundAhead()
        self.attempts: dict[int, Attempts] = {}
        self.first_expiry_ms = NEVER_MS
        self.spill: Spill | None = None
        self.spill_above = spill_above(queue.settings.full, queue.spiller is not None)

    def set_share(self, size_bytes: int, count: int) -> None:
        """Limit what stays in memory to this share, or to the address's own limits if they are lower."""
        own_bytes, own_messages = memory_limits(self.queue.settings.full)
        self.memory_bytes = min(own_bytes, size_bytes)
        self.idle_bytes = min(IDLE_LANE_BYTES, size_bytes)
        count = min(own_messages, count)
        self.pages.limit(self.memory_bytes, count)
        if self.spill is None:
            self.memory_messages = count
        else:
            self.spill.memory_messages = count

    def restore(self, tail: int, cursor: int, settled: list[tuple[int, int]], attempts: dict[int, Attempts]) -> int:
        """Restore what recovery found; return how many entries wait."""
        self.tail = tail
        self.next_load = cursor
        self.last_position = (tail - 1) << SERIAL_BITS
        for first, count in settled:
            self.settled.add_range(first, count)
        self.attempts = attempts
        if cursor < tail:
            self.first_expiry_ms = 0
        return tail - cursor - sum(count for _, count in settled)

    def add_logged(self, message: Message) -> None:
        """Add a message that has just been appended; it stays in memory if nothing waits on disk before it."""
        offset = message.queue_offset
        self.tail = offset + 1
        position = offset << SERIAL_BITS
        self.last_position = position
        ready_bytes = self.ready_bytes
        if self.next_load == offset and ready_bytes < self.memory_bytes and len(self.ready) < self.memory_messages:
            memory = self.memory
            paged_bytes = memory.paged_bytes + message.size + MESSAGE_OVERHEAD_BYTES
            if paged_bytes + memory.used_bytes > memory.keep_bytes:
                return
            if (ready_bytes >= self.idle_bytes or paged_bytes > memory.idle_bytes) and not self.queue.has_consumers():
                return
            memory.paged_bytes = paged_bytes
            self.next_load = offset + 1
            self.ready_bytes = ready_bytes + message.size
            self.ready.append(Delivery(message, self, position))
            self.queue.mask |= self.bit

    def note_expiry(self, message: Message) -> None:
        """Have the disk searched for expired messages once this one, which may be there, has expired."""
        if message.expires_ms < self.first_expiry_ms:
            self.first_expiry_ms = message.expires_ms

    def add_behind(self, message: Message) -> None:
        """Add a message that has just been appended and that nobody wants yet: it stays on disk."""
        if message.expires_ms:
            self.note_expiry(message)
        self.tail = message.queue_offset + 1
        self.last_position = message.queue_offset << SERIAL_BITS

    def pass_by(self, message: Message) -> None:
        """Note a message that has just been appended and is settled on arrival."""
        offset = message.queue_offset
        self.tail = offset + 1
        self.last_position = offset << SERIAL_BITS
        if self.next_load == offset:
            self.next_load = offset + 1
            return
        self.settled.add(offset)

    def add_volatile(self, message: Message) -> None:
        """Add a message that is only in memory."""
        self.last_position += 1
        memory = self.memory
        if (
            self.ready_bytes >= self.spill_above
            or (memory.used_bytes + memory.paged_bytes >= memory.spill_bytes and self.queue.spiller is not None)
        ) and self._spills(message):
            return
        delivery = Delivery(message, self, self.last_position)
        if self.next_load < self.tail:
            if self.volatile and self._spills(message):
                return
            self.volatile.append(delivery)
            return
        self.ready_bytes += message.size
        self.ready.append(delivery)
        self.queue.mask |= self.bit

    def _spills(self, message: Message) -> bool:
        """Say whether a message that comes last is spilled to a temporary file; if so, the spiller has it."""
        spiller = self.queue.spiller
        return spiller is not None and spiller.takes(self, message, self.last_position)

    def end_spill(self) -> None:
        """Return to normal operation: nothing is in a temporary file any more."""
        assert self.spill is not None, "something was spilled"
        self.memory_messages = self.spill.memory_messages
        self.spill = None
        self.spill_above = spill_above(self.queue.settings.full, self.queue.spiller is not None)

    def add_back(self, deliveries: list[Delivery]) -> None:
        """Add deliveries from a temporary file behind all others outside the log, in their turn."""
        self.volatile.extend(deliveries)
        while self.volatile and (
            self.next_load >= self.tail or self.volatile[0].position < self.next_load << SERIAL_BITS
        ):
            self._move_up(self.volatile.popleft())

    def give_back(self, deliveries: list[Delivery]) -> None:
        """Put deliveries that are READY again back in their places."""
        for delivery in deliveries:
            assert delivery.state == READY, f"a delivery in state {delivery.state} is not ready to go back"
        without_place = deliveries
        if self.stale or self.ahead.by_offset:
            without_place = [one for one in deliveries if not (self._finds_place(one) or self.ahead.came_back(one))]
        if without_place:
            self.ready_bytes += sum([delivery.message.size for delivery in without_place])
            self._put_back(without_place)
        if self.ready or self.returned:
            self.queue.mask |= self.bit
        self.queue.came_back(deliveries)

    # -- for a Selection, which takes deliveries out of order

    def keep_ahead(self, message: Message) -> Delivery:
        """Return a delivery of an entry that is not loaded yet; it is handed over before earlier entries."""
        delivery = self._delivery(message)
        self.attempts.pop(message.queue_offset, None)
        self.ahead.add(delivery)
        self.memory.load(message)
        return delivery

    def is_ahead_full(self) -> bool:
        """Say whether as many READY messages were found ahead as allowed.

        While memory is short, only messages that leave at once are allowed, so none of groups whose owners are busy.
        """
        ready_bytes = self.ahead.ready_bytes
        return ready_bytes > AHEAD_BYTES or (
            ready_bytes > 0 and self.memory.is_short() and self.queue.has_groups_known()
        )

    def take(self, delivery: Delivery) -> None:
        """Remove a delivery from wherever it waits."""
        position = delivery.position
        size = delivery.message.size
        ready = self.ready
        if ready and ready[0] is delivery:
            ready.popleft()
            self.ready_bytes -= size
            return
        returned = self.returned
        if returned and returned[0] is delivery:
            returned.popleft()
            self.ready_bytes -= size
            return
        index = bisect_left(returned, position, key=position_of)
        if index < len(returned) and returned[index] is delivery:
            del returned[index]
            self.ready_bytes -= size
        elif self.ahead.by_offset and self.ahead.holds(delivery):
            self.ahead.ready_bytes -= size
        else:
            self.stale.add(position)
            if not self.volatile or position < self.volatile[0].position:
                self.ready_bytes -= size

    def settle_ahead(self) -> None:
        """Remember only as settled what was found ahead and is gone; then skip entries that are settled."""
        if self._forget_gone() and not self.pages.is_loading and self.next_load in self.settled:
            self.next_load = min(self.settled.first_missing(self.next_load), self.tail)
            self.settled.drop_below(self.next_load)
            self.catch_up()

    def _forget_gone(self) -> bool:
        """Forget some deliveries found ahead that are gone; say whether there were any.

        Entries that were in no page because retention dropped them are forgotten in the same way.
        """
        gone = self.ahead.take_gone()
        for offset in gone:
            if offset >= self.next_load:
                self.settled.add(offset)
        return bool(gone)

    def waiting_bytes(self) -> int:
        return super().waiting_bytes() + self.ahead.ready_bytes

    # -- the end

    def cut_backlog(self) -> None:
        """Discard entries that are only on disk, as their owner was deleted.  A page under way may still come."""
        self.tail = self.next_load
        self.catch_up()

    def take_all(self) -> list[Delivery]:
        """Remove everything that waits; entries on disk are skipped."""
        waiting = (*self.returned, *self.ready, *self.volatile, *self.ahead.take_all())
        taken = [one for one in waiting if one.state == READY]  # a taken delivery may have left its place
        self.returned.clear()
        self.ready.clear()
        self.volatile.clear()
        self.stale.clear()
        self.settled = OffsetSet()
        self.attempts.clear()
        self.ready_bytes = 0
        self.next_load = self.tail
        return taken

    # -- entries on disk

    def wants_page(self, is_all_wanted: bool = False) -> bool:
        """Say whether entries on disk should be asked for now.  is_all_wanted: though there are enough in memory."""
        return (
            self.next_load < self.tail
            and not self.pages.is_loading
            and not self.pages.awaits_retry
            and (is_all_wanted or (len(self.ready) < self.pages.count and self.ready_bytes < self.pages.size_bytes))
        )

    def load(self, next_offset: int, messages: list[Message]) -> list[Delivery]:
        """Accept a page; return its deliveries in order, without those settled before the store was opened.

        The caller counts them in the memory budget.  It adds those that need not wait with ``append_loaded``, or all of
        them with ``append_all``.
        """
        settled = self.settled
        ahead = self.ahead.by_offset
        if not settled.pages and not ahead and not self.attempts:  # most pages: no state to apply
            self.next_load = next_offset
            return [Delivery(message, self, message.queue_offset << SERIAL_BITS) for message in messages]
        deliveries: list[Delivery] = []
        for message in messages:
            offset = message.queue_offset
            if settled.pages and offset in settled:
                continue
            found = ahead.get(offset)
            if found is None:
                deliveries.append(self._delivery(message))
            elif found.state == READY:
                self.ahead.remove(found)
                self.memory.unload(found.message)  # counted again with its page
                deliveries.append(found)
            else:
                del ahead[offset]
        self.next_load = next_offset
        if settled.pages:
            settled.drop_below(next_offset)
        self._forget_gone()
        return deliveries

    def _delivery(self, message: Message) -> Delivery:
        """Return the delivery of a message read from the log, with its known failures."""
        offset = message.queue_offset
        delivery = Delivery(message, self, offset << SERIAL_BITS)
        if self.attempts:
            known = self.attempts.get(offset)
            if known is not None:
                delivery.failed_attempts = known.count
                delivery.is_redelivered = True
        return delivery

    def catch_up(self) -> None:
        """Once nothing is left on disk, move up all that waited behind it."""
        if self.next_load < self.tail:
            return
        while self.volatile:
            self._move_up(self.volatile.popleft())


def lane_of(delivery: Delivery) -> Lane:
    lane = delivery.lane
    assert isinstance(lane, Lane), "a delivery waits in a lane"
    return lane
