"""A recorded traffic: owners, consumers and attempts in columns, and the messages in the order of the log.

All of it is in memory: some 90 octets for each message with one delivery, so it goes to other processes as it is.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Final

from engine.values.destination import uri

# What a consumer did with a message.
WORKED: Final = 0
FAILED: Final = 1  # NACK, modified, a rollback: the policy of the address decides
REJECTED: Final = 2  # it can never be processed
LOST: Final = 3  # its connection was lost meanwhile
CLOSED: Final = 4  # it was closed in order after the application had received it
AT_ONCE: Final = 5  # as FAILED, and it could be tried again at once
ROLLED_BACK: Final = 6  # as AT_ONCE, where the address has a delay: so it was a rollback
GIVEN_UP: Final = 8  # added to one of these: the message was given up after it

ALWAYS_MS: Final = -(2**62)
NEVER_MS: Final = 2**62


@dataclass(frozen=True, slots=True)
class Owner:
    """A queue, or a durable subscription of a topic, that settles messages.  subscription: its name, "" for a queue."""

    kind: int
    name: str
    subscription: str = ""

    def label(self) -> str:
        """Return its name in reports."""
        return f"{uri(self.kind, self.name)}{' ' if self.subscription else ''}{self.subscription}"


@dataclass(slots=True)
class TracedConsumer:
    """A consumer as its settlements show it.

    owner: its place in ``Trace.owners``.  number: in the store.  name: its client id, login or address.
    from_ms, to_ms: when it was there, ALWAYS_MS and NEVER_MS where nothing speaks against it.
    services_us: how long it was busy with each of its messages, ascending.
    """

    owner: int
    number: int
    name: str
    from_ms: int
    to_ms: int
    services_us: array[int]


@dataclass(slots=True)
class Attempts:
    """One row per attempt, ordered by message and then by time.

    owners, consumers: places in ``Trace``.  kinds: WORKED and so on, perhaps with GIVEN_UP.
    ranks: place of its time among those of the consumer, which tells how heavy the message is for any consumer.
    """

    owners: array[int] = field(default_factory=lambda: array("i"))
    consumers: array[int] = field(default_factory=lambda: array("i"))
    kinds: array[int] = field(default_factory=lambda: array("b"))
    ranks: array[int] = field(default_factory=lambda: array("i"))


@dataclass(slots=True)
class Messages:
    """Messages in the order of the log.

    destinations: places in ``Trace.destinations``.  groups: hash of JMSXGroupID, 0 for none.
    firsts, counts: rows of ``Attempts``.  are_sent: False for dead letters, which the engine itself makes.
    """

    destinations: array[int] = field(default_factory=lambda: array("i"))
    offsets: array[int] = field(default_factory=lambda: array("q"))
    times_ms: array[int] = field(default_factory=lambda: array("q"))
    priorities: array[int] = field(default_factory=lambda: array("b"))
    are_sent: array[int] = field(default_factory=lambda: array("b"))
    expiries_ms: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("i"))
    groups: array[int] = field(default_factory=lambda: array("I"))
    firsts: array[int] = field(default_factory=lambda: array("q"))
    counts: array[int] = field(default_factory=lambda: array("i"))

    def __len__(self) -> int:
        return len(self.offsets)


@dataclass(slots=True)
class Ends:
    """What really happened, one row per settlement or failed attempt in the order of the log.

    waits_ms: since the message was stored, or since the start.  outcomes: those of
    engine.values.outcomes, 0 for a failed attempt.
    """

    owners: array[int] = field(default_factory=lambda: array("i"))
    times_ms: array[int] = field(default_factory=lambda: array("q"))
    waits_ms: array[int] = field(default_factory=lambda: array("q"))
    outcomes: array[int] = field(default_factory=lambda: array("b"))


@dataclass(slots=True)
class Trace:
    """destinations: kind and name.  since: by owner, the log offset from which messages are for it.

    start_ms, end_ms: times of the first message and of the last event.
    """

    destinations: list[tuple[int, str]]
    owners: list[Owner]
    since: list[int]
    consumers: list[TracedConsumer]
    attempts: Attempts
    messages: Messages
    ends: Ends
    start_ms: int
    end_ms: int

    def readers(self) -> list[list[int]]:
        """Return who gets the messages of each destination: places in ``owners``."""
        found: dict[tuple[int, str], list[int]] = {}
        for place, owner in enumerate(self.owners):
            found.setdefault((owner.kind, owner.name), []).append(place)
        return [found.get(named, []) for named in self.destinations]
