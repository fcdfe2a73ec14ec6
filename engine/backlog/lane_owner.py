"""A queue as the backlog that keeps its messages sees it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from config.policies import AddressSettings
from engine.backlog.memory import MemoryBudget
from engine.values.delivery import Delivery
from engine.values.destination import uri
from engine.values.message import Message

if TYPE_CHECKING:
    from engine.backlog.lane import Lane
    from engine.backlog.spilled_blocks import LaneBlock, SpillRoom


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
