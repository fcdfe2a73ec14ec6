"""The records of the World's oracle: messages, queues, subscriptions, transactions, promises."""

from __future__ import annotations

from dataclasses import dataclass, field

from config.policies import AddressSettings
from engine.values.destination import SUBSCRIPTION, uri
from tests.support.world.replays import Replay


@dataclass(slots=True)
class Sent:
    """One message as its producer made it.  expires_ms: wall clock, 0 for never."""

    uid: int
    producer: int
    kind: int
    name: str
    is_persistent: bool
    priority: int
    expires_ms: int
    order: int = 0
    is_accepted: bool = False
    colour: str = ""
    group: str = ""


@dataclass(slots=True, eq=False)
class Place:
    """A message on a queue.  holder: the consumer that has it unsettled; is_held: settled in an open transaction."""

    uid: int
    failed: int = 0
    due_ms: int = 0
    is_seen: bool = False
    holder: Subscriber | None = None
    tag: int = 0
    is_held: bool = False


@dataclass(slots=True, eq=False)
class View:
    """A queue, or the queue of one topic subscription; that of a durable one has the topic's name.

    is_loose: a dead-letter queue of topics; a message may be there several times, so little is checked.
    """

    kind: int
    name: str
    settings: AddressSettings
    is_loose: bool = False
    places: dict[int, Place] = field(default_factory=dict)
    gone: dict[int, str] = field(default_factory=dict)
    delivered_first: set[int] = field(default_factory=set)
    last_order: dict[tuple[int, int, str], int] = field(default_factory=dict)

    def uri(self) -> str:
        return f"the durable subscription to {self.name}" if self.kind == SUBSCRIPTION else uri(self.kind, self.name)


@dataclass(slots=True, eq=False)
class Subscriber:
    """A subscription as the client knows it.

    ledger: messages that it has not finally settled, by tag, in order.  colours: of its selector, () for everything.
    replay: it only reads again.
    """

    view: View
    ack_mode: int
    prefetch: int
    ledger: dict[int, Place] = field(default_factory=dict)
    next_tag: int = 1
    furthest_tag: int = 0
    in_flight: int = 0
    is_full: bool = False
    is_open: bool = True
    last_order: dict[tuple[int, int, str], int] = field(default_factory=dict)
    colours: tuple[str, ...] = ()
    replay: Replay | None = None

    def limit(self) -> int:
        return max(1, self.prefetch)

    def resume_at(self) -> int:
        return self.limit() // 2 if self.view.settings.prefetch.top_up == "half" else self.limit() - 1

    def take(self) -> None:
        self.in_flight += 1
        self.is_full = self.is_full or self.in_flight >= self.limit()

    def give_back(self) -> None:
        self.in_flight -= 1
        self.is_full = self.is_full and self.in_flight > self.resume_at()

    def retake(self) -> None:
        """Count the acknowledgements of an aborted transaction again."""
        self.take()


@dataclass(slots=True, eq=False)
class CreditSubscriber(Subscriber):
    """A subscription with credit of the client itself: settling a message makes no room."""

    credit: int = 0

    def limit(self) -> int:
        return self.in_flight + self.credit

    def take(self) -> None:
        self.in_flight += 1
        self.credit -= 1

    def give_back(self) -> None:
        self.in_flight -= 1

    def retake(self) -> None:
        self.in_flight += 1


@dataclass(slots=True, eq=False)
class OpenTransaction:
    sends: list[Sent] = field(default_factory=list)
    accepted: list[Place] = field(default_factory=list)
    refused: list[Place] = field(default_factory=list)
    views: dict[int, View] = field(default_factory=dict)  # id(place) -> its queue


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that a confirmation may promise.  what: "sent", "settled", "failed", "opened"."""

    what: str
    kind: int
    name: str
    uid: int
    count: int = 0


@dataclass(slots=True)
class Committed:
    """A committed, unconfirmed transaction: a stop removes all of it or nothing."""

    sent: list[Fact]
    settled: list[Fact]
    is_confirmed: bool = False
