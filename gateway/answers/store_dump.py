"""Records of the log as JSON: the same on the command line and over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.read.reader import StoreReader
from engine.store.read.records import Records
from engine.values.outcomes import CAUSE_NAMES, OUTCOME_NAMES
from gateway.answers.questions import WrongQuestion, number_in

PAGE_RECORDS: Final = 1_000
PAGE_RECORDS_MAX: Final = 10_000
PAGE_BYTES: Final = 1 << 20  # octets of records in a page; one record always fits
KNOWN: Final = ("from", "to", "limit")


def dump_page(reader: StoreReader, asked: Mapping[str, str]) -> dict[str, Any]:
    """Return records from one log offset on, and the offset of the next page, 0 after the last.

    Raises: WrongQuestion for invalid parameters, StoreError.
    """
    for name in asked:
        if name not in KNOWN:
            raise WrongQuestion(f"{name[:80]!r} is not known; allowed are {', '.join(KNOWN)}")
    end = reader.end().offset
    start = number_in(asked, "from", reader.first_offset)
    stop = number_in(asked, "to", end)
    limit = number_in(asked, "limit", PAGE_RECORDS)
    if not 1 <= limit <= PAGE_RECORDS_MAX:
        raise WrongQuestion(f"limit is {limit}; allowed is 1 to {PAGE_RECORDS_MAX}")
    records: list[dict[str, Any]] = []
    size = 0
    try:
        reader.check_range(start, stop)
    except ValueError as error:
        raise WrongQuestion(str(error)) from None
    with Records(reader) as places:
        is_exact = places.at(start) is not None  # as at the end of every previous page
    for record in reader.scan(start, stop, is_exact=is_exact):
        if len(records) >= limit or size >= PAGE_BYTES:
            return {"records": records, "next_from": record.offset, "until_offset": stop}
        records.append(describe(record))
        size += record.size
    return {"records": records, "next_from": 0, "until_offset": stop}


def describe(record: Record) -> dict[str, Any]:
    """Return the fields of a record, without the headers and body of a message (``store query`` shows them)."""
    described: dict[str, Any] = {
        "offset": record.offset,
        "type": layout.RECORD_NAMES.get(record.type, str(record.type)),
        "destination": record.destination_id,
        "sequence": record.sequence,
        "store_time_ms": record.store_time_ms,
        "flags": record.flags,
        "size": record.size,
    }
    if record.type == layout.MESSAGE:
        message = record.message()
        described |= {
            "encoding": record.encoding,
            "priority": message.priority,
            "queue_offset": message.queue_offset,
            "expires_ms": message.expires_ms,
            "annotation_bytes": message.annotation_bytes,
            "header_bytes": message.header_bytes,
            "body_bytes": message.body_bytes,
        }
    elif record.type in (layout.SETTLEMENT, layout.ATTEMPTS):
        said = record.settlement()
        is_settlement = record.type == layout.SETTLEMENT
        described |= {
            "consumer": said.consumer_id,
            "cause": CAUSE_NAMES.get(said.cause, str(said.cause)),
            "freed_bytes" if is_settlement else "due_ms": said.due_or_freed,
            "ranges": [
                {"first": first, "count": count, "priority": priority, "delivery_count": attempts}
                for priority, first, count, attempts in said.ranges
            ],
        }
        if is_settlement:
            described["outcome"] = OUTCOME_NAMES.get(said.outcome, str(said.outcome))
    elif record.type == layout.COMMIT:
        first, count = record.commit()
        described |= {"first_sequence": first, "count": count}
    else:
        described["described"] = record.described()
    return described
