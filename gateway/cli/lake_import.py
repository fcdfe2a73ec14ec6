"""``penstock import``: the messages of an export, or rows of other Parquet files, to a gateway."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine.store.plain_words import counted
from gateway.cli.shared.parsers import (
    CommandError,
    Subparsers,
    add_command,
    add_connection_arguments,
    add_json_argument,
    destination_argument,
    password_of,
)
from gateway.process import exit_codes

if TYPE_CHECKING:
    from spark_bridge.lake_import import Result

NEEDS_ARROW: Final = "penstock import needs pyarrow: pip install 'penstock[arrow]' (missing: {})"
STATES: Final = ("pending", "acknowledged", "dead-lettered", "expired", "dropped", "published")


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "import",
        "send the messages of an export to a gateway",
        "Send the messages of an export, or the rows of other Parquet files with the columns of a write, to a running "
        "gateway, in the order of the log. Run it again after a failure: what is written is not written twice.",
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="PLACE",
        required=True,
        help="directory or URL (s3://bucket/prefix) of an export, or of Parquet files, or of one",
    )
    add_connection_arguments(parser)
    parser.add_argument(
        "--destination", metavar="PATTERN", default=">", help="only messages of these (default: all of the export)"
    )
    parser.add_argument(
        "--to",
        metavar="DESTINATION",
        type=destination_argument,
        help="send all here (default: where they were)",
    )
    parser.add_argument(
        "--state", choices=STATES, default="", help="only messages in this state, as of their export (default: all)"
    )
    parser.add_argument(
        "--table", choices=("messages", "dead_letters"), default="messages", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--write-id",
        metavar="ID",
        default="",
        help="what is written with the same id is not written twice (default: one for these arguments)",
    )
    parser.add_argument("--dry-run", action="store_true", help="let the gateway check everything and take nothing")
    add_json_argument(parser, "print the result as one line of JSON")


def run(arguments: argparse.Namespace) -> int:
    try:
        from spark_bridge import lake_import
    except ModuleNotFoundError as error:
        raise CommandError(NEEDS_ARROW.format(error.name), exit_codes.FAILED) from None
    from spark_bridge.errors import LakeError, TargetError
    from spark_bridge.files.place import is_url
    from spark_bridge.write.connection import WriteFailed
    from spark_bridge.write.options import write_options

    given = {"url": arguments.url, "dry-run": str(arguments.dry_run)}
    given |= {"user": arguments.user or "", "password": password_of(arguments.user) or ""}
    if not is_url(arguments.source) and not Path(arguments.source).exists():
        raise CommandError(f"--from is {arguments.source!r}, which does not exist")
    shows_progress = sys.stderr.isatty()

    def report(result: Result) -> None:
        if shows_progress:
            print(f"\r{counted(result.rows, 'message')} of {counted(result.files, 'file')}", end="", file=sys.stderr)

    try:
        options = write_options(given)
        request = lake_import.Request(
            arguments.source,
            options,
            arguments.destination,
            arguments.to or "",
            arguments.state,
            arguments.table,
            arguments.write_id,
        )
        result = lake_import.import_lake(request, report)
    except (TargetError, ValueError) as error:
        raise CommandError(str(error)) from None
    except WriteFailed as error:
        text = f"{error}; what is confirmed is written, and the same command writes the rest"
        raise CommandError(text, exit_codes.UNREACHABLE) from None
    except (LakeError, OSError) as error:
        raise CommandError(str(error), exit_codes.FAILED) from None
    finally:
        if shows_progress:
            print(file=sys.stderr)
    if result.note:
        print(f"penstock: {result.note}", file=sys.stderr)
    print(json.dumps(asdict(result)) if arguments.json else summary(result, arguments.dry_run))
    return exit_codes.OK


def summary(result: Result, is_dry_run: bool) -> str:
    """Return the result in plain words."""
    done = "would be written" if is_dry_run else "written"
    text = f"{counted(result.rows, 'message')} of {counted(result.files, 'file')} {done}"
    if result.known:
        text += f", of which an earlier run had written {result.known}"
    if result.skipped:
        text += f"; {counted(result.skipped, 'file')} had been written before"
    return text
