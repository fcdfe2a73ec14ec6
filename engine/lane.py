"""The messages of one queue and one priority: those in memory in order, and where the rest begins on disk."""

from __future__ import annotations

from bisect import insort
from collections import deque
from typing import TYPE_CHECKING, Final

from engine.delivery import READY, Delivery
from engine.memory import MESSAGE_OVERHEAD_BYTES
from engine.message import Message
from engine.ports import Attempts

if TYPE_CHECKING:
    from engine.queue import Queue

LANE_BYTES: Final = 8 * 1024 * 1024  # ready messages of one lane kept in memory; beyond, they are paged
LANE_MESSAGES: Final = 8_192
IDLE_LANE_BYTES: Final = 64 * 1024  # the same while the queue has no consumer: there may be thousands of such queues
PAGE_MESSAGES: Final = 1_024  # entries asked for at a time
PAGE_BYTES: Final = 4 * 1024 * 1024
DELAYED_BYTES: Final = 32 * 1024 * 1024  # waiting for their redelivery in memory; beyond, nothing more is loaded
SERIAL_BITS: Final = 32  # room for messages that are not logged between two entries


class Lane:
    """In order of ``position``: ``returned``, then ``ready``, then entries ``next_load`` to ``tail`` on disk.

    Messages that are not logged and arrive behind entries on disk wait in ``volatile`` until the page that comes
    before them has been loaded, so that one producer's messages stay in order, persistent or not.
    ready_bytes: of what is ready in memory, and LANE_BYTES more while too much is delayed: then what arrives stays on
    disk, and no page is asked for.
    fault: why the disk refused the last page, "" if it did not.
    settled: (first, count) of entries already settled when the store was opened, ascending, still to be passed.
    attempts: the failed attempts of entries by queue offset, likewise.
    """

    __slots__ = (
        "queue",
        "priority",
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
        "settled",
        "attempts",
    )

    def __init__(self, queue: Queue, priority: int) -> None:
        self.queue = queue
        self.priority = priority
        self.bit = 1 << priority
        self.ready: deque[Delivery] = deque()
        self.returned: list[Delivery] = []
        self.volatile: deque[Delivery] = deque()
        self.tail = 0
        self.next_load = 0
        self.ready_bytes = 0
        self.delayed_bytes = 0
        self.fault = ""
        self.last_position = -1 << SERIAL_BITS
        self.is_loading = False
        self.settled: deque[tuple[int, int]] = deque()
        self.attempts: dict[int, Attempts] = {}

    def restore(self, tail: int, cursor: int, settled: list[tuple[int, int]], attempts: dict[int, Attempts]) -> int:
        """Take up what recovery found; return how many entries wait."""
        self.tail = tail
        self.next_load = cursor
        self.last_position = (tail - 1) << SERIAL_BITS
        self.settled = deque(settled)
        self.attempts = attempts
        return tail - cursor - sum(count for _, count in settled)

    def add_logged(self, message: Message) -> None:
        """Take a message that has just been appended; it stays in memory if nothing waits on disk before it."""
        offset = message.queue_offset
        self.tail = offset + 1
        position = offset << SERIAL_BITS
        self.last_position = position
        limit_bytes = LANE_BYTES if self.queue.consumers else IDLE_LANE_BYTES
        if self.next_load == offset and self.ready_bytes < limit_bytes and len(self.ready) < LANE_MESSAGES:
            self.next_load = offset + 1
            self.ready_bytes += message.size
            self.ready.append(Delivery(message, self, position))
            self.queue.mask |= self.bit

    def add_volatile(self, message: Message) -> None:
        """Take a message that only memory holds."""
        self.last_position += 1
        delivery = Delivery(message, self, self.last_position)
        if self.next_load < self.tail:
            self.volatile.append(delivery)
            return
        self.ready_bytes += message.size
        self.ready.append(delivery)
        self.queue.mask |= self.bit

    def next_ready(self) -> Delivery | None:
        """Take the next delivery in order, None if none is in memory."""
        returned = self.returned
        ready = self.ready
        if returned and (not ready or returned[0].position < ready[0].position):
            delivery = returned.pop(0)
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
            self.ready_bytes += delivery.message.size
        if len(deliveries) == 1:
            insort(self.returned, deliveries[0], key=_position)
        else:
            self.returned.extend(deliveries)
            self.returned.sort(key=_position)
        self.queue.mask |= self.bit

    def add_delayed(self, message: Message) -> None:
        """Count a message that waits for its redelivery."""
        was_held = self.is_held_by_delays()
        self.delayed_bytes += message.size + MESSAGE_OVERHEAD_BYTES
        if self.is_held_by_delays() and not was_held:
            self.ready_bytes += LANE_BYTES

    def remove_delayed(self, message: Message) -> None:
        was_held = self.is_held_by_delays()
        self.delayed_bytes -= message.size + MESSAGE_OVERHEAD_BYTES
        if was_held and not self.is_held_by_delays():
            self.ready_bytes -= LANE_BYTES

    def is_held_by_delays(self) -> bool:
        """Say whether so much waits for its redelivery that nothing more is loaded."""
        return self.delayed_bytes > DELAYED_BYTES

    def take_expired(self, wall_ms: int) -> list[Delivery]:
        """Take out what waits in memory and has expired."""
        taken: list[Delivery] = []
        for waiting in (self.returned, self.ready, self.volatile):
            expired = [one for one in waiting if 0 < one.message.expires_ms <= wall_ms]
            if not expired:
                continue
            kept = [one for one in waiting if not 0 < one.message.expires_ms <= wall_ms]
            waiting.clear()
            waiting.extend(kept)
            taken += expired
            if waiting is not self.volatile:
                for delivery in expired:
                    self.ready_bytes -= delivery.message.size
        return taken

    def wants_page(self) -> bool:
        """Say whether entries on disk should be asked for now."""
        return (
            self.next_load < self.tail
            and not self.is_loading
            and len(self.ready) < PAGE_MESSAGES
            and self.ready_bytes < PAGE_BYTES
        )

    def load(self, next_offset: int, messages: list[Message]) -> list[Delivery]:
        """Take a page; return the deliveries of it in order, without those settled before the store was opened.

        The caller adds those that need not wait with ``append_loaded``.
        """
        deliveries: list[Delivery] = []
        settled = self.settled
        attempts = self.attempts
        for message in messages:
            offset = message.queue_offset
            while settled and settled[0][0] + settled[0][1] <= offset:
                settled.popleft()
            if settled and settled[0][0] <= offset:
                continue
            delivery = Delivery(message, self, offset << SERIAL_BITS)
            if attempts:
                known = attempts.get(offset)
                if known is not None:
                    delivery.failed_attempts = known.count
                    delivery.is_redelivered = True
            deliveries.append(delivery)
        self.next_load = next_offset
        return deliveries

    def append_loaded(self, delivery: Delivery) -> None:
        """Put a loaded delivery behind what is ready, and before it what waited for its turn."""
        volatile = self.volatile
        while volatile and volatile[0].position < delivery.position:
            self._append(volatile.popleft())
        self._append(delivery)

    def catch_up(self) -> None:
        """Once nothing is left on disk, take all that waited behind it."""
        if self.next_load < self.tail:
            return
        while self.volatile:
            self._append(self.volatile.popleft())

    def _append(self, delivery: Delivery) -> None:
        self.ready_bytes += delivery.message.size
        self.ready.append(delivery)
        self.queue.mask |= self.bit


def _position(delivery: Delivery) -> int:
    return delivery.position
