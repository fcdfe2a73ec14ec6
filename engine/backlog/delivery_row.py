"""The deliveries of one lane that are in memory, in order; and the queue as it knows it."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from heapq import merge
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from config.policies import AddressSettings
from engine.backlog.memory import MemoryBudget
from engine.values.delivery import Delivery, LaneBase
from engine.values.destination import uri
from engine.values.message import Message

if TYPE_CHECKING:
    from engine.backlog.lane import Lane
    from engine.backlog.spilled_blocks import LaneBlock, SpillRoom

STALE_MAX: Final = 256  # places of deliveries that are gone; beyond, and if they are the most, they are cleared away


class LaneOwner:
    """A queue, as its lanes and their temporary files know it.

    is_closed: it has ended; what comes back to it is let go.
    memory: the budget of messages in memory.
    mask: bit p is set while lane p has deliveries in memory.
    depth: waiting, in flight and delayed.  dropped_count: of what was let go without anybody's answer.
    has_expiring: messages of it expire.
    spiller: where messages that are not logged go past what memory holds, None where they stay.
    """

    __slots__ = (
        "destination_id",
        "kind",
        "name",
        "settings",
        "memory",
        "is_closed",
        "mask",
        "depth",
        "dropped_count",
        "has_expiring",
        "spiller",
    )

    def __init__(
        self, destination_id: int, kind: int, name: str, settings: AddressSettings, memory: MemoryBudget
    ) -> None:
        self.destination_id = destination_id
        self.kind = kind
        self.name = name
        self.settings = settings
        self.memory = memory
        self.is_closed = False
        self.mask = 0
        self.depth = 0
        self.dropped_count = 0
        self.has_expiring = False
        self.spiller: SpillRoom | None = None

    def uri(self) -> str:
        """Return ``queue://NAME``, or ``topic://NAME`` for a topic subscription's queue."""
        return uri(self.kind, self.name)

    @abstractmethod
    def mark_dirty(self) -> None:
        """Have it dispatched at the end of the turn."""

    @abstractmethod
    def has_consumers(self) -> bool:
        """Say whether somebody takes its messages."""

    @abstractmethod
    def came_back(self, deliveries: list[Delivery]) -> None:
        """Take note that deliveries are READY again, at their places."""

    @abstractmethod
    def read_back(self, deliveries: list[Delivery]) -> None:
        """Take note that deliveries have come back from temporary files, in their turn."""

    @abstractmethod
    def has_selection(self) -> bool:
        """Say whether its consumers do not all take just the next message."""

    @abstractmethod
    def has_groups_known(self) -> bool:
        """Say whether messages may wait for the owners of their groups."""

    @abstractmethod
    def needs_all_at_hand(self) -> bool:
        """Say whether a rule of it looks at what waits, which therefore stays in memory."""

    @abstractmethod
    def show_spilled(self, lane: Lane, block: LaneBlock, positions: list[int], messages: list[Message]) -> None:
        """Let its selection take what it wants of a block, by ``SpillRoom.bring_in``."""


class DeliveryRow(LaneBase):
    """In order of ``position``: ``returned``, then ``ready``, then ``volatile``.

    volatile: messages that are not logged and wait until the entries on disk before them have been loaded, so that one
    producer's messages stay in order, persistent or not.
    ready_bytes: of what is ready, and LANE_BYTES more while too much is delayed: then what arrives stays on disk, and
    no page is asked for.
    stale: positions in ``ready`` and ``volatile`` whose deliveries a selection has taken; one that comes back finds its
    place there.
    """

    __slots__ = ("queue", "memory", "bit", "ready", "returned", "volatile", "ready_bytes", "stale")

    def __init__(self, queue: LaneOwner, priority: int) -> None:
        super().__init__(priority)
        self.queue = queue
        self.memory = queue.memory
        self.bit = 1 << priority
        self.ready: deque[Delivery] = deque()
        self.returned: deque[Delivery] = deque()
        self.volatile: deque[Delivery] = deque()
        self.ready_bytes = 0
        self.stale: set[int] = set()

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

    def append_all(self, deliveries: list[Delivery]) -> None:
        """Put a page behind what is ready, in a lane where nothing waited for it and nothing of it has to wait."""
        if deliveries:
            self.ready_bytes += sum([delivery.message.size for delivery in deliveries])
            self.ready.extend(deliveries)
            self.queue.mask |= self.bit

    def append_loaded(self, delivery: Delivery) -> None:
        """Put a loaded delivery behind what is ready, and before it what waited for its turn."""
        volatile = self.volatile
        while volatile and volatile[0].position < delivery.position:
            self._move_up(volatile.popleft())
        self._append(delivery)

    def _append(self, delivery: Delivery) -> None:
        self.ready_bytes += delivery.message.size
        self.ready.append(delivery)
        self.queue.mask |= self.bit

    def _move_up(self, delivery: Delivery) -> None:
        """Put what waited behind entries on disk behind what is ready; one that was taken has no place any more."""
        if delivery.position in self.stale:
            self.stale.discard(delivery.position)
        else:
            self._append(delivery)

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
        if position not in self.stale:
            return False
        self.stale.discard(position)
        if not self.volatile or position < self.volatile[0].position:
            self.ready_bytes += delivery.message.size
        return True

    # -- for those who take deliveries out of their order

    def newest(self, message: Message) -> Delivery | None:
        """Return the delivery of a message that has just come, None if it is on disk only."""
        if self.ready and self.ready[-1].message is message:
            return self.ready[-1]
        if self.volatile and self.volatile[-1].message is message:
            return self.volatile[-1]
        return None

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


def position_of(delivery: Delivery) -> int:
    return delivery.position
