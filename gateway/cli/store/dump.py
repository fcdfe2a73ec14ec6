"""``penstock store dump``: prints every record of the log, one per line."""

from __future__ import annotations

import argparse
import json
from typing import Any
from urllib.parse import urlencode

from gateway.cli.shared.http_client import fetch_long
from gateway.cli.shared.parsers import Subparsers
from gateway.process import exit_codes


def add_parser(subparsers: Subparsers, parents: list[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "dump",
        parents=parents,
        help="print the records of the log",
        description="Print every record from one log offset to another, checksums checked.",
    )
    parser.add_argument("--from", metavar="LOG-OFFSET", help="default: the oldest that is kept")
    parser.add_argument("--to", metavar="LOG-OFFSET", help="default: the durable end")


def run(arguments: argparse.Namespace) -> int:
    asked = {name: text for name in ("from", "to") if (text := getattr(arguments, name)) is not None}
    while True:
        page = _page(arguments, asked)
        for described in page["records"]:
            print(json.dumps(described) if arguments.json else _line(described))
        if not page["next_from"]:
            return exit_codes.OK
        # The end stays that of the first page, however many records come meanwhile.
        asked = {"from": str(page["next_from"]), "to": str(page["until_offset"])}


def _page(arguments: argparse.Namespace, asked: dict[str, str]) -> dict[str, Any]:
    if arguments.http is not None:
        return fetch_long(arguments, f"/api/store/dump?{urlencode(asked)}")
    from engine.store.read.reader import StoreReader
    from gateway.answers.store_dump import dump_page

    return dump_page(StoreReader(arguments.data), asked)


def _line(described: dict[str, Any]) -> str:
    shown = " ".join(f"{name}={_shown(value)}" for name, value in described.items() if name not in ("offset", "type"))
    return f"{described['offset']:>12} {described['type']:<12} {shown}"


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
