"""Optional rules of a queue, each an object or None; a queue without rules does no work for them."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from config.policies import AddressSettings
from engine.backlog.lane import Lane
from engine.backlog.lane_shares import LaneShares
from engine.backlog.spilled_blocks import LaneBlock
from engine.sources.feed import Feed
from engine.values.delivery import ConsumerBase, Delivery
from engine.values.message import Message


class KeepRule:
    """Drops messages that a last-value or ring queue may not keep (engine.sources.last_value_and_ring)."""

    __slots__ = ()

    @abstractmethod
    def message_came(self, message: Message, delivery: Delivery | None) -> None:
        """A message was added to the queue.  delivery: None if it is on disk only."""

    @abstractmethod
    def deliveries_came(self, deliveries: list[Delivery]) -> None:
        """Deliveries were loaded, or came back."""

    @abstractmethod
    def restored(self) -> None:
        """The queue has its messages of the last run; they are on disk."""

    @abstractmethod
    def wait(self) -> None:
        """Check the queue at the end of this turn."""


class AudienceBase:
    """The views of a queue that keeps acknowledged messages (engine.sources.non_destructive)."""

    __slots__ = ()

    @abstractmethod
    def show(self, message: Message, source: Lane, is_on_disk: bool) -> None:
        """Show a message that has just arrived in ``source`` in each view that wants it."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of views."""


class SelectionReasonsBase:
    """Says why a consumer gets nothing (engine.dispatch.selection_reasons)."""

    __slots__ = ()

    @abstractmethod
    def gate(self, consumer: ConsumerBase) -> int:
        """Return the gate that holds a consumer with room, gates.OPEN for none."""

    @abstractmethod
    def describe(self, consumer: ConsumerBase, gate: int) -> str:
        """Return the reason for a gate of this queue in words, "" for any other gate."""

    @abstractmethod
    def describe_group(self, delivery: Delivery) -> str:
        """Return in words the owner of a waiting delivery's group, "" without owner or group."""

    @abstractmethod
    def owners(self) -> dict[str, int]:
        """Return the id of each group -> the number of the consumer that owns it."""


class SelectionBase:
    """Decides which consumer may have which message (engine.dispatch.message_selection)."""

    __slots__ = ()

    # -- messages come and go

    @abstractmethod
    def arrived(self, lane: Lane, message: Message) -> None:
        """A message was added to a lane."""

    @abstractmethod
    def offer(self, deliveries: list[Delivery]) -> None:
        """Deliveries that are READY again may be given to any consumer, once all of them have been examined."""

    @abstractmethod
    def show_spilled(self, lane: Lane, block: LaneBlock, positions: list[int], messages: list[Message]) -> None:
        """Take messages that consumers want from a block of temporary files."""

    @abstractmethod
    def left(self, delivery: Delivery) -> None:
        """A delivery has left its consumer: settled, refused, or returned."""

    @abstractmethod
    def delay(self, delivery: Delivery) -> None:
        """A delivery awaits redelivery; the others of its group wait with it."""

    # -- consumers

    @abstractmethod
    def list_consumer(self, consumer: ConsumerBase) -> None:
        """Let a consumer take its turn."""

    @abstractmethod
    def unlist_consumer(self, consumer: ConsumerBase) -> None:
        """Remove a consumer from wherever it waits for its turn."""

    @abstractmethod
    def close(self) -> None:
        """Go back to plain dispatch."""

    # -- why

    @abstractmethod
    def held_by(self) -> int:
        """Return the gate that holds all consumers, gates.OPEN for none."""

    @abstractmethod
    def has_idle(self) -> bool:
        """Say whether a consumer has nothing to do."""

    @abstractmethod
    def has_groups_known(self) -> bool:
        """Say whether messages may wait for the owners of their groups."""

    @abstractmethod
    def reasons(self) -> SelectionReasonsBase:
        """Return the object that says why a consumer gets nothing."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PauseBase:
    """The time for which an operator has paused a queue (engine.features.pause).  by: who paused it, in words."""

    __slots__ = ("by",)

    def __init__(self, by: str) -> None:
        self.by = by

    @abstractmethod
    def rest(self, consumer: ConsumerBase) -> None:
        """Let a consumer wait, in no rotation, until the queue is resumed."""


class QueueExtras:
    """The rules, and the flags of unusual queues; none of it is read for a message of a plain queue.

    keeper: drops what a last-value or ring queue may not keep, None for any other.
    audience: of a queue that keeps acknowledged messages (non_destructive), which is choosy; None for any other.
    shares: the lanes' shares of memory, None for a view that ends soon.
    pause: None while it is not paused.
    has_choosy_settings: its settings alone make it choosy.  has_groups: its messages have groups.
    has_siblings: its consumers share, or once shared, their windows with those of other queues.
    is_watched: advisories report each hand-over or acknowledgement.  Such a queue is choosy, so others pay nothing for
    it.
    """

    __slots__ = (
        "keeper",
        "audience",
        "shares",
        "pause",
        "has_choosy_settings",
        "has_groups",
        "has_siblings",
        "is_watched",
    )

    def __init__(self, settings: AddressSettings, feed: Feed) -> None:
        self.keeper: KeepRule | None = None
        self.audience: AudienceBase | None = None
        self.shares: LaneShares | None = None
        self.pause: PauseBase | None = None
        self.is_watched = is_watched(settings)
        # A queue that only shows messages has one consumer and nothing to choose.
        self.has_choosy_settings = not feed.is_browser and (self.is_watched or _is_choosy(settings))
        self.has_groups = False
        self.has_siblings = False


def has_send_advisories(settings: AddressSettings) -> bool:
    """Say whether an advisory reports each message that is sent, or that nobody takes."""
    return settings.advisories.delivery or settings.advisories.no_consumers


def is_watched(settings: AddressSettings) -> bool:
    """Say whether an advisory reports each hand-over or each acknowledgement."""
    return settings.advisories.dispatched or settings.advisories.consumed


def is_keeping(settings: AddressSettings) -> bool:
    """Say whether such a queue drops unsettled messages."""
    policy = settings.queue
    return policy.last_value or policy.ring_size >= 0 or policy.purge_on_no_consumers


def _is_choosy(settings: AddressSettings) -> bool:
    """Say whether such a queue has a Selection, whatever its consumers are."""
    policy = settings.queue
    return (
        policy.exclusive_consumer
        or policy.strict_order_dispatch
        or policy.consumers_before_dispatch > 0
        or policy.non_destructive
        or is_keeping(settings)
        or not settings.redelivery.non_blocking_redelivery
    )
