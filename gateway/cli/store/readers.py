"""``penstock store readers``: shows the exports and named streams of a store, and forgets a stream that has ended."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from urllib.parse import urlencode

from gateway.answers.log_readers import reader_line
from gateway.cli.shared.http_client import authorization_of, fetch
from gateway.cli.shared.log_readers import readers_at, readers_in
from gateway.cli.shared.parsers import Subparsers
from gateway.process import exit_codes


def add_parser(subparsers: Subparsers, parents: list[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "readers",
        parents=parents,
        help="show exports and named streams, and how far behind they are",
        description="Show how far each export and each stream with a name has read the log.",
    )
    parser.add_argument("--forget", metavar="NAME", help="let retention wait no longer for the stream of this name")


def run(arguments: argparse.Namespace) -> int:
    if arguments.forget is not None:
        return _forget(arguments)
    if arguments.http is not None:
        readers = readers_at(arguments.http, authorization_of(arguments.user))
    else:
        readers = readers_in(arguments.data)
    for reader in readers:
        print(json.dumps(reader) if arguments.json else reader_line(reader))
    if not readers and not arguments.json:
        print("no export and no named stream")
    return exit_codes.OK


def _forget(arguments: argparse.Namespace) -> int:
    from engine.store.read.export_watermarks import STREAM, forget_reader

    if arguments.http is not None:
        asked = urlencode({"kind": STREAM, "reader": arguments.forget})
        fetch(arguments.http, f"/api/store/readers?{asked}", authorization_of(arguments.user), "DELETE")
    else:
        forget_reader(Path(arguments.data), True, arguments.forget)
    print(f"retention waits no longer for stream {arguments.forget!r}")
    return exit_codes.OK
