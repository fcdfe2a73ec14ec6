"""``penstock store dump``: every record of the log, one a line."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from gateway.cli import exit_codes

if TYPE_CHECKING:
    from engine.store.reader import Record
    from gateway.cli.parsers import Subparsers


def add_parser(subparsers: Subparsers, parents: list[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "dump",
        parents=parents,
        help="print the records of the log",
        description="Print every record from one log offset to another, checksums checked.",
    )
    parser.add_argument("--from", dest="start", metavar="LOG-OFFSET", type=int, help="default: the oldest that is kept")
    parser.add_argument("--to", dest="stop", metavar="LOG-OFFSET", type=int, help="default: the durable end")


def run(arguments: argparse.Namespace) -> int:
    from engine.errors import RangeGone, StoreError
    from engine.store.reader import StoreReader

    try:
        reader = StoreReader(arguments.data)
        start = reader.first_offset if arguments.start is None else arguments.start
        stop = reader.end().offset if arguments.stop is None else arguments.stop
        for record in reader.scan(start, stop):
            described = describe(record)
            print(json.dumps(described) if arguments.json else _line(described))
    except (RangeGone, ValueError) as error:
        print(f"penstock: {error}", file=sys.stderr)
        return exit_codes.FAILED
    except StoreError as error:
        print(f"penstock: {error}", file=sys.stderr)
        return exit_codes.STORE
    return exit_codes.OK


def describe(record: Record) -> dict[str, Any]:
    """Return what a record says; of a message not the parts themselves, which ``store query`` shows."""
    from engine.ports import CAUSE_NAMES, OUTCOME_NAMES
    from engine.store import format as layout

    described: dict[str, Any] = {
        "offset": record.offset,
        "type": layout.RECORD_NAMES.get(record.type, str(record.type)),
        "destination": record.destination_id,
        "sequence": record.sequence,
        "store_time_ms": record.store_time_ms,
        "flags": record.flags,
        "size": len(record.data),
    }
    payload = bytes(record.data[layout.RECORD_HEADER_BYTES :])
    if record.type == layout.MESSAGE:
        annotations, headers, body, priority, _, _, _, _, expires_ms, queue_offset = layout.MESSAGE_FIXED.unpack_from(
            payload
        )
        described |= {
            "encoding": record.encoding,
            "priority": priority,
            "queue_offset": queue_offset,
            "expires_ms": expires_ms,
            "annotation_bytes": annotations,
            "header_bytes": headers,
            "body_bytes": body,
        }
    elif record.type in (layout.SETTLEMENT, layout.ATTEMPTS):
        _, consumer, outcome, cause, _, _, due_or_freed = layout.SETTLEMENT_FIXED.unpack_from(payload)
        is_settlement = record.type == layout.SETTLEMENT
        described |= {
            "consumer": consumer,
            "cause": CAUSE_NAMES.get(cause, str(cause)),
            "freed_bytes" if is_settlement else "due_ms": due_or_freed,
            "ranges": [
                {"first": first, "count": count, "priority": priority, "delivery_count": attempts}
                for first, count, priority, _, attempts in layout.RANGE.iter_unpack(
                    payload[layout.SETTLEMENT_FIXED_BYTES :]
                )
            ],
        }
        if is_settlement:
            described["outcome"] = OUTCOME_NAMES.get(outcome, str(outcome))
    elif record.type == layout.COMMIT:
        first, count, _ = layout.COMMIT_FIXED.unpack(payload)
        described |= {"first_sequence": first, "count": count}
    else:
        described["described"] = json.loads(payload)
    return described


def _line(described: dict[str, Any]) -> str:
    shown = " ".join(f"{name}={_shown(value)}" for name, value in described.items() if name not in ("offset", "type"))
    return f"{described['offset']:>12} {described['type']:<12} {shown}"


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
