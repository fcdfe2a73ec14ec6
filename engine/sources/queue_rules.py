"""Optional rules of a queue: each is there or not, and a queue without any of them pays for none."""

from __future__ import annotations

from abc import ABC, abstractmethod

from engine.backlog.lane import Lane
from engine.backlog.spilled_blocks import LaneBlock
from engine.values.delivery import ConsumerBase, Delivery
from engine.values.message import Message


class KeepRule(ABC):
    """Drops what a last-value or ring queue is not to keep (engine.sources.last_value_and_ring)."""

    __slots__ = ()

    @abstractmethod
    def message_came(self, message: Message, delivery: Delivery | None) -> None:
        """A message is new on the queue.  delivery: None where it is on disk only."""

    @abstractmethod
    def deliveries_came(self, deliveries: list[Delivery]) -> None:
        """Deliveries have been loaded, or have come back."""

    @abstractmethod
    def wait(self) -> None:
        """Look at the queue at the end of this turn."""


class AudienceBase(ABC):
    """Those who are shown what a queue keeps that is acknowledged (engine.sources.non_destructive)."""

    __slots__ = ()

    @abstractmethod
    def show(self, message: Message, is_on_disk: bool) -> None:
        """Give a message that has just come to everybody who wants it."""

    @abstractmethod
    def count(self) -> int:
        """Return how many there are."""


class PendingRule(ABC):
    """Bounds what waits for a topic subscription (engine.sources.pending_message_limit)."""

    __slots__ = ()

    @abstractmethod
    def message_came(self, message: Message) -> None:
        """A message is new on the queue: if it is one too many, one goes."""


class SelectionBase(ABC):
    """Decides who may have which message (engine.dispatch.selection)."""

    __slots__ = ()

    # -- messages come and go

    @abstractmethod
    def arrived(self, lane: Lane, message: Message) -> None:
        """A message is new in a lane."""

    @abstractmethod
    def offer(self, deliveries: list[Delivery]) -> None:
        """Deliveries that are READY again may go to anybody, once all of them were looked at."""

    @abstractmethod
    def show_spilled(self, lane: Lane, block: LaneBlock, positions: list[int], messages: list[Message]) -> None:
        """Take what somebody wants of a block of temporary files."""

    @abstractmethod
    def left(self, delivery: Delivery) -> None:
        """A delivery has left its consumer's hands: settled, refused, or returned."""

    @abstractmethod
    def delay(self, delivery: Delivery, is_blocking: bool = False) -> None:
        """A delivery waits for its redelivery; what must not overtake it waits with it."""

    # -- consumers

    @abstractmethod
    def list_consumer(self, consumer: ConsumerBase) -> None:
        """Let a consumer take its turn."""

    @abstractmethod
    def unlist_consumer(self, consumer: ConsumerBase) -> None:
        """Take a consumer out of wherever it waits for its turn."""

    @abstractmethod
    def close(self) -> None:
        """Go back to plain dispatch."""

    # -- why

    @abstractmethod
    def held_by(self) -> int:
        """Return the gate that keeps everybody from getting anything, gates.OPEN for none."""

    @abstractmethod
    def has_idle(self) -> bool:
        """Say whether a consumer has nothing to do."""

    @abstractmethod
    def has_groups_known(self) -> bool:
        """Say whether messages may wait for the owners of their groups."""

    @abstractmethod
    def owners(self) -> dict[str, int]:
        """Return the id of each group -> the number of the consumer that owns it."""

    @abstractmethod
    def gate(self, consumer: ConsumerBase) -> int:
        """Return what holds a consumer that has room, gates.OPEN for nothing."""

    @abstractmethod
    def describe(self, consumer: ConsumerBase, gate: int) -> str:
        """Return in words what a gate of this queue is about, "" for any other gate."""

    @abstractmethod
    def describe_group(self, delivery: Delivery) -> str:
        """Return in words who has the group of a delivery that waits, "" if nobody has it or it has none."""
