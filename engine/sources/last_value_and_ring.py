"""Queues that do not keep everything: the newest value per key, a bounded number, or nothing without consumers.

Sources: HornetQ last-value-queue (``_HQ_LVQ_NAME``), Artemis last-value-key, ring-size and
purge-on-no-consumers.  A message that a consumer holds is not dropped.  If it comes back while a newer message of its
key is there, it is dropped then.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import Final

from engine.backlog.context import Context
from engine.backlog.lane import Lane, lane_of
from engine.sources.queue import Queue
from engine.sources.queue_rules import KeepRule
from engine.values.delivery import DROP, GONE, READY, Delivery, advance
from engine.values.message import Message
from engine.values.outcomes import CAUSE_EVICTED, CAUSE_PURGED, CAUSE_REPLACED, DROPPED
from engine.values.stored import Range

LAST_VALUE_KEYS: Final = ("_AMQ_LVQ_NAME", "_HQ_LVQ_NAME")  # in addition to the key of the address
SWEPT_KEYS: Final = 4  # examined for each new message, so that keys without a message are forgotten


class Kept:
    """The newest message of one key.  delivery: None while it is only on disk.

    number: 0 for a message found at the start, which is older than all others.
    is_gone: it was taken; its key is kept because older messages may be found on disk.
    """

    __slots__ = ("lane", "offset", "size_bytes", "log_offset", "number", "delivery", "is_gone")

    def __init__(self, lane: Lane, message: Message, number: int, delivery: Delivery | None) -> None:
        self.lane = lane
        self.offset = message.queue_offset
        self.size_bytes = message.size
        self.log_offset = message.log_offset
        self.number = number
        self.delivery = delivery
        self.is_gone = False

    def has_gone(self) -> bool:
        return self.is_gone or (self.delivery is not None and self.delivery.state == GONE)


class Keeper(KeepRule):
    """Drops messages that a queue may not keep.

    It works at the end of a turn, because its records must not be written in the middle of a batch.

    key_names: properties that may hold the key, the first found counts; () for none.
    came, came_back: messages and deliveries since the last run.  waiting: all keepers with work to do.
    unread: lane -> end of what it had at the start, while some of that was never in memory, so its keys are unknown.
    reads_on: new messages may replace some of these, so they must be read.
    """

    __slots__ = (
        "context",
        "queue",
        "waiting",
        "key_names",
        "by_key",
        "came",
        "came_back",
        "next_number",
        "is_waiting",
        "unread",
        "reads_on",
    )

    def __init__(self, context: Context, queue: Queue, waiting: list[Keeper]) -> None:
        policy = queue.settings.queue
        self.context = context
        self.queue = queue
        self.waiting = waiting
        names = dict.fromkeys((policy.last_value_key, *LAST_VALUE_KEYS))
        self.key_names = tuple(names) if policy.last_value else ()
        self.by_key: OrderedDict[str, Kept] = OrderedDict()
        self.came: list[tuple[Message, Delivery | None]] = []
        self.came_back: list[Delivery] = []
        self.next_number = 1
        self.is_waiting = False
        self.unread: dict[Lane, int] = {}
        self.reads_on = False

    def restored(self) -> None:
        """Note what the queue had at the start; its ring may have been larger then."""
        if self.key_names:
            self.unread = {lane: lane.tail for lane in self.queue.used_lanes if lane.next_load < lane.tail}
        policy = self.queue.settings.queue
        if policy.ring_size >= 0 and not policy.purge_on_no_consumers:  # its consumers may come back
            self.wait()

    def message_came(self, message: Message, delivery: Delivery | None) -> None:
        """A message was added to the queue.  delivery: None if it is only on disk."""
        self.came.append((message, delivery))
        self.wait()

    def deliveries_came(self, deliveries: list[Delivery]) -> None:
        self.came_back += deliveries
        self.wait()

    def wait(self) -> None:
        if not self.is_waiting:
            self.is_waiting = True
            self.waiting.append(self)
            self.context.agenda.is_open = True

    def run(self) -> bool:
        """Drop what the queue may not keep; return whether pages must be loaded to drop the rest."""
        self.is_waiting = False
        came, self.came = self.came, []
        came_back, self.came_back = self.came_back, []
        if self.queue.is_closed:
            return False  # deleted in this turn, with all that had come
        dropped: list[Range] = []
        if self.key_names:
            for delivery in came_back:
                self._drop_unless_newest(delivery, dropped)
            for message, found in came:
                self._replace(message, found, dropped)
                self._sweep()
        self._settle(dropped, CAUSE_REPLACED)
        policy = self.queue.settings.queue
        dropped = []
        is_all = not self._reads_on()
        if policy.purge_on_no_consumers and not self.queue.consumer_count():
            is_all = self._keep_ring(0, dropped) and is_all
            self._settle(dropped, CAUSE_PURGED)
        elif policy.ring_size >= 0:
            is_all = self._keep_ring(policy.ring_size, dropped) and is_all
            self._settle(dropped, CAUSE_EVICTED)
        return not is_all

    def _reads_on(self) -> bool:
        """Say whether messages of the start must be read."""
        for lane in list(self.unread):
            if lane.next_load >= self.unread[lane]:
                del self.unread[lane]
        self.reads_on = self.reads_on and bool(self.unread)
        return self.reads_on

    def _key(self, message: Message) -> str:
        properties = self.context.readers.properties(message, 1, False)
        for name in self.key_names:
            value = properties.known(name)
            if value is not None:
                return str(value)
        return ""

    def _replace(self, message: Message, delivery: Delivery | None, dropped: list[Range]) -> None:
        """Put a new message in the place of the waiting one with its key."""
        key = self._key(message)
        if not key:
            return
        known = self.by_key.get(key)
        self.reads_on = True
        lane = self.queue.lane(message.priority)
        self.by_key[key] = Kept(lane, message, self.next_number, delivery)
        self.next_number += 1
        if known is not None:
            self._drop_kept(known, dropped)

    def _drop_unless_newest(self, delivery: Delivery, dropped: list[Range]) -> None:
        """Drop a loaded or returned delivery unless it is the newest of its key."""
        message = delivery.message
        key = self._key(message)
        if not key or delivery.state != READY:
            return
        known = self.by_key.get(key)
        if known is not None and known.lane is lane_of(delivery) and known.offset == message.queue_offset >= 0:
            known.delivery = delivery
            return
        if known is None or (known.has_gone() and (delivery.tag or not known.number)):
            self.by_key[key] = Kept(lane_of(delivery), message, 0, delivery)
        elif known.delivery is delivery:
            return
        elif known.number > 0 or known.log_offset > message.log_offset:
            self._drop(delivery, dropped)
        else:
            self.by_key[key] = Kept(lane_of(delivery), message, 0, delivery)
            self._drop_kept(known, dropped)

    def _drop_kept(self, kept: Kept, dropped: list[Range]) -> None:
        if kept.has_gone():
            return
        delivery = kept.delivery
        if delivery is None:
            delivery = kept.lane.ahead.by_offset.get(kept.offset)
        if delivery is not None:
            if delivery.state == READY:
                self._drop(delivery, dropped)
            return
        if kept.offset < kept.lane.next_load or kept.offset in kept.lane.settled:
            return  # it has expired on the disk, or could not be read
        kept.lane.settled.add(kept.offset)
        self._count_out(kept.size_bytes)
        dropped.append(Range(kept.lane.priority, kept.offset, 1, 0, kept.size_bytes))

    def _drop(self, delivery: Delivery, dropped: list[Range]) -> None:
        lane = lane_of(delivery)
        message = delivery.message
        lane.take(delivery)
        lane.tidy()
        delivery.state = advance(delivery.state, DROP)
        if self.queue.is_logged and message.queue_offset >= 0:
            self.context.memory.unload(message)
            self._count_out(message.size)
            dropped.append(Range(lane.priority, message.queue_offset, 1, 0, message.size))
        else:
            self.queue.depth -= 1
            self.queue.dropped_count += 1
            self.context.memory.release(message)

    def _count_out(self, size_bytes: int) -> None:
        queue = self.queue
        queue.depth -= 1
        queue.dropped_count += 1
        if queue.account is not None:
            queue.account.leave(size_bytes)

    def _settle(self, dropped: list[Range], cause: int) -> None:
        if dropped:
            self.context.store.settle(self.queue.destination_id, 0, DROPPED, cause, dropped)

    def _keep_ring(self, ring_size: int, dropped: list[Range]) -> bool:
        """Drop the oldest messages beyond ``ring_size``; return whether all of them were in memory."""
        queue = self.queue
        held = queue.in_flight_count + queue.fates.enlisted_count + queue.fates.delayed_count
        excess = queue.depth - held - ring_size
        while excess > 0:
            oldest = self._oldest()
            if oldest is None:
                return False  # the size of a message on disk is not known until it is loaded
            self._drop(oldest, dropped)
            excess -= 1
        return True

    def _oldest(self) -> Delivery | None:
        """Return the oldest message in memory, if nothing older is on disk."""
        oldest: Delivery | None = None
        for lane in self.queue.used_lanes:
            lane.tidy()
            first = _first_ready(lane)
            if first is None:
                if lane.next_load < lane.tail:
                    return None
                continue
            if oldest is None or first.message.store_time_ms < oldest.message.store_time_ms:
                oldest = first
        return oldest

    def _sweep(self) -> None:
        """Forget some keys whose message is gone, with that message; the others are examined again later."""
        for key in list(islice(self.by_key, SWEPT_KEYS)):
            kept = self.by_key[key]
            if kept.has_gone() and not self.unread:
                del self.by_key[key]
                continue
            if kept.has_gone():
                kept.is_gone = True
                kept.delivery = None
            self.by_key.move_to_end(key)


def _first_ready(lane: Lane) -> Delivery | None:
    """Return the first delivery in memory that is READY, None if entries on disk come before it."""
    found = next((one for one in lane.ready if one.state == READY), None)
    if lane.returned and (found is None or lane.returned[0].position < found.position):
        found = lane.returned[0]
    if found is None and lane.next_load >= lane.tail:
        found = next((one for one in lane.volatile if one.state == READY), None)
    return found
