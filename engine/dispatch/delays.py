"""Failed deliveries that await redelivery; their content is dropped while memory is short.

One timer is set for the first that is due.  A turn returns at most ``DUE_AT_ONCE`` of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from engine.backlog.context import Context
from engine.backlog.lane import Lane, lane_of
from engine.backlog.memory_budget import MESSAGE_OVERHEAD_BYTES
from engine.ports.timers import TimerTarget
from engine.sources.observer import Observer
from engine.sources.queue import Queue, queue_of
from engine.values import gates
from engine.values.delivery import DELAYED, DROP, TIMER, Delivery, advance
from engine.values.message import Message

KEPT_DELAYED_BYTES: Final = 8 * 1024 * 1024  # content kept per lane; beyond, it is read again when due
LONG_DELAY_MS: Final = 100  # deliveries with a shorter delay keep their content in memory
RELOAD_RETRY_MS: Final = 1_000  # pause after the disk refused, or memory had no room for, content
RELOAD_READER: Final = -2  # the reader to which the store answers for reloads
DUE_AT_ONCE: Final = 2_048  # deliveries per turn; others that are due follow in the next turns
FORGOTTEN_AT_MOST: Final = 1_024  # deliveries of ended queues stay in ``waiting``, or so many as others wait


class Delays(TimerTarget):
    """reloading: (destination, priority, queue offset) -> due delivery whose content is being read again.

    reloading_bytes: of these.
    of_queue: all of a queue that await redelivery, those in ``reloading`` too: when they are due, and their number.
    awaited: those that are not in ``reloading``, by their number.
    waiting: a heap of (when due, number).  ``forgotten`` of them are of queues that have ended.
    armed_ms: when the only valid timer fires, 0 for none; its key is that time, so that an outdated timer is recognized
    when it fires.
    """

    __slots__ = (
        "context",
        "of_queue",
        "awaited",
        "waiting",
        "forgotten",
        "reloading",
        "reloading_bytes",
        "next_number",
        "armed_ms",
    )

    def __init__(self, context: Context, observers: list[Observer]) -> None:
        self.context = context
        self.of_queue: dict[Queue, dict[Delivery, tuple[int, int]]] = {}
        self.awaited: dict[int, Delivery] = {}
        self.waiting: list[tuple[int, int]] = []
        self.forgotten = 0
        self.reloading: dict[tuple[int, int, int], Delivery] = {}
        self.reloading_bytes = 0
        self.next_number = 1
        self.armed_ms = 0
        observers.append(_QueueEnds(self))

    def delayed_of(self, queue: Queue) -> list[Delivery]:
        """Return the deliveries that await redelivery to a queue, including due ones that are being reloaded."""
        return list(self.of_queue.get(queue, ()))

    def forget(self, queue: Queue) -> None:
        """Discard deliveries that await redelivery to a queue that has ended."""
        for delivery, (_, number) in self.of_queue.pop(queue, {}).items():
            if self.awaited.pop(number, None) is None:
                self._reloaded(*_key(queue, delivery))
            else:
                self.forgotten += 1
            queue.release(delivery.message)
        queue.fates.delayed_count = 0
        if self.forgotten > max(FORGOTTEN_AT_MOST, len(self.waiting) // 2):
            self.waiting = [one for one in self.waiting if one[1] in self.awaited]
            heapify(self.waiting)
            self.forgotten = 0

    def restore_wait(self, delivery: Delivery, wait_ms: int) -> None:
        """Let a delivery loaded after a restart wait out the rest of its delay."""
        delivery.state = DELAYED
        self.add(delivery, wait_ms)
        selection = queue_of(delivery.lane).selection
        if selection is not None:
            selection.delay(delivery)

    def add(self, delivery: Delivery, delay_ms: int) -> None:
        """Let a DELAYED delivery wait."""
        lane = lane_of(delivery)
        queue = queue_of(lane)
        queue.fates.delayed_count += 1
        lane.weigh_delayed(_weight(delivery.message))
        message = delivery.message
        if (
            (lane.delayed_bytes > KEPT_DELAYED_BYTES or self.context.memory.is_short())
            and delay_ms >= LONG_DELAY_MS
            and message.queue_offset >= 0
            and queue.is_logged
            and queue.feed.is_own
        ):
            lane.weigh_delayed(-_weight(message))
            self.context.memory.unload(message)
            delivery.message = message.twin(message.flags, b"", b"", b"")
            self.context.memory.load(delivery.message)
            lane.weigh_delayed(_weight(delivery.message))
        self._push(delivery, delay_ms)

    def timer_fired(self, key: int) -> None:
        if key != self.armed_ms:
            return
        self.armed_ms = 0
        now_ms = max(key, self.context.clock.monotonic_ms())
        waiting = self.waiting
        due: dict[Lane, list[Delivery]] = {}
        late: list[Delivery] = []
        count = min(len(waiting), DUE_AT_ONCE)
        while count > 0 and waiting[0][0] <= now_ms:
            count -= 1
            delivery = self.awaited.pop(heappop(waiting)[1], None)
            if delivery is None:
                self.forgotten -= 1
                continue
            if delivery.message.is_hollow():
                if self._has_room_for(delivery):
                    self._reload(delivery)
                else:
                    late.append(delivery)
                continue
            delivery.state = advance(delivery.state, TIMER)
            due.setdefault(lane_of(delivery), []).append(delivery)
        for delivery in late:
            self._push(delivery, RELOAD_RETRY_MS)
        for lane, deliveries in due.items():
            for delivery in deliveries:
                lane.weigh_delayed(-_weight(delivery.message))
            lane.give_back(deliveries)
            queue = queue_of(lane)
            for delivery in deliveries:
                self._waits_no_more(queue, delivery)
            queue.mark_dirty()
        self._set_timer()

    # -- deliveries without their content

    def page_loaded(self, destination_id: int, priority: int, queue_offset: int, messages: list[Message]) -> None:
        """The content of a due delivery has been read again."""
        delivery = self._reloaded(destination_id, priority, queue_offset)
        if delivery is None:
            return
        if not messages:
            self._push(delivery, RELOAD_RETRY_MS)
            return
        lane = lane_of(delivery)
        lane.weigh_delayed(-_weight(delivery.message))
        self.context.memory.unload(delivery.message)
        self.context.memory.load(messages[0])
        delivery.message = messages[0]
        delivery.state = advance(delivery.state, TIMER)
        lane.give_back([delivery])
        queue = queue_of(lane)
        self._waits_no_more(queue, delivery)
        queue.mark_dirty()

    def page_failed(self, destination_id: int, priority: int, queue_offset: int) -> None:
        """The content could not be read; it is requested again soon."""
        delivery = self._reloaded(destination_id, priority, queue_offset)
        if delivery is not None:
            self._push(delivery, RELOAD_RETRY_MS)

    def record_skipped(self, destination_id: int, priority: int, queue_offset: int) -> bool:
        """The record is damaged, and the operator allows to skip it; return whether it was waiting here."""
        delivery = self._reloaded(destination_id, priority, queue_offset)
        if delivery is None:
            return False
        delivery.state = advance(delivery.state, DROP)
        lane_of(delivery).weigh_delayed(-_weight(delivery.message))
        self.context.memory.unload(delivery.message)
        self._waits_no_more(queue_of(delivery.lane), delivery)
        return True

    def _reloaded(self, destination_id: int, priority: int, queue_offset: int) -> Delivery | None:
        """Remove and return the delivery whose content was requested, None if it is no longer wanted."""
        delivery = self.reloading.pop((destination_id, priority, queue_offset), None)
        if delivery is not None:
            self.reloading_bytes -= delivery.message.size
        return delivery

    def _has_room_for(self, delivery: Delivery) -> bool:
        """Say whether memory has room for the content of a due delivery; the first of a lane always has.

        While consumers are idle, one at a time always has, as the deliveries before it may be for nobody.  So has an
        expired one, which leaves with the next scan.
        """
        memory = self.context.memory
        if memory.held_bytes() + self.reloading_bytes + delivery.message.size <= memory.keep_bytes:
            return True
        if self.reloading:
            return False
        if 0 < delivery.message.expires_ms <= self.context.wall_ms:
            return True
        lane = lane_of(delivery)
        if not lane.returned or delivery.position < lane.returned[0].position:
            return True
        selection = queue_of(lane).selection  # a returned delivery may itself wait for this one
        return selection is not None and (selection.held_by() == gates.DELAYED or selection.has_idle())

    def _reload(self, delivery: Delivery) -> None:
        message = delivery.message
        self.reloading_bytes += message.size
        queue = queue_of(delivery.lane)
        self.reloading[_key(queue, delivery)] = delivery
        store = self.context.store
        store.write()  # only written records can be read
        store.request(queue.destination_id, message.priority, message.queue_offset, 1, 1, RELOAD_READER)

    # -- the steps

    def _waits_no_more(self, queue: Queue, delivery: Delivery) -> None:
        queue.fates.delayed_count -= 1
        deliveries = self.of_queue[queue]
        del deliveries[delivery]
        if not deliveries:
            del self.of_queue[queue]

    def _push(self, delivery: Delivery, delay_ms: int) -> None:
        number = self.next_number
        self.next_number = number + 1
        due_ms = self.context.clock.monotonic_ms() + max(0, delay_ms)
        self.of_queue.setdefault(queue_of(delivery.lane), {})[delivery] = (due_ms, number)
        self.awaited[number] = delivery
        heappush(self.waiting, (due_ms, number))
        self._set_timer()

    def _set_timer(self) -> None:
        """Set a timer for the first due delivery, unless it is set already."""
        if not self.waiting:
            return
        due_ms = self.waiting[0][0]
        if not 0 < self.armed_ms <= due_ms:
            self.armed_ms = due_ms
            self.context.timers.call_at(due_ms, self, due_ms)


def _key(queue: Queue, delivery: Delivery) -> tuple[int, int, int]:
    message = delivery.message
    return queue.destination_id, message.priority, message.queue_offset


def _weight(message: Message) -> int:
    return message.content_bytes() + MESSAGE_OVERHEAD_BYTES


@dataclass(slots=True, eq=False)
class _QueueEnds(Observer):
    _delays: Delays

    def queue_ended(self, queue: Queue) -> None:
        self._delays.forget(queue)
