"""The catalog of a log's reader: destinations, including closed ones, and durable subscriptions.

The snapshot of the oldest kept segment covers everything before it; metadata records cover the rest.  Below the
checkpoint's consume-queue offset the system queue lists those; above it the log itself is scanned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.read.entry_files import entry_files
from engine.store.read.reader import DestinationInfo, StoreReader, first_record
from engine.store.read.segment_files import OpenSegment, SegmentFile, open_segment
from engine.store.read.store_files import open_file
from engine.values.errors import StoreCorrupt

ENTRIES_AT_ONCE: Final = 1 << 17
TYPE_AT: Final = 14  # of the record's type in an entry
KINDS: Final = (layout.DESTINATION, layout.SUBSCRIPTION, layout.CLOSE)


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """A durable subscription; ``starts``: its first entry by priority, 0 in lanes that it does not name."""

    number: int
    topic_id: int
    name: str
    description: dict[str, str]
    starts: dict[int, int]


@dataclass(frozen=True, slots=True)
class Catalog:
    """By number: every destination that has messages in the log, and the subscriptions that are open at its end.

    closed: subscriptions whose records may still be in the log.
    """

    destinations: dict[int, DestinationInfo] = field(default_factory=dict)
    subscriptions: dict[int, SubscriptionInfo] = field(default_factory=dict)
    closed: dict[int, SubscriptionInfo] = field(default_factory=dict)


def read_catalog(
    reader: StoreReader,
    stop: int | None = None,
    tail: Iterable[Record] | None = None,
    skipped: list[tuple[int, int]] | None = None,
    checks_entries: bool = False,
) -> Catalog:
    """Return the catalog as of log offset ``stop``, the reader's end unless given.

    tail: the whole records of ``KINDS`` in the part of the log without an index, if the caller has read it.
    skipped: allows damage, and receives its ranges; what is lost is taken from later snapshots.  It needs ``tail``.
    checks_entries: add destinations that the system queue lacks, by the last snapshot that it covers.
    Raises: RangeGone, StoreCorrupt.
    """
    stop = reader.end().offset if stop is None else stop
    if skipped is not None:
        return _read_damaged(reader, stop, tail or (), skipped)
    catalog = Catalog()
    first = next((each for each in reader.segments if _opens_with_snapshot(each, stop)), None)
    if first is None:
        return catalog
    start = max(first.base, min(reader.entries_offset, stop))
    snapshot = first_record(first, min(first.limit, stop), verify=True)
    if snapshot is None or snapshot.type != layout.SNAPSHOT:
        raise StoreCorrupt(f"{first.path}, position {layout.SEGMENT_HEADER_BYTES}: the segment's snapshot is missing")
    _take_snapshot(catalog, snapshot.described())
    for record_type, payload in _listed(reader, first.base, start, None):
        _take(catalog, record_type, payload)
    if checks_entries:
        _add_missing(catalog, reader.snapshot_below(start))
    for record in reader.scan(start, stop) if tail is None else tail:
        if record.type in KINDS:
            _take(catalog, record.type, record.described())
    return catalog


def _read_damaged(reader: StoreReader, stop: int, tail: Iterable[Record], skipped: list[tuple[int, int]]) -> Catalog:
    catalog = Catalog()
    first = -1
    later = Catalog()
    for segment in reader.segments:
        if not _opens_with_snapshot(segment, stop):
            continue
        try:
            snapshot = first_record(segment, min(segment.limit, stop), verify=True)
            if snapshot is None or snapshot.type != layout.SNAPSHOT:
                raise StoreCorrupt(f"{segment.path.name} does not open with a snapshot")
            _take_snapshot(catalog if first < 0 else later, snapshot.described())
        except StoreCorrupt:
            skipped.append((segment.base, segment.base + layout.ALIGNMENT))
            continue
        first = segment.base if first < 0 else first
    start = min(reader.entries_offset, stop)
    for record_type, payload in _listed(reader, max(first, 0), start, skipped):
        _take(catalog, record_type, payload)
    for record in tail:
        if record.type in KINDS:
            _take(catalog, record.type, record.described())
    for info in later.destinations.values():
        catalog.destinations.setdefault(info.destination_id, info)
    return catalog


def _opens_with_snapshot(segment: SegmentFile, stop: int) -> bool:
    # A segment sealed at its base, or not used yet, has no snapshot, nor has a continuation.
    return segment.base < min(segment.limit, stop) and not segment.is_continuation


def _add_missing(catalog: Catalog, snapshot: dict[str, Any] | None) -> None:
    """Add destinations whose entries in the system queue are damaged."""
    for described in [] if snapshot is None else snapshot["destinations"]:
        _take(catalog, layout.DESTINATION, described)


def _take_snapshot(catalog: Catalog, snapshot: dict[str, Any]) -> None:
    for described in snapshot["destinations"]:
        _take(catalog, layout.DESTINATION, described)
    for described in snapshot.get("subscriptions", []):
        _take(catalog, layout.SUBSCRIPTION, {**described, "starts": []})
        if described["is_closing"]:
            _take(catalog, layout.CLOSE, described)


def _take(catalog: Catalog, record_type: int, described: dict[str, Any]) -> None:
    number = int(described["id"])
    if record_type == layout.DESTINATION:
        info = DestinationInfo(number, int(described["kind"]), str(described["name"]))
        catalog.destinations.setdefault(number, info)
    elif record_type == layout.SUBSCRIPTION:
        starts = {int(priority): int(entry) for priority, entry, _ in described["starts"]}
        catalog.subscriptions[number] = SubscriptionInfo(
            number, int(described["topic"]), str(described["name"]), described["description"], starts
        )
    else:
        for each in [one for one in catalog.subscriptions.values() if number in (one.number, one.topic_id)]:
            catalog.closed[each.number] = catalog.subscriptions.pop(each.number)


def _listed(
    reader: StoreReader, start: int, stop: int, skipped: list[tuple[int, int]] | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (type, payload) of the records of metadata from ``start`` to ``stop`` that the system queue lists."""
    if not reader.segments:
        return
    segments = iter(reader.segments)
    segment = next(segments)
    file: OpenSegment | None = None
    try:
        for offset, size, record_type in _entries(reader, start, stop):
            if file is None or offset >= segment.limit:
                if file is not None:
                    file.close()
                while offset >= segment.limit:
                    segment = next(segments)
                file = open_segment(segment)
            if offset < segment.base:
                continue  # in a file that is missing
            record = file.record(offset)
            if record is None:
                if skipped is None:
                    raise StoreCorrupt(f"{segment.path.name}: record at log offset {offset} is damaged")
                skipped.append((offset, offset + size))
                continue
            yield record_type, record.described()
    finally:
        if file is not None:
            file.close()


def _entries(reader: StoreReader, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield (log offset, size, type) of entries of metadata in the system queue; there are few among many."""
    wanted = bytes(1 if kind in KINDS else 0 for kind in range(256))
    for file in entry_files(reader.directory, layout.SYSTEM_QUEUE, 0):
        source, position = open_file(file.path), 0
        try:
            while octets := source.pread(ENTRIES_AT_ONCE * layout.ENTRY_BYTES, position):
                position += len(octets)
                marks = octets[TYPE_AT :: layout.ENTRY_BYTES].translate(wanted)
                at = marks.find(1)
                while at >= 0 and (at + 1) * layout.ENTRY_BYTES <= len(octets):
                    entry = layout.ENTRY.unpack_from(octets, at * layout.ENTRY_BYTES)
                    if start <= entry[0] < stop:
                        yield entry[0], entry[1], entry[4]
                    at = marks.find(1, at + 1)
        finally:
            source.close()
