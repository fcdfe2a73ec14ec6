"""The engine's durable memory as a port, and the listener that the store calls back.

Each port extends the one before it, so a part can ask for as little as it needs.  They form a chain of classes instead
of mypyc traits because interpreted fakes cannot derive from a trait (docs/decisions/0017).
"""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from engine.values.message import Message
from engine.values.stored import DestinationState, Entry, EntryColumns, LanePlace, Range


@mypyc_attr(allow_interpreted_subclasses=True)
class StoreListener:
    """The engine as the store calls it, on the engine's thread unless a method says otherwise."""

    @abstractmethod
    def durable(self, offset: int) -> None:
        """Everything below ``offset`` may be confirmed.  ``offset``: the store's ``confirmed_offset``."""

    def is_awaited(self, reader: int) -> bool:
        """Say whether ``reader`` is still there: reads for readers that have gone need not be made.

        It may be asked on any thread.  The numbers of readers that have gone are not used again.
        """
        return True

    @abstractmethod
    def page_loaded(
        self, destination_id: int, priority: int, first: int, next_offset: int, messages: list[Message], reader: int = 0
    ) -> None:
        """Answer one ``request``: the messages of entries ``first`` to ``next_offset`` (excluded), in order.

        reader: the number that was given to ``request``.

        Entries whose record retention has dropped are left out.  ``next_offset`` may be lower than requested (byte
        limit, entries not yet written), but it is above ``first`` unless nothing was there.
        """

    @abstractmethod
    def page_failed(self, destination_id: int, priority: int, first: int, reason: str, reader: int = 0) -> None:
        """The disk refused to read entry ``first``, or the entry is damaged; ``reason`` says where.

        Nothing of the page was read.  Sound entries before a damaged one arrive by ``page_loaded``, with the damaged
        entry as ``next_offset``; a request for that entry then ends here.  The engine may ask again later.
        """

    def record_skipped(
        self, destination_id: int, priority: int, queue_offset: int, size_bytes: int, reason: str, reader: int = 0
    ) -> None:
        """The damaged record of an entry is left out of the page that follows, as the operator has allowed.

        Reader 0 is notified once; other readers are notified with each page that lacks the record.  The entry stays in
        its queue until it is settled as dropped.  size_bytes: size of the message, as its entry says.
        """
        return None

    def expired_found(
        self, destination_id: int, priority: int, first: int, next_offset: int, expired: list[Entry], next_ms: int
    ) -> None:
        """Answer one ``look_for_expired``: which of the entries ``first`` to ``next_offset`` (excluded) have expired.

        next_offset: ``first`` if the disk could not be read.
        next_ms: the earliest expiry of the other entries, NEVER_MS if none of them expires.
        """
        return None

    def sought(self, reader: int, log_start: int, places: list[LanePlace]) -> None:
        """Answer one ``seek``.  log_start: where the log begins now.  places: one for each lane that exists."""
        return None

    def seek_failed(self, reader: int, reason: str) -> None:
        """The disk could not be read; the engine may ask again later."""
        return None

    @abstractmethod
    def store_failed(self, reason: str) -> None:
        """A write or a sync failed.  Nothing more is confirmed until ``store_healed``."""

    @abstractmethod
    def store_healed(self) -> None:
        """The disk works again: everything held back has been written."""


@mypyc_attr(allow_interpreted_subclasses=True)
class StoreCatalog:
    """Destinations, durable subscriptions and consumers, and their numbers."""

    @abstractmethod
    def store_id(self) -> str:
        """Return the store's name in message ids: ``ID:<store>-<offset>``."""

    @abstractmethod
    def start_count(self) -> int:
        """Return how often this store has been opened: the ``<start>`` in ids of messages that are not logged."""

    @abstractmethod
    def recovered(self) -> list[DestinationState]:
        """Return what was found at opening, by ascending destination id."""

    @abstractmethod
    def open_destination(self, kind: int, name: str) -> int:
        """Return the number of a destination; its metadata record is appended if it is new."""

    @abstractmethod
    def open_subscription(
        self, topic_id: int, name: str, description: dict[str, str], starts: dict[int, int] | None = None
    ) -> int:
        """Append the metadata record of a new durable subscription; return its number.

        Destinations and subscriptions share one sequence of numbers.  The subscription begins behind everything
        appended so far.  ``starts`` names another queue offset for some priorities; 0 means all that is kept.  Its
        entries are the topic's: ``settle`` and ``fail_attempts`` take the subscription's number with the topic's queue
        offsets, ``request`` takes the topic's number.  It is durable once the offset after its record is durable.  With
        ``starts`` the disk may be read.

        Raises: StoreError when the disk cannot be read.
        """

    @abstractmethod
    def close_destination(self, number: int) -> None:
        """End a durable subscription, a queue, or a topic with its subscriptions; a later start does not find it.

        Its entries no longer hold space.  Its number is never reused; its name may be opened anew.
        """

    @abstractmethod
    def state_of(self, number: int) -> DestinationState:
        """Return what ``recovered`` would now return for an open destination or durable subscription."""

    @abstractmethod
    def live_bytes(self, number: int) -> int:
        """Return ``DestinationState.live_bytes`` as it is now, 0 for a number that is not open."""

    @abstractmethod
    def open_consumer(self, destination_id: int, description: dict[str, str]) -> int:
        """Append the metadata record of a consumer (client id, address, subscription); return its number."""

    @abstractmethod
    def close_consumer(self, number: int) -> None:
        """Close a consumer: no new record names it.  Its description is kept while failed attempts name it."""

    @abstractmethod
    def consumer_description(self, number: int) -> dict[str, str]:
        """Return the description of a consumer that is open or that failed attempts name; {} for any other."""


@mypyc_attr(allow_interpreted_subclasses=True)
class StoreRecords(StoreCatalog):
    """Events of messages, as records of the log.  All of it between two ``write`` calls is one batch."""

    @abstractmethod
    def set_time(self, wall_ms: int) -> None:
        """Set the store time of the records that follow; it never goes back: an earlier time is ignored."""

    @abstractmethod
    def append(self, message: Message) -> None:
        """Add ``message`` to the batch; sets its ``log_offset``, ``queue_offset`` and ``store_time_ms``."""

    @abstractmethod
    def settle(self, destination_id: int, consumer_id: int, outcome: int, cause: int, ranges: list[Range]) -> None:
        """Add one settlement record: the entries in ``ranges`` are gone from the queue or durable subscription.

        None of them has been settled before.  For a queue each range carries its ``size_bytes``, for a subscription its
        ``sizes``; ``DestinationState.live_bytes`` is computed from them.
        ranges: not empty; for a queue it may be a single ``RangeColumns``.  The caller may reuse the values.
        """

    @abstractmethod
    def fail_attempts(
        self, destination_id: int, consumer_id: int, cause: int, due_ms: int, ranges: list[Range]
    ) -> None:
        """Add one record of failed attempts; each range carries the delivery count so far.

        due_ms: wall clock before which they must not be delivered again, 0 for none.
        """

    @abstractmethod
    def begin(self) -> None:
        """Start a transaction: what is appended until ``commit`` is recovered whole or not at all."""

    @abstractmethod
    def commit(self) -> None:
        """Close the transaction with its commit record."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Store(StoreRecords):
    """The engine's durable memory, whole: for the part that opens and closes it.

    All methods are called on the engine's thread.  None of them reads the disk or waits for it, except
    ``open_destination`` (once per destination) and ``open_subscription`` with an earlier start.
    """

    # -- progress of the log; offsets are octets from its start

    @abstractmethod
    def write(self) -> None:
        """Hand the batch to the medium in one write.  On failure the batch is kept and ``store_failed`` is called."""

    @abstractmethod
    def sync(self) -> None:
        """Write the batch and start a data sync.  If a sync is running, both follow it."""

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
        """Return the offset below which confirmations may leave: durable, or written if flush is async."""

    @abstractmethod
    def is_accepting(self) -> bool:
        """Return False between ``store_failed`` and ``store_healed``."""

    # -- reads; all answers except those of ``entries`` and ``read_messages`` come to the ``StoreListener``

    @abstractmethod
    def request(
        self, destination_id: int, priority: int, first: int, count: int, limit_bytes: int, reader: int = 0
    ) -> None:
        """Ask for entries that are not in memory; exactly one ``page_loaded`` or ``page_failed`` answers.

        limit_bytes: stop once the messages read add up to this; one message is always read.
        reader: the number of the reader, chosen by the engine and returned in the answer; 0 is the queue itself.
        Several readers may have requests under way for the same lane; they are answered in order.
        """

    @abstractmethod
    def look_for_expired(self, destination_id: int, priority: int, first: int, count: int, wall_ms: int) -> None:
        """Ask which entries have expired at ``wall_ms``, settled or not; exactly one ``expired_found`` answers.

        Their records are not read.
        """

    @abstractmethod
    def seek(self, destination_id: int, what: int, value: int, reader: int) -> None:
        """Find where ``value`` lies in each lane of a destination; exactly one ``sought`` or ``seek_failed`` answers.

        what: SEEK_ENTRY, SEEK_TIME or SEEK_LOG.  For a lane that holds no such entry the answer is its tail.
        """

    @abstractmethod
    def entries(self, destination_id: int, priority: int, first: int, count: int) -> EntryColumns:
        """Return entries of a queue that recovery found.  Only used at the start, as it may read the disk.

        Raises: StoreError when the disk cannot be read.
        """

    @abstractmethod
    def read_messages(self, destination_id: int, priority: int, first: int, count: int) -> list[Message]:
        """Return the messages of entries that recovery found, without those whose record is gone.

        Only used at the start, as it reads the disk.  Raises: StoreError when the disk cannot be read, or a record is
        damaged and damaged records are not skipped.
        """

    # -- its begin and end

    @abstractmethod
    def attach(self, listener: StoreListener) -> None:
        """Report to ``listener`` from now on."""

    @abstractmethod
    def close(self) -> None:
        """Write, sync and release everything; may block."""

    def log_disk_bytes(self) -> int:
        """Return the size of the log's files, 0 if it has none.  It looks at each of them, so ask rarely."""
        return 0

    def retention_reason(self) -> str:
        """Return why reclaimable space is not freed; "" if nothing is wrong or nothing is ever freed."""
        return ""

    def retention_hold(self) -> str:
        """Return the export that keeps otherwise reclaimable space; "" for none."""
        return ""
