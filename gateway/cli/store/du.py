"""``penstock store du``: shows what takes space, and with ``--why`` what needs it."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from engine.store.plain_words import counted, size
from gateway.answers.wording import clock_time
from gateway.cli.shared.http_client import fetch_long
from gateway.cli.shared.parsers import Subparsers
from gateway.process import exit_codes
from gateway.process.log_lines import one_line


def add_parser(subparsers: Subparsers, parents: list[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "du",
        parents=parents,
        help="show what takes space",
        description="Show the size of each segment and, with --why, which queues and subscriptions need it.",
    )
    parser.add_argument("--why", action="store_true", help="list what needs each segment; reads every pending entry")


def run(arguments: argparse.Namespace) -> int:
    space = _space(arguments)
    if arguments.json:
        for segment in space.pop("segments"):
            print(json.dumps(segment))
        print(json.dumps(space))
        return exit_codes.OK
    for segment in space["segments"]:
        print(_line(segment, space["told_why"]))
        for pin in segment["pins"]:
            held = f"{counted(pin['messages'], 'message')}, {size(pin['bytes'])}"
            print(one_line(f"    {pin['owner']}: {held}, the oldest of {clock_time(pin['oldest_ms'])}"))
        for reason in segment["reasons"]:
            print(one_line(f"    {reason}"))
    print(
        f"{space['directory']}: log {size(space['log_disk_bytes'])}, consume queues "
        f"{size(space['queue_disk_bytes'])}, key index {size(space['index_disk_bytes'])}"
    )
    return exit_codes.OK


def _space(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.http is not None:
        return fetch_long(arguments, f"/api/store/du?why={'true' if arguments.why else 'false'}", has="segments")
    from engine.store.read.reader import StoreReader
    from engine.store.space.disk_usage import space_of

    return asdict(space_of(StoreReader(arguments.data), arguments.why))


def _line(segment: dict[str, Any], tells_why: bool) -> str:
    line = f"{segment['name']}  {size(segment['disk_bytes'])} on the disk{', sparse' if segment['is_sparse'] else ''}"
    if segment["is_current"]:
        return f"{line}, in use"
    if tells_why and not segment["pins"]:
        return f"{line}, needed by nobody"
    return line
