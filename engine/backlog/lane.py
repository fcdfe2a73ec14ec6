"""The messages of one queue and one priority: those in memory in order, and where the rest begins on disk."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from engine.backlog.delivery_row import DeliveryRow, LaneOwner, position_of
from engine.backlog.found_ahead import AHEAD_BYTES, FoundAhead
from engine.backlog.lane_pages import IDLE_LANE_BYTES, LANE_BYTES, LanePages, memory_limits, spill_above
from engine.backlog.memory import MESSAGE_OVERHEAD_BYTES
from engine.backlog.offset_set import OffsetSet
from engine.values.delivery import READY, Delivery
from engine.values.message import Message
from engine.values.stored import NEVER_MS, Attempts

if TYPE_CHECKING:
    from engine.backlog.spilled_blocks import Spill

DELAYED_BYTES: Final = 32 * 1024 * 1024  # waiting for their redelivery in memory; beyond, nothing more is loaded
SERIAL_BITS: Final = 32  # room for messages that are not logged between two entries


class Lane(DeliveryRow):
    """The row in memory: ``returned``, then ``ready``; then entries ``next_load`` to ``tail`` on disk.

    memory_bytes, memory_messages: what is kept in memory; beyond, messages are paged.  PAGE sets it lower by
    max-size-bytes and max-size-messages, and many lanes share what there is (``lane_shares``); idle_bytes: the same
    while the queue has no consumer.
    pages: what is asked for of what is on disk.
    settled: entries from ``next_load`` on that are settled: before the store was opened, or since, out of order.
    ahead: deliveries from ``next_load`` on that a selection has found.
    attempts: the failed attempts of entries by queue offset, found when the store was opened.
    first_expiry_ms: of what is only on disk nothing expires before; 0 for what was found at the start.
    spill: messages that are not logged and are in temporary files, behind all others of their kind (``spiller``).
    spill_above: ready octets from which on a message that is not logged may go there whatever memory holds; 0 while
    others are.
    """

    __slots__ = (
        "tail",
        "next_load",
        "last_position",
        "delayed_bytes",
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
        self.delayed_bytes = 0
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
        """Keep no more in memory than that, or what the address says if it is less."""
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
        """Take up what recovery found; return how many entries wait."""
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
        """Take a message that has just been appended; it stays in memory if nothing waits on disk before it."""
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
        """Have what is on disk looked at once this message has expired; it may be there."""
        if message.expires_ms < self.first_expiry_ms:
            self.first_expiry_ms = message.expires_ms

    def add_behind(self, message: Message) -> None:
        """Take a message that has just been appended and that nobody wants yet: it stays on disk."""
        if message.expires_ms:
            self.note_expiry(message)
        self.tail = message.queue_offset + 1
        self.last_position = message.queue_offset << SERIAL_BITS

    def pass_by(self, message: Message) -> None:
        """Take note of a message that has just been appended and is settled as it comes."""
        offset = message.queue_offset
        self.tail = offset + 1
        self.last_position = offset << SERIAL_BITS
        if self.next_load == offset:
            self.next_load = offset + 1
            return
        self.settled.add(offset)

    def add_volatile(self, message: Message) -> None:
        """Take a message that only memory holds."""
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
        """Say whether a message that comes last goes to a temporary file; then it is taken."""
        spiller = self.queue.spiller
        return spiller is not None and spiller.takes(self, message, self.last_position)

    def end_spill(self) -> None:
        """Go on as before: nothing is in a temporary file any more."""
        assert self.spill is not None, "something was spilled"
        self.memory_messages = self.spill.memory_messages
        self.spill = None
        self.spill_above = spill_above(self.queue.settings.full, self.queue.spiller is not None)

    def add_back(self, deliveries: list[Delivery]) -> None:
        """Take what was in a temporary file: it comes behind all that is not logged, and in its turn."""
        self.volatile.extend(deliveries)
        while self.volatile and (
            self.next_load >= self.tail or self.volatile[0].position < self.next_load << SERIAL_BITS
        ):
            self._move_up(self.volatile.popleft())

    def give_back(self, deliveries: list[Delivery]) -> None:
        """Put deliveries, already READY again, back to their places."""
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

    # -- for a Selection, which takes deliveries out of their order

    def keep_ahead(self, message: Message) -> Delivery:
        """Return a delivery of an entry that is not loaded yet, which is to be handed over before those before it."""
        delivery = self._delivery(message)
        self.attempts.pop(message.queue_offset, None)
        self.ahead.add(delivery)
        self.memory.load(message)
        return delivery

    def is_ahead_full(self) -> bool:
        """Say whether as much was found ahead, and is not taken, as may be.

        While memory is short that is only what goes out at once: nothing of groups whose owners may not take it.
        """
        ready_bytes = self.ahead.ready_bytes
        return ready_bytes > AHEAD_BYTES or (
            ready_bytes > 0 and self.memory.is_short() and self.queue.has_groups_known()
        )

    def first(self) -> Delivery | None:
        """Return the first delivery in memory that is READY, None if entries on disk come before it."""
        found = next((one for one in self.ready if one.state == READY), None)
        if self.returned and (found is None or self.returned[0].position < found.position):
            found = self.returned[0]
        if found is None and self.next_load >= self.tail:
            found = next((one for one in self.volatile if one.state == READY), None)
        return found

    def take(self, delivery: Delivery) -> None:
        """Take out a delivery, wherever it waits."""
        position = delivery.position
        size = delivery.message.size
        ready = self.ready
        if ready and ready[0] is delivery:
            ready.popleft()
            self.ready_bytes -= size
            return
        index = bisect_left(self.returned, position, key=position_of)
        if index < len(self.returned) and self.returned[index] is delivery:
            del self.returned[index]
            self.ready_bytes -= size
        elif self.ahead.by_offset and self.ahead.holds(delivery):
            self.ahead.ready_bytes -= size
        else:
            self.stale.add(position)
            if not self.volatile or position < self.volatile[0].position:
                self.ready_bytes -= size

    def settle_ahead(self) -> None:
        """Keep of what was found ahead and is gone only that it is, and pass what is settled before anything else."""
        if self._forget_gone() and not self.pages.is_loading and self.next_load in self.settled:
            self.next_load = min(self.settled.first_missing(self.next_load), self.tail)
            self.settled.drop_below(self.next_load)
            self.catch_up()

    def _forget_gone(self) -> bool:
        """Forget some of what was found ahead and is gone; say whether there was any.

        What was in no page, because the log has dropped it meanwhile, goes so, too.
        """
        gone = self.ahead.take_gone()
        for offset in gone:
            if offset >= self.next_load:
                self.settled.add(offset)
        return bool(gone)

    # -- what waits for its redelivery, and the end

    def weigh_delayed(self, change_bytes: int) -> None:
        """Count so much more, or less, that waits for its redelivery."""
        was_held = self.is_held_by_delays()
        self.delayed_bytes += change_bytes
        self.ready_bytes += LANE_BYTES * (self.is_held_by_delays() - was_held)

    def is_held_by_delays(self) -> bool:
        """Say whether so much waits for its redelivery that nothing more is loaded."""
        return self.delayed_bytes > DELAYED_BYTES

    def cut_backlog(self) -> None:
        """Let go of what lies on disk only: whose it is has been deleted.  A page that is under way may still come."""
        self.tail = self.next_load
        self.catch_up()

    def take_all(self) -> list[Delivery]:
        """Take out everything that waits; what is on disk is passed."""
        waiting = (*self.returned, *self.ready, *self.volatile, *self.ahead.take_all())
        taken = [one for one in waiting if one.state == READY]  # its place may still be there though it has been taken
        self.returned.clear()
        self.ready.clear()
        self.volatile.clear()
        self.stale.clear()
        self.settled = OffsetSet()
        self.attempts.clear()
        self.ready_bytes = 0
        self.next_load = self.tail
        return taken

    # -- what is on disk

    def wants_page(self) -> bool:
        """Say whether entries on disk should be asked for now."""
        return (
            self.next_load < self.tail
            and not self.pages.is_loading
            and not self.pages.awaits_retry
            and len(self.ready) < self.pages.count
            and self.ready_bytes < self.pages.size_bytes
        )

    def load(self, next_offset: int, messages: list[Message]) -> list[Delivery]:
        """Take a page; return the deliveries of it in order, without those settled before the store was opened.

        The caller counts them in the memory budget, and adds those that need not wait with ``append_loaded``, or all of
        them with ``append_all``.
        """
        settled = self.settled
        ahead = self.ahead.by_offset
        if not settled.pages and not ahead and not self.attempts:  # most pages: nothing is known of any of it
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
                self.memory.unload(found.message)  # counted anew, with its page
                deliveries.append(found)
            else:
                del ahead[offset]
        self.next_load = next_offset
        if settled.pages:
            settled.drop_below(next_offset)
        self._forget_gone()
        return deliveries

    def _delivery(self, message: Message) -> Delivery:
        """Return the delivery of a message that was read, with what is known of its failures."""
        offset = message.queue_offset
        delivery = Delivery(message, self, offset << SERIAL_BITS)
        if self.attempts:
            known = self.attempts.get(offset)
            if known is not None:
                delivery.failed_attempts = known.count
                delivery.is_redelivered = True
        return delivery

    def catch_up(self) -> None:
        """Once nothing is left on disk, take all that waited behind it."""
        if self.next_load < self.tail:
            return
        while self.volatile:
            self._move_up(self.volatile.popleft())


def lane_of(delivery: Delivery) -> Lane:
    lane = delivery.lane
    assert isinstance(lane, Lane), "a delivery waits in a lane"
    return lane
