"""Optional rules of a queue: each is there or not, and a queue without any of them pays for none."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from config.policies import AddressSettings
from engine.backlog.lane import Lane
from engine.backlog.spilled_blocks import LaneBlock
from engine.sources.feed import Feed
from engine.values.delivery import ConsumerBase, Delivery
from engine.values.message import Message

if TYPE_CHECKING:
    from engine.backlog.lane_shares import LaneShares


class KeepRule:
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


class AudienceBase:
    """Those who are shown what a queue keeps that is acknowledged (engine.sources.non_destructive)."""

    __slots__ = ()

    @abstractmethod
    def show(self, message: Message, is_on_disk: bool) -> None:
        """Give a message that has just come to everybody who wants it."""

    @abstractmethod
    def count(self) -> int:
        """Return how many there are."""


class SelectionReasonsBase:
    """Says why somebody gets nothing (engine.dispatch.selection_reasons)."""

    __slots__ = ()

    @abstractmethod
    def gate(self, consumer: ConsumerBase) -> int:
        """Return what holds a consumer that has room, gates.OPEN for nothing."""

    @abstractmethod
    def describe(self, consumer: ConsumerBase, gate: int) -> str:
        """Return in words what a gate of this queue is about, "" for any other gate."""

    @abstractmethod
    def describe_group(self, delivery: Delivery) -> str:
        """Return in words who has the group of a delivery that waits, "" if nobody has it or it has none."""

    @abstractmethod
    def owners(self) -> dict[str, int]:
        """Return the id of each group -> the number of the consumer that owns it."""


class SelectionBase:
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
    def reasons(self) -> SelectionReasonsBase:
        """Return what says why somebody gets nothing."""


class QueueExtras:
    """The rules, and the marks of what is not usual; nothing of it is looked at for a message of a plain queue.

    keeper: drops what a last-value or ring queue is not to keep, None for any other.
    audience: of a queue that keeps what is acknowledged (non_destructive), None for any other; such a queue is choosy.
    shares: what its lanes may keep in memory among many, None for a view that ends soon.
    has_choosy_settings: it is choosy, whatever its messages and consumers.  has_groups: its messages have groups.
    has_siblings: consumers of it share, or once shared, their windows with those of other queues.
    is_watched: each hand-over or acknowledgement is told of; such a queue is choosy, so that no other pays for it.
    """

    __slots__ = ("keeper", "audience", "shares", "has_choosy_settings", "has_groups", "has_siblings", "is_watched")

    def __init__(self, settings: AddressSettings, feed: Feed) -> None:
        self.keeper: KeepRule | None = None
        self.audience: AudienceBase | None = None
        self.shares: LaneShares | None = None
        self.is_watched = is_watched(settings)
        # What is shown has one consumer, and nothing to choose.
        self.has_choosy_settings = not feed.is_browser and (self.is_watched or _is_choosy(settings))
        self.has_groups = False
        self.has_siblings = False


def is_told(settings: AddressSettings) -> bool:
    """Say whether each message that is sent is told of, or one that nobody takes."""
    return settings.advisories.delivery or settings.advisories.no_consumers


def is_watched(settings: AddressSettings) -> bool:
    """Say whether each hand-over, or each acknowledgement, is told of."""
    return settings.advisories.dispatched or settings.advisories.consumed


def is_keeping(settings: AddressSettings) -> bool:
    """Say whether such a queue drops what nobody has settled."""
    policy = settings.queue
    return policy.last_value or policy.ring_size >= 0 or policy.purge_on_no_consumers


def _is_choosy(settings: AddressSettings) -> bool:
    """Say whether such a queue has a Selection, whatever its consumers ask for."""
    policy = settings.queue
    return (
        policy.exclusive_consumer
        or policy.strict_order_dispatch
        or policy.consumers_before_dispatch > 0
        or policy.non_destructive
        or is_keeping(settings)
        or not settings.redelivery.non_blocking_redelivery
    )
