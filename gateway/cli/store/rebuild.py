"""``penstock store rebuild``: makes the files that are derived from the log again."""

from __future__ import annotations

import argparse
import json
from typing import Any

from gateway.cli.shared.http_client import run_task
from gateway.cli.shared.parsers import Subparsers
from gateway.process import exit_codes


def add_parser(subparsers: Subparsers, parents: list[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "rebuild",
        parents=parents,
        help="make consume queues and key index again",
        description="Make all files that are derived from the log again: of a stopped store, or with --http of a "
        "running gateway's, which continues meanwhile.",
    )
    parser.add_argument("--config", metavar="FILE", action="append", default=[], help="for the sizes of the index")


def run(arguments: argparse.Namespace) -> int:
    made = run_task(arguments, "rebuild")["result"] if arguments.http is not None else _rebuild(arguments)
    if arguments.json:
        print(json.dumps(made))
    else:
        where = arguments.data if arguments.http is None else arguments.http
        print(f"{where}: consume queues and key index made again from {made['records']} records")
    return exit_codes.OK


def _rebuild(arguments: argparse.Namespace) -> dict[str, Any]:
    """Raises: StoreLocked while a gateway has the store; StoreError."""
    from config.loader import load_config
    from engine.store.disk.files import RealFiles
    from engine.store.offline import rebuild
    from gateway.cli.shared.audited_change import audited
    from gateway.process.clock import SystemClock
    from gateway.settings.engine_settings import store_settings
    from gateway.settings.message_keys import MESSAGE_KEYS

    settings = store_settings(load_config(arguments.config))
    with audited("rebuild", f"data={arguments.data}"):
        made = rebuild(arguments.data, RealFiles(), SystemClock(), settings, MESSAGE_KEYS)
    return {"records": made.records, "end": made.end}
