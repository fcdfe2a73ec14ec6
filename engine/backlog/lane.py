"""The messages of one queue and one priority: those in memory in order, and where the rest begins on disk."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from heapq import merge
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from config.policies import AddressFullPolicy
from engine.backlog.memory import MESSAGE_OVERHEAD_BYTES
from engine.values.delivery import GONE, READY, Delivery, LaneBase
from engine.values.message import Message
from engine.values.offset_set import OffsetSet
from engine.values.stored import NEVER_MS, Attempts

if TYPE_CHECKING:
    from engine.backlog.lane_owner import LaneOwner
    from engine.backlog.spilled_blocks import Spill

LANE_BYTES: Final = 8 * 1024 * 1024  # ready messages of one lane kept in memory; beyond, they are paged
LANE_MESSAGES: Final = 8_192
IDLE_LANE_BYTES: Final = 64 * 1024  # the same while the queue has no consumer: there may be thousands of such queues
PAGE_MESSAGES: Final = 1_024  # entries asked for at a time
PAGE_BYTES: Final = 4 * 1024 * 1024
KEPT_DELAYED_BYTES: Final = 8 * 1024 * 1024  # the same with their content; beyond, that is read again when they are due
DELAYED_BYTES: Final = 32 * 1024 * 1024  # waiting for their redelivery in memory; beyond, nothing more is loaded
AHEAD_BYTES: Final = 32 * 1024 * 1024  # found ahead of ``next_load`` and not handed over yet; beyond, no one looks on
AHEAD_SETTLED: Final = 1_024  # messages found ahead that are looked at at a time, whether they are gone
STALE_MAX: Final = 256  # places of deliveries that are gone; beyond, and if they are the most, they are cleared away
SERIAL_BITS: Final = 32  # room for messages that are not logged between two entries
NEVER: Final = 1 << 62


class Lane(LaneBase):
    """In order of ``position``: ``returned``, then ``ready``, then entries ``next_load`` to ``tail`` on disk.

    Messages that are not logged and arrive behind entries on disk wait in ``volatile`` until the page that comes
    before them has been loaded, so that one producer's messages stay in order, persistent or not.
    ready_bytes: of what is ready in memory, and LANE_BYTES more while too much is delayed: then what arrives stays on
    disk, and no page is asked for.
    memory_bytes, memory_messages: what is kept in memory; beyond, messages are paged.  PAGE sets it lower by
    max-size-bytes and max-size-messages, and many lanes share what there is (``lane_shares``); idle_bytes: the same
    while the queue has no consumer.  page_bytes, page_messages: what is asked for at a time.
    fault: why the disk refused the last page, "" if it did not.
    is_loading: a page for ``ready`` is asked for; is_scanning: one ahead of it, for a selection.
    awaits_retry: the last page was refused or empty, and none is asked for before the engine tries again, however often
    somebody wants one.
    settled: entries from ``next_load`` on that are settled: before the store was opened, or since, out of order.
    ahead: queue offset -> delivery from ``next_load`` on that a selection has found.  ahead_bytes: of those READY.
    ahead_left: offsets that ``settle_ahead`` comes to, the last first.
    stale: positions in ``ready`` and ``volatile`` whose deliveries a selection has taken; one that comes back finds its
    place there.
    attempts: the failed attempts of entries by queue offset, found when the store was opened.
    first_expiry_ms: of what is only on disk nothing expires before; 0 for what was found at the start.
    spill: messages that are not logged and are in temporary files, behind all others of their kind (``spiller``).
    spill_above: ready octets from which on a message that is not logged may go there whatever memory holds; 0 while
    others are.
    """

    __slots__ = (
        "queue",
        "bit",
        "ready",
        "returned",
        "volatile",
        "tail",
        "next_load",
        "ready_bytes",
        "delayed_bytes",
        "fault",
        "last_position",
        "is_loading",
        "is_scanning",
        "awaits_retry",
        "settled",
        "attempts",
        "ahead",
        "ahead_bytes",
        "ahead_left",
        "stale",
        "memory_bytes",
        "memory_messages",
        "idle_bytes",
        "page_bytes",
        "page_messages",
        "spill",
        "spill_above",
        "first_expiry_ms",
        "memory",
    )

    def __init__(self, queue: LaneOwner, priority: int) -> None:
        super().__init__(priority)
        self.queue = queue
        self.memory = queue.memory
        self.bit = 1 << priority
        self.ready: deque[Delivery] = deque()
        self.returned: deque[Delivery] = deque()
        self.volatile: deque[Delivery] = deque()
        self.tail = 0
        self.next_load = 0
        self.ready_bytes = 0
        self.delayed_bytes = 0
        self.fault = ""
        self.last_position = -1 << SERIAL_BITS
        self.is_loading = False
        self.is_scanning = False
        self.awaits_retry = False
        self.settled = OffsetSet()
        self.attempts: dict[int, Attempts] = {}
        self.ahead: dict[int, Delivery] = {}
        self.ahead_bytes = 0
        self.ahead_left: list[int] = []
        self.stale: set[int] = set()
        self.memory_bytes, self.memory_messages = _memory_limits(queue.settings.full)
        self.idle_bytes = IDLE_LANE_BYTES
        # Also where nothing is to be kept in memory, one message goes out.
        self.page_bytes = max(1, min(PAGE_BYTES, self.memory_bytes))
        self.page_messages = max(1, min(PAGE_MESSAGES, self.memory_messages))
        self.first_expiry_ms = NEVER_MS
        self.spill: Spill | None = None
        self.spill_above = _spill_above(queue)

    def set_share(self, size_bytes: int, count: int) -> None:
        """Keep no more in memory than that, or what the address says if it is less."""
        own_bytes, own_messages = _memory_limits(self.queue.settings.full)
        self.memory_bytes = min(own_bytes, size_bytes)
        self.idle_bytes = min(IDLE_LANE_BYTES, size_bytes)
        self.page_bytes = max(1, min(PAGE_BYTES, self.memory_bytes))
        count = min(own_messages, count)
        self.page_messages = max(1, min(PAGE_MESSAGES, count))
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
            if self.volatile and self.queue.spiller is not None and self._spills(message):
                return
            self.volatile.append(delivery)
            return
        self.ready_bytes += message.size
        self.ready.append(delivery)
        self.queue.mask |= self.bit

    def _spills(self, message: Message) -> bool:
        """Say whether a message that comes last goes to a temporary file; then it is taken."""
        spiller = self.queue.spiller
        assert spiller is not None, "only a lane that may spill has a limit for it"
        if self.spill is None:
            if not spiller.wants(self):
                return False
            self.spill_above = 0
        spiller.take(self, message, self.last_position)
        return True

    def end_spill(self) -> None:
        """Go on as before: nothing is in a temporary file any more."""
        assert self.spill is not None, "something was spilled"
        self.memory_messages = self.spill.memory_messages
        self.spill = None
        self.spill_above = _spill_above(self.queue)

    def add_back(self, deliveries: list[Delivery]) -> None:
        """Take what was in a temporary file: it comes behind all that is not logged, and in its turn."""
        self.volatile.extend(deliveries)
        while self.volatile and (
            self.next_load >= self.tail or self.volatile[0].position < self.next_load << SERIAL_BITS
        ):
            self._move_up(self.volatile.popleft())

    def next_ready(self) -> Delivery | None:
        """Take the next delivery in order, None if none is in memory."""
        returned = self.returned
        ready = self.ready
        if returned and (not ready or returned[0].position < ready[0].position):
            delivery = returned.popleft()
        elif ready:
            delivery = ready.popleft()
        else:
            self.queue.mask &= ~self.bit
            return None
        self.ready_bytes -= delivery.message.size
        return delivery

    def give_back(self, deliveries: list[Delivery]) -> None:
        """Put deliveries, already READY again, back to their places."""
        for delivery in deliveries:
            assert delivery.state == READY, f"a delivery in state {delivery.state} is not ready to go back"
        without_place = deliveries
        if self.stale or self.ahead:
            without_place = [one for one in deliveries if not self._finds_place(one)]
        if without_place:
            self.ready_bytes += sum([delivery.message.size for delivery in without_place])
            self._put_back(without_place)
        if self.ready or self.returned:
            self.queue.mask |= self.bit
        self.queue.came_back(deliveries)

    def _put_back(self, deliveries: list[Delivery]) -> None:
        """Let deliveries, usually a row in their order, be among those that have returned."""
        returned = self.returned
        if len(deliveries) > 1:
            positions = [one.position for one in deliveries]
            if positions != sorted(positions):
                deliveries = sorted(deliveries, key=position_of)
        if not returned or returned[-1].position < deliveries[0].position:
            returned.extend(deliveries)
        elif deliveries[-1].position < returned[0].position:
            returned.extendleft(reversed(deliveries))
        elif len(deliveries) == 1:
            insort(returned, deliveries[0], key=position_of)
        else:
            self.returned = deque(sorted([*returned, *deliveries], key=position_of))

    def _finds_place(self, delivery: Delivery) -> bool:
        """Say whether the place of a delivery that comes back is still there; if so, it takes it."""
        position = delivery.position
        if position in self.stale:
            self.stale.discard(position)
            if not self.volatile or position < self.volatile[0].position:
                self.ready_bytes += delivery.message.size
            return True
        if self.ahead.get(delivery.message.queue_offset) is delivery:
            self.ahead_bytes += delivery.message.size
            return True
        return False

    # -- for a Selection, which takes deliveries out of their order

    def newest(self, message: Message) -> Delivery | None:
        """Return the delivery of a message that has just come, None if it is on disk only."""
        if self.ready and self.ready[-1].message is message:
            return self.ready[-1]
        if self.volatile and self.volatile[-1].message is message:
            return self.volatile[-1]
        return None

    def keep_ahead(self, message: Message) -> Delivery:
        """Return a delivery of an entry that is not loaded yet, which is to be handed over before those before it."""
        delivery = self._delivery(message)
        self.attempts.pop(message.queue_offset, None)
        self.ahead[message.queue_offset] = delivery
        self.ahead_bytes += message.size
        self.memory.load(message)
        return delivery

    def is_ahead_full(self) -> bool:
        """Say whether as much was found ahead, and is not taken, as may be.

        While memory is short that is only what goes out at once: nothing of groups whose owners may not take it.
        """
        if self.ahead_bytes > AHEAD_BYTES:
            return True
        return self.ahead_bytes > 0 and self.memory.is_short() and self.queue.has_groups_known()

    def in_memory_from(self, position: int) -> Iterable[Delivery]:
        """Return what is in memory from ``position`` on, in order, and with it the places of what was taken."""
        parts: list[Iterable[Delivery]] = []
        if self.ready and self.ready[-1].position >= position:
            start = bisect_left(self.ready, position, key=position_of) if self.ready[0].position < position else 0
            parts.append(islice(self.ready, start, None))
        if self.volatile and self.volatile[-1].position >= position:
            parts.append(islice(self.volatile, bisect_left(self.volatile, position, key=position_of), None))
        in_turn = parts[0] if len(parts) == 1 else chain(*parts)
        if self.returned and self.returned[-1].position >= position:
            return merge(self.returned_from(position), in_turn, key=position_of)
        return in_turn

    def returned_from(self, position: int) -> Iterable[Delivery]:
        """Return what has come back from ``position`` on, in order."""
        return islice(self.returned, bisect_left(self.returned, position, key=position_of), None)

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
        elif self.ahead and self.ahead.get(delivery.message.queue_offset) is delivery:
            self.ahead_bytes -= size
        else:
            self.stale.add(position)
            if not self.volatile or position < self.volatile[0].position:
                self.ready_bytes -= size

    def waiting_at(self, index: int) -> Delivery:
        """Return the delivery with ``index`` others of those in memory before it; all places must be tidy."""
        returned = self.returned
        ready = self.ready
        count = len(returned)
        if not count or not ready or returned[-1].position < ready[0].position:  # what came back was handed over first
            return returned[index] if index < count else ready[index - count]
        return sorted([*returned, *ready], key=position_of)[index]

    def waiting_before(self, position: int) -> int:
        """Return how many of those in memory come before ``position``; all places must be tidy."""
        return bisect_left(self.returned, position, key=position_of) + bisect_left(
            self.ready, position, key=position_of
        )

    def has_place(self, delivery: Delivery) -> bool:
        """Say whether it waits in memory; one that is READY may have gone to a temporary file since it came."""
        for row in (self.returned, self.ready):
            index = bisect_left(row, delivery.position, key=position_of)
            if index < len(row) and row[index] is delivery:
                return True
        return False

    def remove(self, delivery: Delivery) -> None:
        """Take out a delivery that is READY in memory, its place included; all places must be tidy."""
        position = delivery.position
        index = bisect_left(self.returned, position, key=position_of)
        if index < len(self.returned) and self.returned[index] is delivery:
            del self.returned[index]
        else:
            index = bisect_left(self.ready, position, key=position_of)
            assert self.ready[index] is delivery, "a delivery that waits in memory has its place"
            del self.ready[index]  # moves the shorter side, without a look at it
        self.ready_bytes -= delivery.message.size

    def tidy(self) -> None:
        """Clear away the places of what was taken: those in front, and all if they are the most."""
        ready = self.ready
        stale = self.stale
        while stale and ready and ready[0].position in stale:
            stale.discard(ready.popleft().position)
        if len(stale) > STALE_MAX and 2 * len(stale) > len(ready) + len(self.volatile):
            self.drop_taken()
        if not ready and not self.returned:
            self.queue.mask &= ~self.bit

    def drop_taken(self) -> None:
        """Clear away all places of what was taken."""
        if self.stale:
            self.ready = deque(one for one in self.ready if one.position not in self.stale)
            self.volatile = deque(one for one in self.volatile if one.position not in self.stale)
            self.stale.clear()

    def settle_ahead(self) -> None:
        """Keep of what was found ahead and is gone only that it is, and pass what is settled before anything else."""
        if self.ahead and self._forget_gone() and not self.is_loading and self.next_load in self.settled:
            self.next_load = min(self.settled.first_missing(self.next_load), self.tail)
            self.settled.drop_below(self.next_load)
            self.catch_up()

    def _forget_gone(self) -> bool:
        """Forget those of the next AHEAD_SETTLED found ahead that are gone; say whether there were any.

        Those that were in no page, because the log has dropped them meanwhile, go so, too.
        """
        ahead = self.ahead
        if not self.ahead_left:
            self.ahead_left = list(ahead)
            self.ahead_left.reverse()
        part = self.ahead_left[-AHEAD_SETTLED:]
        del self.ahead_left[-AHEAD_SETTLED:]
        gone = [offset for offset in reversed(part) if offset in ahead and ahead[offset].state == GONE]
        for offset in gone:
            del ahead[offset]
            if offset >= self.next_load:
                self.settled.add(offset)
        return bool(gone)

    def forget_ahead(self, delivery: Delivery) -> None:
        """Let a delivery that was found ahead and never handed over be found again, or be loaded in its turn."""
        offset = delivery.message.queue_offset
        if delivery.state == READY and not delivery.is_redelivered and self.ahead.get(offset) is delivery:
            del self.ahead[offset]
            self.ahead_bytes -= delivery.message.size
            self.memory.unload(delivery.message)
            if delivery.message.expires_ms:
                self.note_expiry(delivery.message)

    def add_delayed(self, message: Message) -> None:
        """Count a message that waits for its redelivery."""
        was_held = self.is_held_by_delays()
        self.delayed_bytes += message.content_bytes() + MESSAGE_OVERHEAD_BYTES
        if self.is_held_by_delays() and not was_held:
            self.ready_bytes += LANE_BYTES

    def remove_delayed(self, message: Message) -> None:
        was_held = self.is_held_by_delays()
        self.delayed_bytes -= message.content_bytes() + MESSAGE_OVERHEAD_BYTES
        if was_held and not self.is_held_by_delays():
            self.ready_bytes -= LANE_BYTES

    def is_held_by_delays(self) -> bool:
        """Say whether so much waits for its redelivery that nothing more is loaded."""
        return self.delayed_bytes > DELAYED_BYTES

    def cut_backlog(self) -> None:
        """Let go of what lies on disk only: whose it is has been deleted.  A page that is under way may still come."""
        self.tail = self.next_load
        self.catch_up()

    def take_all(self) -> list[Delivery]:
        """Take out everything that waits; what is on disk is passed."""
        waiting = (*self.returned, *self.ready, *self.volatile, *self.ahead.values())
        taken = [one for one in waiting if one.state == READY]  # its place may still be there though it has been taken
        self.returned.clear()
        self.ready.clear()
        self.volatile.clear()
        self.ahead.clear()
        self.stale.clear()
        self.settled = OffsetSet()
        self.attempts.clear()
        self.ready_bytes = 0
        self.ahead_bytes = 0
        self.next_load = self.tail
        return taken

    def wants_page(self) -> bool:
        """Say whether entries on disk should be asked for now."""
        return (
            self.next_load < self.tail
            and not self.is_loading
            and not self.awaits_retry
            and len(self.ready) < self.page_messages
            and self.ready_bytes < self.page_bytes
        )

    def load(self, next_offset: int, messages: list[Message]) -> list[Delivery]:
        """Take a page; return the deliveries of it in order, without those settled before the store was opened.

        The caller counts them in the memory budget, and adds those that need not wait with ``append_loaded``, or all of
        them with ``append_all``.
        """
        settled = self.settled
        if not settled.pages and not self.ahead and not self.attempts:  # most pages: nothing is known of any of it
            self.next_load = next_offset
            return [Delivery(message, self, message.queue_offset << SERIAL_BITS) for message in messages]
        deliveries: list[Delivery] = []
        for message in messages:
            offset = message.queue_offset
            if settled.pages and offset in settled:
                continue
            if self.ahead:
                found = self.ahead.pop(offset, None)
                if found is not None:
                    if found.state == READY:
                        self.ahead_bytes -= message.size
                        self.memory.unload(found.message)  # counted anew, with its page
                        deliveries.append(found)
                    continue
            deliveries.append(self._delivery(message))
        self.next_load = next_offset
        if settled.pages:
            settled.drop_below(next_offset)
        if self.ahead:
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

    def append_loaded(self, delivery: Delivery) -> None:
        """Put a loaded delivery behind what is ready, and before it what waited for its turn."""
        volatile = self.volatile
        while volatile and volatile[0].position < delivery.position:
            self._move_up(volatile.popleft())
        self._append(delivery)

    def append_all(self, deliveries: list[Delivery]) -> None:
        """Put a page behind what is ready, in a lane where nothing waited for it and nothing of it has to wait."""
        if deliveries:
            self.ready_bytes += sum([delivery.message.size for delivery in deliveries])
            self.ready.extend(deliveries)
            self.queue.mask |= self.bit

    def catch_up(self) -> None:
        """Once nothing is left on disk, take all that waited behind it."""
        if self.next_load < self.tail:
            return
        while self.volatile:
            self._move_up(self.volatile.popleft())

    def _move_up(self, delivery: Delivery) -> None:
        """Put what waited behind entries on disk behind what is ready; one that was taken has no place any more."""
        if delivery.position in self.stale:
            self.stale.discard(delivery.position)
        else:
            self._append(delivery)

    def _append(self, delivery: Delivery) -> None:
        self.ready_bytes += delivery.message.size
        self.ready.append(delivery)
        self.queue.mask |= self.bit


def lane_of(delivery: Delivery) -> Lane:
    lane = delivery.lane
    assert isinstance(lane, Lane), "a delivery waits in a lane"
    return lane


def position_of(delivery: Delivery) -> int:
    return delivery.position


def _memory_limits(full: AddressFullPolicy) -> tuple[int, int]:
    size_bytes = LANE_BYTES
    count = LANE_MESSAGES
    if full.address_full_policy == "PAGE":
        if 0 <= full.max_size_bytes < size_bytes:
            size_bytes = full.max_size_bytes
        if 0 <= full.max_size_messages < count:
            count = full.max_size_messages
    return size_bytes, count


def _spill_above(queue: LaneOwner) -> int:
    """Return from how many octets on a lane asks by itself whether to spill: its address limits it."""
    full = queue.settings.full
    if queue.spiller is None:
        return NEVER
    if full.max_size_messages >= 0:
        return 0
    return full.max_size_bytes if full.max_size_bytes >= 0 else NEVER
