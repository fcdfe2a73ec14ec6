"""Destinations and their consume queues as the store knows them: values that cross its port."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

DELIVERY_COUNT_MAX: Final = 0xFFFF  # that a record of the log can hold


class Range:
    """``count`` consecutive entries of one consume queue, from ``first`` on.

    delivery_count: attempts so far if the range is of failed attempts; else 0.
    size_bytes: for settled entries of a queue: the sum of their messages' sizes.
    sizes: for settled entries of a durable subscription: the size of each message in turn.
    """

    __slots__ = ("priority", "first", "count", "delivery_count", "size_bytes", "sizes")

    def __init__(
        self,
        priority: int,
        first: int,
        count: int,
        delivery_count: int = 0,
        size_bytes: int = 0,
        sizes: Sequence[int] = (),
    ) -> None:
        self.priority = priority
        self.first = first
        self.count = count
        self.delivery_count = delivery_count
        self.size_bytes = size_bytes
        self.sizes = sizes


class RangeColumns(Range):
    """Several runs of one priority, as two columns of equal length: consumers that take turns settle runs of one.

    size_bytes: of all their messages.
    """

    __slots__ = ("firsts", "counts")

    def __init__(self, priority: int, firsts: list[int], counts: list[int], size_bytes: int) -> None:
        super().__init__(priority, firsts[0], sum(counts), 0, size_bytes)
        self.firsts = firsts
        self.counts = counts


def single_ranges(ranges: list[Range]) -> list[Range]:
    """Return a range of its own for each run; the first of ``RangeColumns`` carries the size of all."""
    found: list[Range] = []
    for each in ranges:
        if isinstance(each, RangeColumns):
            size_bytes = each.size_bytes
            for first, count in zip(each.firsts, each.counts, strict=True):
                found.append(Range(each.priority, first, count, 0, size_bytes))
                size_bytes = 0
        else:
            found.append(each)
    return found


@dataclass(frozen=True, slots=True)
class Attempts:
    """The failed attempts of one entry.  Times are store times: wall clock, ms.

    due_ms: the entry must not be delivered before, 0 for at once.
    first_ms, last_ms: when the first and the last attempt known here were recorded.
    cause, consumer_id: of the last one; ``Store.consumer_description`` describes the consumer.
    """

    count: int
    due_ms: int
    first_ms: int
    last_ms: int
    cause: int
    consumer_id: int

    def wait_ms(self, wall_ms: int) -> int:
        """Return how long the entry still waits: no longer than at first, though the clock may have been set back."""
        asked_ms = self.due_ms - self.last_ms
        left_ms = self.due_ms - wall_ms
        return min(left_ms, asked_ms) if asked_ms > 0 else left_ms


def waiting_from(attempts: dict[int, Attempts], wall_ms: int) -> dict[int, Attempts]:
    """Return attempts as they count from a start on: the clock may have been set back, and nothing waits longer."""
    late = [(offset, one) for offset, one in attempts.items() if one.due_ms - wall_ms > one.wait_ms(wall_ms)]
    if not late:
        return attempts
    return {**attempts, **{offset: replace(one, due_ms=wall_ms + one.wait_ms(wall_ms)) for offset, one in late}}


# What ``Store.seek`` looks for in the consume queues of a destination.
SEEK_ENTRY: Final = 1  # a queue offset
SEEK_TIME: Final = 2  # a store time: the first entry that is not older
SEEK_LOG: Final = 3  # a log offset: the first entry that does not lie before it


class LanePlace:
    """Where something begins in one consume queue.  first: that entry; kept: the oldest entry with a record."""

    __slots__ = ("priority", "first", "kept")

    def __init__(self, priority: int, first: int, kept: int) -> None:
        self.priority = priority
        self.first = first
        self.kept = kept


class LaneState:
    """One consume queue as the store knows it: (destination, priority), or how far a subscription is in it.

    tail: entries ever appended.  cursor: all entries below are settled.  settled: (first, count) above the cursor,
    ascending, disjoint.  attempts: by queue offset.
    For a topic, cursor equals tail: its entries serve readers and subscriptions.
    """

    __slots__ = ("priority", "tail", "cursor", "settled", "attempts")

    def __init__(
        self, priority: int, tail: int, cursor: int, settled: list[tuple[int, int]], attempts: dict[int, Attempts]
    ) -> None:
        self.priority = priority
        self.tail = tail
        self.cursor = cursor
        self.settled = settled
        self.attempts = attempts

    def waiting_runs(self) -> list[tuple[int, int]]:
        """Return (first, end) of all unsettled runs, ascending."""
        runs: list[tuple[int, int]] = []
        first = self.cursor
        for settled, count in self.settled:
            if settled > first:
                runs.append((first, settled))
            first = settled + count
        if first < self.tail:
            runs.append((first, self.tail))
        return runs


NEVER_MS: Final = 1 << 62  # after every wall-clock time


class Entry:
    """One entry of a consume queue.  size_bytes: of its message."""

    __slots__ = ("offset", "size_bytes")

    def __init__(self, offset: int, size_bytes: int) -> None:
        self.offset = offset
        self.size_bytes = size_bytes


class EntryColumns:
    """Some consecutive entries of one consume queue, one column a field; the first one is entry ``first``.

    places: log offsets, 0 if the record is gone.  sizes: of the messages.  tags: tag hashes.
    """

    __slots__ = ("first", "places", "sizes", "tags", "expiries")

    def __init__(self, first: int) -> None:
        self.first = first
        self.places = array("Q")
        self.sizes = array("I")
        self.tags = array("I")
        self.expiries = array("q")


class DestinationState:
    """A destination as the store knows it; ``kind`` is engine.values.destination.QUEUE, TOPIC or SUBSCRIPTION.

    live_bytes: the sizes of all messages that were appended and are not settled.  A topic's message is settled once
    every durable subscription that was open at its append has settled it or is closed; a topic without durable
    subscriptions has 0.  Messages appended before a subscription was opened do not count for it, even if it starts
    there.  The sum follows from the log alone, record by record, so after any kind of stop it is that of the records
    that were recovered.  (Messages that only a closed subscription had not settled leave the sum soon after, when a
    worker has looked up their sizes.)
    topic_id, description: of a durable subscription, as it was opened; its ``lanes`` have the topic's tails.
    """

    __slots__ = ("destination_id", "kind", "name", "lanes", "live_bytes", "topic_id", "description")

    def __init__(
        self,
        destination_id: int,
        kind: int,
        name: str,
        lanes: list[LaneState],
        live_bytes: int = 0,
        topic_id: int = 0,
        description: dict[str, str] | None = None,
    ) -> None:
        self.destination_id = destination_id
        self.kind = kind
        self.name = name
        self.lanes = lanes
        self.live_bytes = live_bytes
        self.topic_id = topic_id
        self.description = {} if description is None else description


def expired_entries(columns: EntryColumns, wall_ms: int) -> tuple[list[Entry], int]:
    """Return the entries that have expired at ``wall_ms``, and the earliest expiry of the others, NEVER_MS for none.

    Entries whose record is gone are left out.
    """
    expired: list[Entry] = []
    next_ms = NEVER_MS
    for index, expires_ms in enumerate(columns.expiries):
        if expires_ms <= 0 or not columns.places[index]:
            continue
        if expires_ms <= wall_ms:
            expired.append(Entry(columns.first + index, columns.sizes[index]))
        elif expires_ms < next_ms:
            next_ms = expires_ms
    return expired, next_ms
