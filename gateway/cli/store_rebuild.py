"""``penstock store rebuild``: what is derived from the log is made again."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from gateway.cli import exit_codes

if TYPE_CHECKING:
    from gateway.cli.parsers import Subparsers


def add_parser(subparsers: Subparsers, parents: list[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "rebuild",
        parents=parents,
        help="make consume queues and key index of a stopped store again",
        description="Remove everything that is derived from the log of a stopped store, and make it again.",
    )
    parser.add_argument("--config", metavar="FILE", action="append", default=[], help="for the sizes of the index")


def run(arguments: argparse.Namespace) -> int:
    from config.loader import load_config
    from engine.errors import StoreError
    from engine.store.files import RealFiles
    from engine.store.rebuild import rebuild
    from gateway.app import store_settings
    from gateway.clock import SystemClock
    from gateway.message_keys import MESSAGE_KEYS

    settings = store_settings(load_config(arguments.config))
    try:
        made = rebuild(arguments.data, RealFiles(), SystemClock(), settings, MESSAGE_KEYS)
    except StoreError as error:
        print(f"penstock: {error}", file=sys.stderr)
        return exit_codes.STORE
    if arguments.json:
        print(json.dumps({"records": made.records, "end": made.end}))
    else:
        print(f"{arguments.data}: consume queues and key index made again from {made.records} records")
    return exit_codes.OK
