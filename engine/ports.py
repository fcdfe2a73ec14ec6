"""What the engine asks of the world: time, timers, workers, a durable memory.

All ABCs are open to interpreted subclasses, so that tests pass fakes in even when the engine is compiled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from engine.message import Message

# Outcomes of a settlement (design: deliveries are accepted, dead-lettered, expired or dropped).
ACKNOWLEDGED: Final = 1
DEAD_LETTERED: Final = 2
EXPIRED: Final = 3
DROPPED: Final = 4  # rejected with no dead-letter address, or discarded by a policy

OUTCOME_NAMES: Final = {
    ACKNOWLEDGED: "acknowledged",
    DEAD_LETTERED: "dead-lettered",
    EXPIRED: "expired",
    DROPPED: "dropped",
}

# Causes, of a settlement or of a failed attempt.
CAUSE_NONE: Final = 0
CAUSE_NACK: Final = 1
CAUSE_CONNECTION_LOST: Final = 2
CAUSE_EXHAUSTED: Final = 3
CAUSE_EXPIRED: Final = 4
CAUSE_DAMAGED: Final = 5  # its record cannot be read, and the operator asked to go on without it
CAUSE_REJECTED: Final = 6  # its consumer says that it can never be processed
CAUSE_NOT_SELECTED: Final = 7  # the selector of the durable subscription does not match it
CAUSE_REPLACED: Final = 8  # a newer one with the same last-value key has come
CAUSE_EVICTED: Final = 9  # more than the pending-message limit waited for a slow consumer
CAUSE_PURGED: Final = 10  # an operator emptied the queue
CAUSE_ADDRESS_FULL: Final = 11  # the address was full, and its policy is to drop
CAUSE_RETRIED: Final = 12  # moved from a dead-letter queue back to where it came from
CAUSE_ADMIN: Final = 13  # an operator removed or moved it

CAUSE_NAMES: Final = {
    CAUSE_NONE: "none",
    CAUSE_NACK: "nack",
    CAUSE_CONNECTION_LOST: "connection-lost",
    CAUSE_EXHAUSTED: "exhausted",
    CAUSE_EXPIRED: "expired",
    CAUSE_DAMAGED: "damaged",
    CAUSE_REJECTED: "rejected",
    CAUSE_NOT_SELECTED: "not-selected",
    CAUSE_REPLACED: "replaced",
    CAUSE_EVICTED: "evicted",
    CAUSE_PURGED: "purged",
    CAUSE_ADDRESS_FULL: "address-full",
    CAUSE_RETRIED: "retried",
    CAUSE_ADMIN: "admin",
}


class Clock(ABC):
    """Time, in milliseconds."""

    @abstractmethod
    def monotonic_ms(self) -> int:
        """Return a time that never goes back: for timers, delays, rates and heart-beats."""

    @abstractmethod
    def wall_ms(self) -> int:
        """Return milliseconds since the epoch: for store time and expiry."""


class TimerTarget(ABC):
    """What a timer calls."""

    @abstractmethod
    def timer_fired(self, key: int) -> None:
        """Take one due timer; ``key`` is what ``call_at`` was given."""


class Timers(ABC):
    """One-shot timers; they fire on the engine's thread, in order of time, then of their setting."""

    @abstractmethod
    def call_at(self, when_ms: int, target: TimerTarget, key: int) -> None:
        """Call ``target.timer_fired(key)`` once monotonic time has reached ``when_ms``; not to be taken back."""


class Job(ABC):
    """Work that would block: ``run`` on a worker thread, then ``finish`` on the engine's thread."""

    @abstractmethod
    def run(self) -> None:
        """Do the work, touching nothing that the engine's thread may touch meanwhile; never raises."""

    @abstractmethod
    def finish(self) -> None:
        """Hand the result over."""

    def is_short(self) -> bool:
        """Say whether the job may take less time than handing it to another thread and back."""
        return False


class Workers(ABC):
    """Threads for jobs.  Jobs of one lane run one after the other in the order they were submitted."""

    @abstractmethod
    def submit(self, job: Job, lane: int) -> None:
        """Run ``job`` soon.  lane: SYNC_LANE, READ_LANE or FILE_LANE."""


SYNC_LANE: Final = 0  # data syncs of the commit log, nothing else
READ_LANE: Final = 1  # pages of a backlog
FILE_LANE: Final = 2  # preallocation, consume-queue files, retention


class Range:
    """``count`` consecutive entries of one consume queue, from ``first`` on.

    delivery_count: attempts so far, where the range tells of failed attempts; else 0.
    """

    __slots__ = ("priority", "first", "count", "delivery_count")

    def __init__(self, priority: int, first: int, count: int, delivery_count: int = 0) -> None:
        self.priority = priority
        self.first = first
        self.count = count
        self.delivery_count = delivery_count


class LaneState:
    """What recovery knows of one consume queue: (destination, priority).

    tail: entries ever appended.  cursor: all entries below are settled.  settled: (first, count) above the cursor,
    ascending, disjoint.  attempts: queue offset -> (delivery count, wall ms before which it must wait, 0 for none).
    For a topic, cursor equals tail: entries are there for readers and later subscriptions.
    """

    __slots__ = ("priority", "tail", "cursor", "settled", "attempts")

    def __init__(
        self,
        priority: int,
        tail: int,
        cursor: int,
        settled: list[tuple[int, int]],
        attempts: dict[int, tuple[int, int]],
    ) -> None:
        self.priority = priority
        self.tail = tail
        self.cursor = cursor
        self.settled = settled
        self.attempts = attempts


class DestinationState:
    """A destination as the store knows it; ``kind`` is engine.destination.QUEUE or TOPIC."""

    __slots__ = ("destination_id", "kind", "name", "lanes")

    def __init__(self, destination_id: int, kind: int, name: str, lanes: list[LaneState]) -> None:
        self.destination_id = destination_id
        self.kind = kind
        self.name = name
        self.lanes = lanes


class StoreListener(ABC):
    """What the store tells the engine, always on the engine's thread."""

    @abstractmethod
    def durable(self, offset: int) -> None:
        """Everything below ``offset``, the store's confirmed offset, may be confirmed: see ``confirmed_offset``."""

    @abstractmethod
    def page_loaded(
        self, destination_id: int, priority: int, first: int, next_offset: int, messages: list[Message]
    ) -> None:
        """Answer one ``request``: the messages of entries ``first`` to ``next_offset`` (excluded), in order.

        Entries whose record retention has dropped are left out.  ``next_offset`` may fall short of what was asked
        for (byte limit, entries not yet written) but is above ``first`` unless nothing was there.
        """

    @abstractmethod
    def page_failed(self, destination_id: int, priority: int, first: int, reason: str) -> None:
        """The disk refused to read entry ``first``, or what stands there is damaged: ``reason`` says where.

        Nothing of the page was read: what is sound before a bad entry comes with ``page_loaded``, whose
        ``next_offset`` is then that entry, and asking for it leads here.  The engine may ask again later.
        """

    def record_skipped(self, destination_id: int, priority: int, queue_offset: int, reason: str) -> None:
        """The damaged record of an entry is left out of the page that follows, as the operator asked for.

        Told once.  Until the entry is settled as dropped it stays in its queue, and in each page it is left out.
        """
        return None

    @abstractmethod
    def store_failed(self, reason: str) -> None:
        """A write or a sync failed: nothing unconfirmed will be confirmed until ``store_healed``."""

    @abstractmethod
    def store_healed(self) -> None:
        """What was held back is on the disk again."""


class Store(ABC):
    """The engine's durable memory.  Offsets are octets from the start of the commit log.

    Everything appended between two ``write`` calls is one batch.  All methods are called on the engine's thread and
    none of them reads the disk or waits for it, except ``open_destination`` (once a destination).
    """

    @abstractmethod
    def store_id(self) -> str:
        """Return the store's name in message ids: ``ID:<store>-<offset>``."""

    @abstractmethod
    def start_count(self) -> int:
        """Return how often this store has been opened: the ``<start>`` in ids of messages that are not logged."""

    @abstractmethod
    def attach(self, listener: StoreListener) -> None:
        """Tell ``listener`` from now on."""

    @abstractmethod
    def recovered(self) -> list[DestinationState]:
        """Return what was found at opening, by ascending destination id."""

    @abstractmethod
    def open_destination(self, kind: int, name: str) -> int:
        """Return the number of a destination; its metadata record is appended if it is new."""

    @abstractmethod
    def open_consumer(self, destination_id: int, description: dict[str, str]) -> int:
        """Append the metadata record of a consumer (client id, address, subscription); return its number."""

    @abstractmethod
    def set_time(self, wall_ms: int) -> None:
        """Set the store time of what follows; a time before the last one is taken as the last one."""

    @abstractmethod
    def append(self, message: Message) -> None:
        """Add ``message`` to the batch; sets its ``log_offset``, ``queue_offset`` and ``store_time_ms``."""

    @abstractmethod
    def settle(self, destination_id: int, consumer_id: int, outcome: int, cause: int, ranges: list[Range]) -> None:
        """Add one settlement record: the entries in ``ranges`` are gone from the queue."""

    def settle_range(
        self, destination_id: int, consumer_id: int, outcome: int, cause: int, priority: int, first: int, count: int
    ) -> None:
        """Do what ``settle`` does for one range; a store may have a faster way, for it is what most turns need."""
        self.settle(destination_id, consumer_id, outcome, cause, [Range(priority, first, count)])

    @abstractmethod
    def fail_attempts(
        self, destination_id: int, consumer_id: int, cause: int, due_ms: int, ranges: list[Range]
    ) -> None:
        """Add one record of failed attempts; each range carries the delivery count so far.

        due_ms: wall clock before which they must not be delivered again, 0 for at once.
        """

    @abstractmethod
    def begin(self, reserve_bytes: int) -> None:
        """Start a transaction: what is appended until ``commit`` is recovered whole or not at all.

        reserve_bytes: at least what will be appended, see ``record_bytes``; it stays in one segment.
        """

    @abstractmethod
    def commit(self) -> None:
        """Close the transaction with its commit record."""

    @abstractmethod
    def record_bytes(self, message: Message) -> int:
        """Return the octets that ``message`` takes in the log."""

    @abstractmethod
    def settlement_bytes(self, range_count: int) -> int:
        """Return the octets that a settlement or failed attempts with that many ranges take in the log."""

    @abstractmethod
    def write(self) -> None:
        """Hand the batch to the medium in one write; on failure it is kept and ``store_failed`` is told."""

    @abstractmethod
    def sync(self) -> None:
        """Write the batch and start a data sync, unless one is under way: then both follow it."""

    @abstractmethod
    def append_offset(self) -> int:
        """Return the offset just past everything appended."""

    @abstractmethod
    def written_offset(self) -> int:
        """Return the offset just past everything handed to the medium."""

    @abstractmethod
    def durable_offset(self) -> int:
        """Return the offset below which everything survives a power cut."""

    @abstractmethod
    def confirmed_offset(self) -> int:
        """Return the offset below which confirmations may leave: durable, or written where flush is async."""

    @abstractmethod
    def is_accepting(self) -> bool:
        """Return False between ``store_failed`` and ``store_healed``."""

    def retention_reason(self) -> str:
        """Return why space that could be freed is not, "" if nothing is wrong or nothing is ever freed."""
        return ""

    @abstractmethod
    def request(self, destination_id: int, priority: int, first: int, count: int, limit_bytes: int) -> None:
        """Ask for entries that are not in memory; exactly one ``page_loaded`` or ``page_failed`` answers.

        limit_bytes: stop once the messages read add up to this; one message always fits.
        """

    @abstractmethod
    def close(self) -> None:
        """Write, sync and let go of everything; may block."""
