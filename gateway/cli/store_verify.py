"""``penstock store verify``: whether a stopped store is sound."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from gateway.cli import exit_codes

if TYPE_CHECKING:
    from engine.store.verify import Verification
    from gateway.cli.parsers import Subparsers


def add_parser(subparsers: Subparsers, parents: list[argparse.ArgumentParser]) -> None:
    subparsers.add_parser(
        "verify",
        parents=parents,
        help="check a stopped store",
        description="Go through every file, record, reference and entry of a store that no gateway has open.",
    )


def run(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from engine.store.files import RealFiles
    from engine.store.reader import is_held
    from engine.store.store_directory import LOCK_FILE, STORE_FILE
    from engine.store.verify import verify

    directory = Path(arguments.data)
    if not (directory / STORE_FILE).exists():
        print(f"penstock: {directory} is not a store: it has no {STORE_FILE}", file=sys.stderr)
        return exit_codes.FAILED
    if is_held(directory / LOCK_FILE):
        print(f"penstock: {directory} is in use by a gateway; stop it first", file=sys.stderr)
        return exit_codes.STORE
    result = verify(RealFiles(), str(directory))
    for finding in result.findings:
        print(json.dumps(asdict(finding)) if arguments.json else finding)
    print(_as_json(result) if arguments.json else _as_text(result))
    return exit_codes.STORE if result.findings else exit_codes.OK


def _as_text(result: Verification) -> str:
    text = (
        f"{result.segment_count} segments, {result.record_count} records up to log offset {result.end_offset}, "
        f"{result.message_count} of them messages; {result.entry_count} entries of consume queues"
    )
    if result.is_torn:
        text += "; an unfinished end, which was never confirmed and which the next start cuts"
    return f"{text}: {len(result.findings)} findings" if result.findings else f"{text}: sound"


def _as_json(result: Verification) -> str:
    described = asdict(result)
    described["findings"] = len(result.findings)
    return json.dumps(described)
