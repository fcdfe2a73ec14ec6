"""The messages of a queue that consumers of one selector may have, how far it has read, and these consumers' places.

Selectors that are at the same place of a lane share a cursor, so each message is read once for all of them.  The cost
of a turn depends on the number of places, not on the number of selectors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

from engine.backlog.lane import lane_of
from engine.backlog.waiting_deliveries import Waiting
from engine.consumers.consumer import Consumer, SeatBase
from engine.selector.evaluate import Selector
from engine.values.delivery import Delivery

VIEW_MESSAGES: Final = 1_024  # found per lane and selector, not handed over yet; then reading pauses
VIEW_BYTES: Final = 1024 * 1024  # the same in octets
FULL_MESSAGES: Final = VIEW_MESSAGES // 2  # more of one lane are enough, without those that others have taken
FULL_BYTES: Final = VIEW_BYTES // 2
STALE_MAX: Final = 64  # stale places; cleared once they are more than this and the majority


@dataclass(slots=True, eq=False)
class RankedConsumers:
    """Idle or exclusive consumers: by priority, highest first, then by arrival; if ``is_strict``, by subscription.

    A stale place in the heap has only numbers: a consumer that has left, and its client, are not held by it.
    """

    is_strict: bool
    _places: dict[int, int] = field(default_factory=dict)  # consumer id -> its place
    _consumers: dict[int, Consumer] = field(default_factory=dict)  # by id
    _heap: list[tuple[int, int, int]] = field(default_factory=list)  # priority, place, consumer id
    _next: int = 0

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, consumer: Consumer) -> bool:
        return consumer.consumer_id in self._places

    def add(self, consumer: Consumer) -> None:
        place = consumer.consumer_id if self.is_strict else self._next
        self._next += 1
        self._places[consumer.consumer_id] = place
        self._consumers[consumer.consumer_id] = consumer
        heappush(self._heap, (-consumer.priority, place, consumer.consumer_id))

    def first(self) -> Consumer | None:
        """Return the first consumer without removing it, None if there is none."""
        heap = self._heap
        while heap and self._places.get(heap[0][2]) != heap[0][1]:
            heappop(heap)
        return self._consumers[heap[0][2]] if heap else None

    def take_first(self) -> Consumer:
        """Remove and return the first consumer; there must be one."""
        while True:
            _, place, consumer_id = heappop(self._heap)
            if self._places.get(consumer_id) == place:
                del self._places[consumer_id]
                return self._consumers.pop(consumer_id)

    def remove(self, consumer: Consumer) -> bool:
        """Remove ``consumer``; say whether it was here."""
        if self._places.pop(consumer.consumer_id, None) is None:
            return False
        del self._consumers[consumer.consumer_id]
        if len(self._heap) > STALE_MAX + 2 * len(self._places):
            self._heap = [one for one in self._heap if self._places.get(one[2]) == one[1]]
            heapify(self._heap)
        return True


class View:
    """The messages of a queue that ``selector`` matches, found in order, even behind messages that nobody takes.

    key: by which consumers share it.  selector: None matches everything.  waiting: found and not handed over.
    is_ruled: as its consumers are; the view of a purge or a retry also has what is kept for a certain consumer.
    cursors: priority -> its place in that lane; priority + SPILLED -> its place in the lane's temporary files.
    idle: consumers that could take a message and found none.
    examined_count: messages examined, without those counted by its cursors and on arrival.
    arrived_before: ``SelectorIndex.arrived_count`` when it was created.
    counted, counted_bytes: what was waiting when it was last counted, or the least that was waiting since.
    """

    __slots__ = (
        "number",
        "key",
        "selector",
        "is_ruled",
        "waiting",
        "cursors",
        "idle",
        "consumer_count",
        "examined_count",
        "matched_count",
        "arrived_before",
        "counted",
        "counted_bytes",
    )

    def __init__(
        self, number: int, key: str, selector: Selector | None, is_ruled: bool, arrived_before: int, is_strict: bool
    ) -> None:
        self.number = number
        self.key = key
        self.selector = selector
        self.is_ruled = is_ruled
        self.waiting = Waiting()
        self.cursors: dict[int, Cursor] = {}
        self.idle = RankedConsumers(is_strict)
        self.consumer_count = 0
        self.examined_count = 0
        self.matched_count = 0
        self.arrived_before = arrived_before
        self.counted = FULL_MESSAGES
        self.counted_bytes = FULL_BYTES

    def is_behind(self, key: int) -> bool:
        """Say whether a lane, in memory, on disk or spilled, has messages that were not examined."""
        cursor = self.cursors.get(key)
        return cursor is not None and cursor.position != END

    def has_passed(self, delivery: Delivery) -> bool:
        """Say whether everything before ``delivery`` in its lane was examined."""
        lane = lane_of(delivery)
        cursor = self.cursors.get(lane.priority)
        if cursor is not None and delivery.position >= cursor.position:
            return False
        spill = lane.spill
        if spill is None:
            return True
        cursor = self.cursors.get(lane.priority + SPILLED)
        return cursor is None or delivery.position < max(spill.first_position(), cursor.position)

    def wants_more(self) -> bool:
        """Say whether a consumer is idle, and no found message may be given to it."""
        if not self.idle:
            return False
        first = self.waiting.first()
        return first is None or not self.has_passed(first)

    def wants_more_of(self, priority: int) -> bool:
        """Say the same of one lane: behind a message of a higher priority that it has found it wants nothing yet."""
        if not self.idle:
            return False
        first = self.waiting.first()
        return first is None or (first.lane.priority <= priority and not self.has_passed(first))

    def is_full(self, priority: int) -> bool:
        """Say whether enough was found in a lane, not counting messages that others have taken.

        Counting looks at everything found, so it is not repeated before half as much again as is enough has come.
        """
        waiting = self.waiting
        count, size_bytes = len(waiting), waiting.size_bytes
        self.counted = max(FULL_MESSAGES, min(self.counted, count))
        self.counted_bytes = max(FULL_BYTES, min(self.counted_bytes, size_bytes))
        if count < self.counted + FULL_MESSAGES and size_bytes < self.counted_bytes + FULL_BYTES:
            return False
        waiting.compact()
        if waiting.holds_more_than(priority, FULL_MESSAGES, FULL_BYTES):
            return True
        self.counted = max(FULL_MESSAGES, len(waiting))
        self.counted_bytes = max(FULL_BYTES, waiting.size_bytes)
        return False

    def examined_by(self, arrived_count: int) -> int:
        """Return how many messages were examined for it, after ``arrived_count`` arrivals at the queue."""
        counted = sum([cursor.examined_count for cursor in self.cursors.values()])
        return self.examined_count + counted + arrived_count - self.arrived_before

    # -- its idle consumers

    def rest(self, consumer: Consumer) -> None:
        self.idle.add(consumer)
        for cursor in self.cursors.values():
            cursor.idle[self.number] = self

    def rouse_first(self) -> Consumer:
        """Remove and return the first idle consumer; there must be one."""
        consumer = self.idle.take_first()
        self._note_idle()
        return consumer

    def rouse(self, consumer: Consumer) -> bool:
        """Remove ``consumer`` from the idle ones; say whether it was one."""
        if not self.idle.remove(consumer):
            return False
        self._note_idle()
        return True

    def _note_idle(self) -> None:
        if not self.idle:
            for cursor in self.cursors.values():
                cursor.idle.pop(self.number, None)


class Seat(SeatBase):
    """A consumer's place in a queue's Selection.

    owned: messages for this consumer alone: of its groups, or messages that the others refuse."""

    __slots__ = ("consumer", "view", "owned")

    def __init__(self, consumer: Consumer, view: View) -> None:
        super().__init__()
        self.consumer = consumer
        self.view = view
        self.owned = Waiting()


def seat_of(consumer: Consumer) -> Seat | None:
    """Return the seat of a consumer, None without a Selection."""
    seat = consumer.seat
    assert seat is None or isinstance(seat, Seat), "there is one kind of seat"
    return seat


START: Final = -(1 << 62)  # below every position
END: Final = 1 << 62  # above every position: everything was read
SPILLED: Final = 16  # added to a priority: the cursor over the lane's temporary files


class Cursor:
    """The views that have seen everything before ``position``.

    idle: those of them with an idle consumer.
    is_reading: messages that are being read now are offered to them.
    examined_count: messages examined for all of them; see ``View.examined_count``.
    """

    __slots__ = ("position", "views", "idle", "is_reading", "examined_count")

    def __init__(self, position: int) -> None:
        self.position = position
        self.views: dict[int, View] = {}
        self.idle: dict[int, View] = {}
        self.is_reading = False
        self.examined_count = 0

    def wants_more_of(self, priority: int) -> bool:
        """Say whether one of its views needs more of a lane for an idle consumer."""
        for view in self.idle.values():
            if view.wants_more_of(priority):
                return True
        return False


@dataclass(slots=True, eq=False)
class LaneCursors:
    """The cursors of one lane, each at its own place; a cursor without views is removed.

    key: of this lane in ``View.cursors``.  resume_at: where reading continues, so that no view waits for ever.
    """

    key: int
    by_position: dict[int, Cursor] = field(default_factory=dict)
    resume_at: int = START

    def add(self, view: View, position: int) -> None:
        cursor = self.by_position.get(position)
        if cursor is None:
            cursor = self.by_position[position] = Cursor(position)
        self._join(view, cursor)

    def _join(self, view: View, cursor: Cursor) -> None:
        cursor.views[view.number] = view
        if view.idle:
            cursor.idle[view.number] = view
        view.cursors[self.key] = cursor
        view.examined_count -= cursor.examined_count

    def remove(self, view: View) -> None:
        cursor = view.cursors.pop(self.key)
        view.examined_count += cursor.examined_count
        del cursor.views[view.number]
        cursor.idle.pop(view.number, None)
        if not cursor.views:
            self.detach(cursor)

    def move(self, view: View, position: int) -> None:
        """Let one view continue alone from ``position``."""
        self.remove(view)
        self.add(view, position)

    def split(self, cursor: Cursor, views: list[View]) -> Cursor:
        """Return a new cursor for some of the views at the same place; the caller attaches it at another one."""
        apart = Cursor(cursor.position)
        for view in views:
            self.remove(view)
            self._join(view, apart)
        return apart

    def detach(self, cursor: Cursor) -> None:
        """Remove a cursor with its views, if it is here."""
        if self.by_position.get(cursor.position) is cursor:
            del self.by_position[cursor.position]

    def attach(self, cursor: Cursor, position: int) -> None:
        """Insert a cursor that is at ``position`` now; it is merged with another one there."""
        cursor.is_reading = False
        if not cursor.views:
            return
        cursor.position = position
        other = self.by_position.get(position)
        if other is None:
            self.by_position[position] = cursor
            return
        if len(other.views) < len(cursor.views):
            self.by_position[position] = cursor
            cursor, other = other, cursor
        more = cursor.examined_count - other.examined_count
        for view in cursor.views.values():
            view.cursors[self.key] = other
            view.examined_count += more
        other.views.update(cursor.views)
        other.idle.update(cursor.idle)
        cursor.views.clear()
        cursor.idle.clear()

    def advance(self, cursor: Cursor, position: int) -> None:
        """Move ``cursor`` to ``position``: all its views have seen what comes before."""
        self.detach(cursor)
        self.attach(cursor, position)

    def front(self) -> Cursor | None:
        """Return the cursor of the views that have seen everything, None if there is none."""
        return self.by_position.get(END)

    def behind(self) -> list[Cursor]:
        """Return the other cursors in order, beginning where reading continues."""
        positions = sorted(self.by_position)
        if positions and positions[-1] == END:
            positions.pop()
        resume_at = self.resume_at
        if len(positions) > 1 and positions[0] < resume_at <= positions[-1]:
            positions = [one for one in positions if one >= resume_at] + [one for one in positions if one < resume_at]
        return [self.by_position[one] for one in positions]
