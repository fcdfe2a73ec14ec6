"""``penstock store backup``: copies a store, also a running gateway's."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gateway.cli.shared.http_client import fetch_long
from gateway.cli.shared.parsers import Subparsers
from gateway.process import exit_codes


def add_parser(subparsers: Subparsers, parents: list[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "backup",
        parents=parents,
        help="copy a store, also a running gateway's",
        description="Copy everything that is durable now.  On the same file system full segments are hard links.  To "
        "restore, copy the directory to where a gateway is to have its data, and start the gateway.",
    )
    parser.add_argument("directory", metavar="DIR", help="the target directory; must be empty or missing")


def run(arguments: argparse.Namespace) -> int:
    made = _back_up(arguments)
    if arguments.json:
        print(json.dumps(made))
    else:
        print(
            f"{made['directory']}: everything up to log offset {made['until_offset']}; {made['linked_files']} files "
            f"linked, {made['copied_files']} copied, {made['copied_bytes'] / 1024 / 1024:.1f} MiB"
        )
    return exit_codes.OK


def _back_up(arguments: argparse.Namespace) -> dict[str, Any]:
    target = os.path.abspath(arguments.directory)  # the gateway may have another working directory
    if arguments.http is not None:
        return fetch_long(arguments, "/api/store/backup", "POST", {"directory": target}, has="directory")
    from engine.store.read.backup import back_up
    from engine.values.errors import StoreError

    try:
        return asdict(back_up(Path(arguments.data), Path(target)))
    except OSError as error:
        raise StoreError(str(error)) from error
