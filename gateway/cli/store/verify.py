"""``penstock store verify``: checks a store, also a running gateway's."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from engine.store.plain_words import counted
from gateway.cli.shared.http_client import run_task
from gateway.cli.shared.parsers import Subparsers
from gateway.process import exit_codes


def add_parser(subparsers: Subparsers, parents: list[argparse.ArgumentParser]) -> None:
    subparsers.add_parser(
        "verify",
        parents=parents,
        help="check a store",
        description="Check every file, record, reference and entry, key index included.  If a gateway "
        "has the store open, the check uses a copy as of one durable offset, made beside the store mostly of links.",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.http is not None:
        status = run_task(arguments, "verify")
        findings, summary = status["findings"], status["result"]
    else:
        findings, summary = _verify(arguments.data)
    for finding in findings:
        print(json.dumps(finding) if arguments.json else _finding(finding))
    print(json.dumps(summary) if arguments.json else _as_text(summary))
    return exit_codes.STORE if findings else exit_codes.OK


def _verify(data: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the findings, and the numbers of checked items.  Raises: NoStore, StoreError."""
    import os
    from pathlib import Path

    from engine.store.disk.directory_lock import is_held
    from engine.store.disk.files import RealFiles
    from engine.store.log.store_directory import LOCK_FILE, STORE_FILE
    from engine.store.verify.store_check import verify, verify_open
    from engine.values.errors import NoStore
    from gateway.settings.message_keys import MESSAGE_KEYS

    directory = Path(data)
    if not (directory / STORE_FILE).exists():
        raise NoStore(f"{directory} is not a store: it has no {STORE_FILE}")
    if is_held(directory / LOCK_FILE):
        os.nice(10)  # the gateway's work has priority
        result = verify_open(directory, MESSAGE_KEYS)
    else:
        result = verify(RealFiles(), str(directory), MESSAGE_KEYS)
    described = asdict(result)
    findings: list[dict[str, Any]] = described["findings"]
    return findings, {**described, "findings": len(findings)}


def _finding(finding: dict[str, Any]) -> str:
    place = finding["path"] if finding["position"] < 0 else f"{finding['path']}, position {finding['position']}"
    return f"{place}: {finding['text']}"


def _as_text(summary: dict[str, Any]) -> str:
    text = (
        f"{summary['segment_count']} segments, {summary['record_count']} records up to log offset "
        f"{summary['end_offset']}, {summary['message_count']} of them messages; {summary['entry_count']} entries of "
        f"consume queues, {summary['index_entry_count']} of the key index"
    )
    if summary["is_torn"]:
        text += "; an unfinished end that was never confirmed; the next start cuts it"
    return f"{text}: {counted(summary['findings'], 'finding')}" if summary["findings"] else f"{text}: sound"
