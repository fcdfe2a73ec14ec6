"""``penstock export``: destinations to Parquet with Spark, without a connection to the gateway."""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine.store.plain_words import counted
from gateway.answers.wording import clock_time
from gateway.process import exit_codes

if TYPE_CHECKING:
    from gateway.cli.shared.parsers import Subparsers
    from spark_bridge.export import Result

URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
LEASE_MAX_MS: Final = 7 * 24 * 3_600_000
NEEDS_SPARK: Final = "penstock export needs Spark: pip install 'penstock[spark]' (missing: {})"


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "export",
        help="export destinations to Parquet",
        description="Add every persistent message that is new since the last export to a directory of Parquet files, "
        "partitioned by destination and date. Reads the store's files, also while a gateway runs; takes no message "
        "from any consumer.",
        epilog=exit_codes.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", metavar="DIR", default="data", help="directory of the store (default: %(default)s)")
    parser.add_argument(
        "--destination", metavar="PATTERN", required=True, help="for example orders.eu, 'orders.>', 'queue://orders.*'"
    )
    parser.add_argument(
        "--to", metavar="DIR", required=True, help="directory of the Parquet files: a local or mounted path, no URL"
    )
    parser.add_argument("--master", default="local[2]", help="Spark master (default: %(default)s)")
    parser.add_argument(
        "--skip-gone",
        action="store_true",
        help="continue where retention has removed messages before their export, and count them",
    )
    parser.add_argument(
        "--skip-damaged",
        action="store_true",
        help="continue without unreadable records and missing segment files, count them and name their places",
    )
    parser.add_argument(
        "--lease",
        metavar="TIME",
        default="1h",
        help="a running gateway's retention keeps the exported range for at most this long, 0: not at all "
        "(default: %(default)s; store.retention.lease-max is the gateway's own limit)",
    )
    parser.add_argument("--no-verify", action="store_true", help="do not check the checksum of each message")
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON")


def run(arguments: argparse.Namespace) -> int:
    for option, given in (("--to", arguments.to), ("--data", arguments.data)):
        if URL.match(given):
            return _fail(
                f"{option} is {given!r}, a URL; allowed is the path of a local or mounted directory", exit_codes.USAGE
            )
    if arguments.skip_damaged and arguments.no_verify:
        return _fail(
            "--skip-damaged needs the checksums that --no-verify leaves out; allowed is either", exit_codes.USAGE
        )
    from config.values import Duration

    lease = Duration(0, LEASE_MAX_MS)
    try:
        lease_ms = lease.parse(arguments.lease)
    except ValueError:
        return _fail(f"--lease is {arguments.lease!r}; allowed is {lease.allowed}", exit_codes.USAGE)
    try:
        from spark_bridge import export
    except ModuleNotFoundError as error:
        print("penstock: " + NEEDS_SPARK.format(error.name), file=sys.stderr)
        return exit_codes.FAILED
    from engine.values.errors import PenstockError, StoreError
    from spark_bridge.export import Request
    from spark_bridge.offsets import TargetError
    from spark_bridge.session import SessionFailed

    request = Request(
        Path(arguments.data),
        arguments.destination,
        Path(arguments.to),
        arguments.master,
        arguments.skip_gone,
        not arguments.no_verify,
        arguments.skip_damaged,
        lease_ms,
    )
    try:
        result = export.export(request, shows_progress=sys.stderr.isatty())
    except StoreError as error:
        return _fail(error, exit_codes.STORE)
    except (TargetError, ValueError) as error:
        return _fail(error, exit_codes.USAGE)
    except (PenstockError, SessionFailed, OSError) as error:
        return _fail(error, exit_codes.FAILED)
    if result.note:
        print(f"penstock: {result.note}", file=sys.stderr)
    print(json.dumps(asdict(result)) if arguments.json else summary(result, arguments.to))
    return exit_codes.OK


def _fail(error: object, code: int) -> int:
    print(f"penstock: {error}", file=sys.stderr)
    return code


def summary(result: Result, target: str) -> str:
    """Return the result as text."""
    from spark_bridge.lost import tell_damaged

    until = clock_time(result.to_time_ms)
    if not result.manifest:
        return f"nothing new: {target} holds {result.destination} up to log offset {result.to_offset}, {until}"
    gone = f"\nnot exported, because retention had removed it: {result.gone()}" if result.gone() else ""
    damaged = f"\nnot exported, because it is damaged: {tell_damaged(result.damaged)}" if result.damaged else ""
    return (
        f"{counted(result.rows, 'message')} of {result.destination} in {counted(result.files, 'file')}, "
        f"{result.bytes / 1024 / 1024:.1f} MiB, added to {target}\n"
        f"log offsets {result.from_offset} to {result.to_offset} of store {result.store_id}, up to {until}\n"
        f"{result.export_seconds:.1f} s, and {result.jvm_seconds:.1f} s to start Spark{gone}{damaged}"
    )
