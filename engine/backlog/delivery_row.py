"""The deliveries of one lane that are in memory, in order; and the queue as the lane sees it."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from heapq import merge
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from config.policies import AddressSettings
from engine.backlog.lane_entries import LANE_BYTES
from engine.backlog.memory_budget import MemoryBudget
from engine.values.delivery import Delivery, LaneBase
from engine.values.destination import uri
from engine.values.message import Message

if TYPE_CHECKING:
    from engine.backlog.lane import Lane
    from engine.backlog.spilled_blocks import LaneBlock, SpillRoom

DELAYED_BYTES: Final = 32 * 1024 * 1024  # awaiting redelivery in memory; beyond, nothing more is loaded
STALE_MAX: Final = 256  # stale places are cleared once they are more than this and the majority


class LaneOwner:
    """A queue, as its lanes and their temporary files see it.

    is_closed: the queue has ended; deliveries that return to it are discarded.
    memory: the budget of messages in memory.
    mask: bit p is set while lane p has deliveries in memory.
    depth: waiting, in flight and delayed.  dropped_count: messages discarded without a consumer's answer.
    has_expiring: some of its messages expire.
    spiller: moves messages outside the log to temporary files, None if they stay in memory.
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
        """Have the queue dispatched at the end of the turn."""

    @abstractmethod
    def is_in_memory(self, message: Message) -> bool:
        """Say whether ``message`` is only in memory for this queue, so that it counts in the budget."""

    @abstractmethod
    def has_consumers(self) -> bool:
        """Say whether it has consumers that take its messages."""

    @abstractmethod
    def came_back(self, deliveries: list[Delivery]) -> None:
        """Note that deliveries are READY again, at their places."""

    @abstractmethod
    def read_back(self, deliveries: list[Delivery]) -> None:
        """Note that deliveries have come back from temporary files, in their turn."""

    @abstractmethod
    def has_selection(self) -> bool:
        """Say whether a selection decides who gets what: not every consumer takes just the next message."""

    @abstractmethod
    def has_groups_known(self) -> bool:
        """Say whether messages may be waiting for the owners of their groups."""

    @abstractmethod
    def needs_all_at_hand(self) -> bool:
        """Say whether one of its rules reads waiting messages, which must then stay in memory."""

    @abstractmethod
    def show_spilled(self, lane: Lane, block: LaneBlock, positions: list[int], messages: list[Message]) -> None:
        """Offer a block to its selection, which takes what it wants by ``SpillRoom.bring_in``."""


class DeliveryRow(LaneBase):
    """Deliveries in order of ``position``: ``returned``, then ``ready``, then ``volatile``.

    volatile: messages outside the log that wait until earlier entries on disk have been loaded.  This keeps the order
    of one producer's messages, persistent or not.
    ready_bytes: of what is ready, plus LANE_BYTES while too much is delayed: then new messages stay on disk, and no
    page is requested.  delayed_bytes: of what awaits redelivery in memory.
    stale: positions in ``ready`` and ``volatile`` whose deliveries a selection has taken; a delivery that comes back
    finds its place there.
    """

    __slots__ = ("queue", "memory", "bit", "ready", "returned", "volatile", "ready_bytes", "delayed_bytes", "stale")

    def __init__(self, queue: LaneOwner, priority: int) -> None:
        super().__init__(priority)
        self.queue = queue
        self.memory = queue.memory
        self.bit = 1 << priority
        self.ready: deque[Delivery] = deque()
        self.returned: deque[Delivery] = deque()
        self.volatile: deque[Delivery] = deque()
        self.ready_bytes = 0
        self.delayed_bytes = 0
        self.stale: set[int] = set()

    def next_ready(self) -> Delivery | None:
        """Take the next delivery in orderin memory, None if there is none."""
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
        """Append a page to ``ready``; no volatile message may wait in the lane, and nothing of the page has to wait."""
        if deliveries:
            self.ready_bytes += sum([delivery.message.size for delivery in deliveries])
            self.ready.extend(deliveries)
            self.queue.mask |= self.bit

    def append_loaded(self, delivery: Delivery) -> None:
        """Append a loaded delivery to ``ready``, after the volatile messages that come before it."""
        volatile = self.volatile
        while volatile and volatile[0].position < delivery.position:
            self._move_up(volatile.popleft())
        self._append(delivery)

    def _append(self, delivery: Delivery) -> None:
        self.ready_bytes += delivery.message.size
        self.ready.append(delivery)
        self.queue.mask |= self.bit

    def _move_up(self, delivery: Delivery) -> None:
        """Move a volatile delivery to the end of ``ready``; one that was taken has lost its place."""
        if delivery.position in self.stale:
            self.stale.discard(delivery.position)
        else:
            self._append(delivery)

    def _put_back(self, deliveries: list[Delivery]) -> None:
        """Insert deliveries, usually a run in order, into ``returned``."""
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
        """Say whether a returning delivery still has its place; if so, it is put there."""
        position = delivery.position
        if position not in self.stale:
            return False
        self.stale.discard(position)
        if not self.volatile or position < self.volatile[0].position:
            self.ready_bytes += delivery.message.size
        return True

    def weigh_delayed(self, change_bytes: int) -> None:
        """Change the sum of octets that await redelivery."""
        was_held = self.is_held_by_delays()
        self.delayed_bytes += change_bytes
        self.ready_bytes += LANE_BYTES * (self.is_held_by_delays() - was_held)

    def is_held_by_delays(self) -> bool:
        """Say whether so much awaits redelivery that nothing more is loaded."""
        return self.delayed_bytes > DELAYED_BYTES

    def waiting_bytes(self) -> int:
        """Return the octets of what is ready."""
        return self.ready_bytes - LANE_BYTES * self.is_held_by_delays()

    # -- for parts that take deliveries out of order

    def newest(self, message: Message) -> Delivery | None:
        """Return the delivery of a message that has just arrived, None if it is only on disk."""
        if self.ready and self.ready[-1].message is message:
            return self.ready[-1]
        if self.volatile and self.volatile[-1].message is message:
            return self.volatile[-1]
        return None

    def in_memory_from(self, position: int) -> Iterable[Delivery]:
        """Return the deliveries in memory from ``position`` on, in order, including the places of taken ones."""
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
        """Return the returned deliveries from ``position`` on, in order."""
        return islice(self.returned, bisect_left(self.returned, position, key=position_of), None)

    def waiting_at(self, index: int) -> Delivery:
        """Return the delivery at ``index`` of those in memory; all places must be tidy."""
        returned = self.returned
        ready = self.ready
        count = len(returned)
        if (
            not count or not ready or returned[-1].position < ready[0].position
        ):  # returned deliveries were handed over first
            return returned[index] if index < count else ready[index - count]
        return sorted([*returned, *ready], key=position_of)[index]

    def waiting_before(self, position: int) -> int:
        """Return how many deliveries in memory come before ``position``; all places must be tidy."""
        return bisect_left(self.returned, position, key=position_of) + bisect_left(
            self.ready, position, key=position_of
        )

    def has_place(self, delivery: Delivery) -> bool:
        """Say whether it waits in memory; a READY delivery may have moved to a temporary file."""
        for row in (self.returned, self.ready):
            index = bisect_left(row, delivery.position, key=position_of)
            if index < len(row) and row[index] is delivery:
                return True
        return False

    def remove(self, delivery: Delivery) -> None:
        """Remove a READY delivery from memory, with its place; all places must be tidy."""
        position = delivery.position
        index = bisect_left(self.returned, position, key=position_of)
        if index < len(self.returned) and self.returned[index] is delivery:
            del self.returned[index]
        else:
            index = bisect_left(self.ready, position, key=position_of)
            assert self.ready[index] is delivery, "a delivery that waits in memory has its place"
            del self.ready[index]  # a deque moves its shorter side
        self.ready_bytes -= delivery.message.size

    def tidy(self) -> None:
        """Remove stale places: those in front, and all of them if they are the majority."""
        ready = self.ready
        stale = self.stale
        while stale and ready and ready[0].position in stale:
            stale.discard(ready.popleft().position)
        if len(stale) > STALE_MAX and 2 * len(stale) > len(ready) + len(self.volatile):
            self.drop_taken()
        if not ready and not self.returned:
            self.queue.mask &= ~self.bit

    def drop_taken(self) -> None:
        """Remove all stale places."""
        if self.stale:
            self.ready = deque(one for one in self.ready if one.position not in self.stale)
            self.volatile = deque(one for one in self.volatile if one.position not in self.stale)
            self.stale.clear()


def position_of(delivery: Delivery) -> int:
    return delivery.position
