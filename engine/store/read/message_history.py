"""The life of one message according to the log: sent, failed, settled, moved, each with time, cause and consumer.

Hand-overs are not logged (dispatches write nothing), so the present holder of a message is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from engine.store.format import layout
from engine.store.format.record import Record, Settlement
from engine.store.read.catalog import read_catalog
from engine.store.read.entry_files import entries_in, entry_files
from engine.store.read.reader import StoreReader, scan_piece
from engine.store.read.records import Records, UnknownMessage, offset_of
from engine.store.read.segment_files import SegmentFile
from engine.values.destination import QUEUE, uri
from engine.values.message import (
    DEAD_LETTER,
    IN_TRANSACTION,
    JOB_ID,
    PERSISTENT,
    SCHEDULED,
    annotation,
    split_annotations,
)
from engine.values.outcomes import (
    CAUSE_FIRED,
    CAUSE_NAMES,
    CAUSE_RETRIED,
    DEAD_LETTERED,
    DROPPED,
    EXPIRED,
    OUTCOME_NAMES,
)

SENT: Final = "sent"
FAILED: Final = "failed"
SETTLED: Final = "settled"

_EVENT_TYPES: Final = (layout.SETTLEMENT, layout.ATTEMPTS)
_MOVING: Final = (DEAD_LETTERED, EXPIRED, DROPPED)
_ORIGINS: Final = ("originalMessageId", "dlqRetriedMessageId", JOB_ID)


@dataclass(frozen=True, slots=True)
class Event:
    """kind: SENT, FAILED or SETTLED.  owner: the queue or subscription in which it happened, as a URI or its name.

    outcome, cause: engine.ports' words.  count: failed attempts so far.  due_ms: wall clock before which a failed one
    waits, 0 for none; of one that fired and repeats, when it is due again.
    consumer: what its metadata record says (client id, address, login, subscription).
    moved_to: id of the new messageif the old one was moved.
    """

    kind: str
    time_ms: int
    offset: int
    owner: str
    outcome: str = ""
    cause: str = ""
    count: int = 0
    due_ms: int = 0
    consumer: dict[str, str] = field(default_factory=dict)
    moved_to: str = ""


@dataclass(frozen=True, slots=True)
class Biography:
    """One message.  annotations: headers that the broker added, such as a dead letter's origin; headers: the sender's.

    is_scheduled: it waits, or has waited, for its time; ``expires_ms`` is then its first due time.
    queue_offset: index of its entry in the consume queue of (destination, priority).
    until_ms: store time up to which the log could be read.
    """

    message_id: str
    destination: str
    is_persistent: bool
    is_dead_letter: bool
    is_scheduled: bool
    priority: int
    queue_offset: int
    expires_ms: int
    size_bytes: int
    annotations: list[tuple[str, str]]
    events: list[Event]
    until_ms: int


def entry_of(life: Biography) -> tuple[str, str, int, int]:
    """Return the kind and name of its destination, its priority and its queue offset."""
    kind, _, name = life.destination.partition("://")
    return kind, name, life.priority, life.queue_offset


def biography(reader: StoreReader, message_id: str) -> Biography:
    """Return the message's life according to the log.  Raises: UnknownMessage, RangeGone, StoreCorrupt."""
    offset = offset_of(message_id, reader.store_id)
    with Records(reader) as records:
        return _biography(reader, records, message_id, offset)


def _biography(reader: StoreReader, records: Records, message_id: str, offset: int) -> Biography:
    message = records.message(offset)
    parts = message.message()
    owners = _owners(reader, message.destination_id)
    destination = owners[message.destination_id]
    events = [Event(SENT, message.store_time_ms, offset, destination)]
    consumers: dict[int, dict[str, str]] = {}
    for record in _records_about(reader, records, offset, owners):
        if record.type == layout.CONSUMER:
            described = record.described()
            consumers[int(described.get("id", 0))] = _texts(described)
            continue
        event = _event(reader, record, (parts.priority, parts.queue_offset), message_id, owners, consumers)
        if event is not None:
            events.append(event)
    return Biography(
        f"ID:{reader.store_id}-{offset}",
        destination,
        bool(message.flags & PERSISTENT),
        bool(message.flags & DEAD_LETTER),
        bool(message.flags & SCHEDULED),
        parts.priority,
        parts.queue_offset,
        parts.expires_ms,
        parts.size(),
        split_annotations(parts.annotations().decode("utf-8", "replace").encode()),
        events,
        reader.end().time_ms,
    )


def _segment_of(reader: StoreReader, offset: int) -> SegmentFile:
    found = [segment for segment in reader.segments if segment.base <= offset < segment.limit]
    if not found:
        raise UnknownMessage(f"no message is at log offset {offset}: the log has a hole there")
    return found[-1]


def _owners(reader: StoreReader, destination_id: int) -> dict[int, str]:
    """Return by number the destination itself and its subscriptions, which may settle its entries."""
    catalog = read_catalog(reader)
    info = catalog.destinations.get(destination_id)
    owners = {destination_id: uri(QUEUE, f"#{destination_id}") if info is None else uri(info.kind, info.name)}
    for subscription in catalog.subscriptions.values():
        if subscription.topic_id == destination_id:
            owners[subscription.number] = subscription.name
    return owners


def _records_about(reader: StoreReader, records: Records, offset: int, owners: dict[int, str]) -> Iterator[Record]:
    """Yield the records of these owners in log order: all their consumers, and events behind ``offset``.

    Listed records may have been removed from their segment, if they concerned messages that are gone.
    """
    end = reader.end().offset
    listed = min(reader.entries_offset, end)
    limit = 0
    for at in _listed(reader, offset, listed, owners):
        if at >= limit:  # they ascend, so at most one segment's file is open
            records.close()
            limit = _segment_of(reader, at).limit
        listed_record = records.at(at)
        if listed_record is not None:
            yield listed_record
    for record in reader.scan(listed, end):
        if record.destination_id in owners and _concerns(record.type, record.offset, offset):
            yield record


def _listed(reader: StoreReader, offset: int, stop: int, owners: dict[int, str]) -> Iterator[int]:
    """Yield the log offsets that the system queue lists, without scanning the log."""
    first = reader.first_offset
    for file in entry_files(reader.directory, layout.SYSTEM_QUEUE, 0):
        for _, (at, _, _, _, kind, _, owner, *_) in entries_in(file):
            if at >= stop:
                return
            if owner in owners and at >= first and _concerns(kind, at, offset):
                yield at


def _concerns(record_type: int, at: int, offset: int) -> bool:
    return record_type == layout.CONSUMER or (record_type in _EVENT_TYPES and at > offset)


def _event(
    reader: StoreReader,
    record: Record,
    entry: tuple[int, int],
    message_id: str,
    owners: dict[int, str],
    consumers: dict[int, dict[str, str]],
) -> Event | None:
    """Return the event that the record describes for the entry (priority, queue offset), None if it is about others."""
    said = record.settlement()
    attempts = _attempts_of(said, entry)
    if attempts is None:
        return None
    is_settlement = record.type == layout.SETTLEMENT
    is_moving = said.cause == CAUSE_FIRED or (
        is_settlement and (said.outcome in _MOVING or said.cause == CAUSE_RETRIED)
    )
    return Event(
        SETTLED if is_settlement else FAILED,
        record.store_time_ms,
        record.offset,
        owners[record.destination_id],
        OUTCOME_NAMES.get(said.outcome, str(said.outcome)) if is_settlement else "",
        CAUSE_NAMES.get(said.cause, str(said.cause)),
        attempts,
        0 if is_settlement else said.due_or_freed,
        consumers.get(said.consumer_id, {}),
        _moved_to(reader, record, message_id) if is_moving else "",
    )


def _attempts_of(said: Settlement, entry: tuple[int, int]) -> int | None:
    """Return the delivery count that the record gives the entry, None if it is about others."""
    for priority, first, count, attempts in said.ranges:
        if priority == entry[0] and first <= entry[1] < first + count:
            return attempts
    return None


def _moved_to(reader: StoreReader, settlement: Record, message_id: str) -> str:
    """Return the id of the message that replaced this one, "" for none; both are in one batch of the log."""
    origins = [annotation(name, message_id) for name in _ORIGINS]
    segment = _segment_of(reader, settlement.offset)
    moved = ""
    for record in scan_piece(segment, segment.base, settlement.offset):
        if record.type == layout.MESSAGE and record.flags & IN_TRANSACTION:
            added = record.message().annotations()
            if any(origin in added for origin in origins):
                moved = f"ID:{reader.store_id}-{record.offset}"
    return moved


def _texts(described: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in described.items() if isinstance(value, str) and value}
