"""``penstock stat``: destinations with their depths and rates, as a table."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from time import sleep
from typing import Any, Final

from gateway.answers.log_readers import reader_line
from gateway.cli.shared.http_client import HttpError, add_http_arguments, authorization_of, fetch
from gateway.cli.shared.log_readers import readers_at
from gateway.cli.shared.parsers import Subparsers, add_command, add_json_argument
from gateway.process import exit_codes
from gateway.process.log_lines import one_line

WATCH_INTERVAL_S: Final = 1.0
LATE_READERS_MOST: Final = 20  # that are shown; ``store readers`` shows all

_CLEAR_SCREEN: Final = "\x1b[H\x1b[2J"

# Title and key; a key with a dot is one of the rates, in messages per second.
_COLUMNS: Final = (
    ("DEPTH", "depth"),
    ("IN-FLIGHT", "in_flight"),
    ("DELAYED", "delayed"),
    ("CONSUMERS", "consumers"),
    ("IN/s", "rates.enqueued"),
    ("OUT/s", "rates.delivered"),
    ("ACK/s", "rates.acknowledged"),
    ("ENQUEUED", "enqueued"),
    ("ACKNOWLEDGED", "acknowledged"),
    ("REDELIVERED", "redelivered"),
    ("DEAD", "dead_lettered"),
    ("EXPIRED", "expired"),
)


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "stat", "show destinations, depth, in-flight and rates", None)
    parser.add_argument("--watch", action="store_true", help="show it again every second until interrupted")
    add_http_arguments(parser)
    add_json_argument(parser, "print one JSON document, one per line with --watch")


def run(arguments: argparse.Namespace) -> int:
    authorization = authorization_of(arguments.user)
    while True:
        document = fetch_stat(arguments.http, authorization)
        if arguments.json:
            print(json.dumps(document), flush=True)
        else:
            is_screen = arguments.watch and sys.stdout.isatty()
            lines = [table(document), *_late_readers(arguments.http, authorization)]
            print((_CLEAR_SCREEN if is_screen else "") + "\n".join(lines), flush=True)
        if not arguments.watch:
            return exit_codes.OK
        sleep(WATCH_INTERVAL_S)


def fetch_stat(url: str, authorization: str | None) -> dict[str, Any]:
    """Return the document of ``/api/stat``.  Raises: HttpError."""
    return fetch(url, "/api/stat", authorization, has="destinations")


def _late_readers(url: str, authorization: str | None) -> list[str]:
    """Return a line for each export and named stream that is behind; none if the gateway cannot say."""
    try:
        readers = readers_at(url, authorization)
    except HttpError:
        return []
    late = [one_line(reader_line(each)) for each in readers if each["lag_bytes"]]
    return late[:LATE_READERS_MOST] + ["..."] * (len(late) > LATE_READERS_MOST)


def table(document: dict[str, Any]) -> str:
    """Return the document as text."""
    rows = [["DESTINATION", *(title for title, _ in _COLUMNS)]]
    for destination in sorted(document["destinations"], key=lambda each: (each["kind"], each["name"])):
        rows.append(
            [
                one_line(f"{destination['kind']}://{destination['name']}"),
                *(_cell(destination, key) for _, key in _COLUMNS),
            ]
        )
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [
        " ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    mebibyte = 1024 * 1024
    lines.append("")
    lines.append(
        f"connections {document['connections']}, consumers {len(document['consumers'])}, "
        f"memory {document['memory_bytes'] / mebibyte:.1f} of {document['memory_limit_bytes'] / mebibyte:.0f} MiB"
    )
    schedule = document["schedule"]
    if schedule["pending"]:
        lines.append(f"scheduled {schedule['pending']}, the next one for {_utc(schedule['next_due_ms'])}")
        if schedule["late"]:
            lines[-1] += f"; {schedule['late']} are past due"
        if schedule["held"]:
            lines[-1] += f", {schedule['held']} held back: {schedule['held_by']}"
        if schedule["aside"]:
            lines[-1] += f", {schedule['aside']} cannot be fired: {schedule['aside_reason']}"
    branches = document["branches"]
    if branches["prepared"]:
        lines.append(f"prepared transactions {branches['prepared']}, the oldest since {_utc(branches['oldest_ms'])}")
    store = document["store"]
    if not store["is_accepting"]:
        lines.append(f"STORE NOT ACCEPTING: {store['reason']}")
    elif store["reason"]:
        lines.append(f"STORE: {store['reason']}")
    if store["retention"]:
        lines.append(f"RETENTION: {store['retention']}")
    lines.extend(
        f"blocked: connection {blocked['connection_id']} for {blocked['waited_ms'] / 1000:.1f} s: {blocked['reason']}"
        for blocked in document["blocked_producers"]
    )
    lines.extend(_address_line(address) for address in document["addresses"] if address["is_full"])
    lines.extend(f"paused: {one['kind']}://{one['name']}" for one in document["destinations"] if one["is_paused"])
    lines.extend(
        f"slow: consumer {consumer['consumer_id']} of {consumer['destination']}, {consumer['in_flight']} in flight"
        for consumer in document["consumers"]
        if consumer["is_slow"]
    )
    return "\n".join(map(one_line, lines))


def _address_line(address: dict[str, Any]) -> str:
    parts = [
        f"{address[f'used_{what}']} of {address[f'limit_{what}']} {word}"
        for what, word in (("bytes", "octets"), ("messages", "messages"))
        if address[f"limit_{what}"] >= 0
    ]
    return f"full: {address['address']} ({address['policy']}): {', '.join(parts)}"


def _utc(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _cell(destination: dict[str, Any], key: str) -> str:
    if not key.startswith("rates."):
        return str(destination[key])
    rates = destination["rates"]
    return "-" if rates is None else f"{rates[key.removeprefix('rates.')]:.0f}"
