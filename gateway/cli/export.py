"""``penstock export``: destinations to Parquet, without a connection to the gateway."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from engine.store.plain_words import counted
from gateway.answers.wording import clock_time
from gateway.cli.shared.parsers import CommandError, Subparsers, add_command, add_nice_argument
from gateway.process import exit_codes

if TYPE_CHECKING:
    from config.values import Bytes, Duration
    from spark_bridge.export import Request
    from spark_bridge.result import Result

URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
GATEWAY: Final = re.compile(r"https?:/", re.IGNORECASE)
RATE_MAX_BYTES: Final = 1 << 40
INTERVAL_MIN_MS: Final = 1_000
INTERVAL_MAX_MS: Final = 24 * 3_600_000
LEASE_MAX_MS: Final = 7 * 24 * 3_600_000
EXECUTOR_WAIT_MAX_MS: Final = 24 * 3_600_000
NEEDS_SPARK: Final = "penstock export needs Spark: pip install 'penstock[spark]' (missing: {})"
NEEDS_ARROW: Final = "penstock export without Spark needs pyarrow: pip install 'penstock[arrow]' (missing: {})"
NEEDS_ICEBERG: Final = "penstock export --iceberg needs pyiceberg: pip install 'penstock[iceberg]' (missing: {})"


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "export",
        "export destinations to Parquet",
        "Add every persistent message that is new since the last export to a directory or bucket of Parquet files, "
        "partitioned by date, and by destination unless these are many. Reads the store's files, also while a gateway "
        "runs; takes no message from any consumer.",
    )
    parser.add_argument(
        "--data",
        metavar="PLACE",
        default="data",
        help="directory of the store, or of a backup of it; where that is in an object store, s3://bucket/prefix; or "
        "the HTTP listener of a gateway, http://USER@host:port, with the password in $PENSTOCK_PASSWORD "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--destination", metavar="PATTERN", required=True, help="for example orders.eu, 'orders.>', 'queue://orders.*'"
    )
    parser.add_argument(
        "--to",
        metavar="PLACE",
        required=True,
        help="where the Parquet files are: a directory, or in an object store, s3://bucket/prefix",
    )
    _add_tables(parser)
    _add_spark(parser)
    _add_skips(parser)
    parser.add_argument(
        "--body",
        choices=("text", "binary", "both"),
        default="text",
        help="text: a text only in body_text, other bodies in body; binary: all in body; both: a text in both "
        "(default: %(default)s)",
    )
    _add_pace(parser)
    parser.add_argument("--no-verify", action="store_true", help="do not check the checksum of each message")
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be added, and write nothing, not even to the store"
    )
    _add_rhythm(parser)
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON")


def _add_tables(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tables",
        metavar="NAMES",
        default="",
        help="messages, deliveries (how each ended), dead_letters (with their origin), or several with commas; "
        "each then has a folder of its own (default: those of the directory, in a new one messages)",
    )
    parser.add_argument(
        "--partition-by",
        metavar="COLUMNS",
        default="",
        help="destination,date: files for each destination; date: files with many destinations, sorted, which is "
        "faster where these are many (default: that of the target; of a new one date if it has more than 100)",
    )
    parser.add_argument(
        "--file-bytes",
        metavar="SIZE",
        default="",
        help="about the size of each file, 1MiB to 256MiB (default: whatever 64 MiB of the log need)",
    )
    parser.add_argument(
        "--iceberg",
        metavar="CATALOGUE.NAMESPACE",
        default="",
        help="publish the tables in a catalogue of Iceberg, too, which pyiceberg knows by this name from its own "
        "configuration",
    )


def _add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master",
        help="Spark master, or none: without Spark, in this process (default: local[2], with --follow none)",
    )
    parser.add_argument(
        "--driver-host", metavar="HOST", default="", help="where executors find this machine (default: Spark's choice)"
    )
    parser.add_argument(
        "--executor-wait",
        metavar="TIME",
        default="10m",
        help="how long a Spark elsewhere may have no executor before the export fails, 0: no limit "
        "(default: %(default)s)",
    )


def _add_skips(parser: argparse.ArgumentParser) -> None:
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


def _add_rhythm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--follow",
        action="store_true",
        help="export again and again, in one process without Spark, until SIGINT or SIGTERM, which let the export "
        "under way end; a second one ends it at once",
    )
    parser.add_argument(
        "--interval",
        metavar="TIME",
        default="1m",
        help="with --follow: the time between two exports (default: %(default)s)",
    )
    parser.add_argument(
        "--new-bytes",
        metavar="SIZE",
        default="0",
        help="with --follow: export earlier if this much of the log is new, looked at every second (default: never)",
    )


def _add_pace(parser: argparse.ArgumentParser) -> None:
    """Add the options by which an export and a gateway beside it share the disk and the processor."""
    parser.add_argument(
        "--lease",
        metavar="TIME",
        default="1h",
        help="a running gateway's retention keeps the exported range for at most this long, 0: not at all "
        "(default: %(default)s; store.retention.lease-max is the gateway's own limit)",
    )
    add_nice_argument(parser)
    parser.add_argument(
        "--rate", metavar="SIZE", default="0", help="read at most this much of the log in a second (default: no limit)"
    )


def run(arguments: argparse.Namespace) -> int:
    request = _request(arguments)
    from engine.values.errors import PenstockError, StoreError
    from spark_bridge import export
    from spark_bridge.errors import TargetError

    try:
        if arguments.follow:
            _follow(request, arguments)
        else:
            result = export.export(request, shows_progress=sys.stderr.isatty())
            _print_note(result)
            _print(result, arguments)
    except StoreError as error:
        raise CommandError(str(error), exit_codes.STORE) from None
    except (TargetError, ValueError) as error:
        raise CommandError(str(error)) from None
    except (PenstockError, OSError) as error:
        raise CommandError(str(error), exit_codes.FAILED) from None
    return exit_codes.OK


def _print_note(result: Result) -> None:
    if result.note:
        print(f"penstock: {result.note}", file=sys.stderr, flush=True)


def _print(result: Result, arguments: argparse.Namespace) -> None:
    told = json.dumps(asdict(result)) if arguments.json else summary(result, _title(arguments.to))
    print(told, flush=True)


def _follow(request: Request, arguments: argparse.Namespace) -> None:
    """Export until a signal comes.  Raises: as ``export``, CommandError."""
    from config.values import Bytes, Duration
    from gateway.process.stop_signals import StopSignals
    from spark_bridge.follow import Rhythm, follow
    from spark_bridge.target import target_at

    interval_ms = _parsed("--interval", arguments.interval, Duration(INTERVAL_MIN_MS, INTERVAL_MAX_MS))
    new_bytes = _parsed("--new-bytes", arguments.new_bytes, Bytes(0, RATE_MAX_BYTES))
    with StopSignals() as signals:
        rhythm = Rhythm(interval_ms / 1000, new_bytes)
        follow(target_at(arguments.to), request, rhythm, signals.wait, _Reports(arguments))


class _Reports:
    """Prints what each round has added, and what keeps the rounds from it."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._note = ""

    def exported(self, result: Result) -> None:
        if result.note != self._note:
            _print_note(result)
        if result.manifest:
            _print(result, self._arguments)
        self._note = result.note

    def failed(self, error: Exception, failures: int, pause_s: float) -> None:
        print(f"penstock: attempt {failures} failed, next in {pause_s:.0f} s: {error}", file=sys.stderr, flush=True)

    def back(self, failures: int) -> None:
        print(f"penstock: exporting again after {counted(failures, 'attempt')}", file=sys.stderr, flush=True)


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    """Raises: CommandError."""
    if arguments.follow and URL.match(arguments.data) and not GATEWAY.match(arguments.data):
        raise CommandError(
            "--follow exports what a gateway adds; --data is the URL of a copy, allowed is a store's directory or "
            "http://USER@host:port"
        )
    if arguments.skip_damaged and arguments.no_verify:
        raise CommandError("--skip-damaged needs the checksums that --no-verify leaves out; allowed is either")
    if arguments.follow and arguments.dry_run:
        raise CommandError("--dry-run tells of one export; allowed is either this or --follow")
    if arguments.follow and arguments.master not in (None, "none"):
        raise CommandError(f"--follow exports without Spark; --master is {arguments.master!r}, allowed is none")


def _request(arguments: argparse.Namespace) -> Request:
    """Return what to export.  Raises: CommandError."""
    _refuse_contradictions(arguments)
    from config.values import Bytes, Duration

    lease_ms = _parsed("--lease", arguments.lease, Duration(0, LEASE_MAX_MS))
    rate_bytes = _parsed("--rate", arguments.rate, Bytes(0, RATE_MAX_BYTES))
    executor_wait_ms = _parsed("--executor-wait", arguments.executor_wait, Duration(0, EXECUTOR_WAIT_MAX_MS))
    try:
        from spark_bridge.export import FILE_LEAST_BYTES, FILE_MOST_BYTES, LOCAL, NO_SPARK, Request
    except ModuleNotFoundError as error:
        raise CommandError(NEEDS_ARROW.format(error.name), exit_codes.FAILED) from None
    from spark_bridge.arrow.schema import chosen_tables
    from spark_bridge.partitioning import PARTITIONINGS

    try:
        tables = chosen_tables(arguments.tables)
    except ValueError as error:
        raise CommandError(f"--tables: {error}") from None
    partitionings = {",".join(columns): columns for columns in ((), *PARTITIONINGS)}
    if arguments.partition_by not in partitionings:
        allowed = " or ".join(filter(None, partitionings))
        raise CommandError(f"--partition-by is {arguments.partition_by!r}; allowed is {allowed}")
    sizes = Bytes(FILE_LEAST_BYTES, FILE_MOST_BYTES)
    file_bytes = _parsed("--file-bytes", arguments.file_bytes, sizes) if arguments.file_bytes else 0
    request = Request(
        arguments.data,
        arguments.destination,
        arguments.to,
        arguments.master or (NO_SPARK if arguments.follow else LOCAL),
        arguments.skip_gone,
        not arguments.no_verify,
        arguments.skip_damaged,
        lease_ms,
        arguments.body,
        arguments.driver_host,
        arguments.nice,
        rate_bytes,
        tables,
        arguments.dry_run,
        executor_wait_ms,
        partitionings[arguments.partition_by],
        arguments.iceberg,
        file_bytes,
    )
    if arguments.iceberg:
        try:
            from spark_bridge.iceberg import catalogue  # noqa: F401
        except ModuleNotFoundError as error:
            raise CommandError(NEEDS_ICEBERG.format(error.name), exit_codes.FAILED) from None
    if request.needs_spark():
        try:
            from spark_bridge import job  # noqa: F401
        except ModuleNotFoundError as error:
            raise CommandError(NEEDS_SPARK.format(error.name), exit_codes.FAILED) from None
    elif arguments.nice:
        os.nice(arguments.nice)
    return request


def _title(place: str) -> str:
    """Return the target as people may see it.  Raises: TargetError."""
    from spark_bridge.files.choice import files_at
    from spark_bridge.files.place import is_url

    return files_at(place).title if is_url(place) else place


def _parsed(option: str, text: str, kind: Duration | Bytes) -> int:
    """Return the option's value.  Raises: CommandError."""
    try:
        return kind.parse(text)
    except ValueError:
        raise CommandError(f"{option} is {text!r}; allowed is {kind.allowed}") from None


def _rows(result: Result) -> str:
    if result.tables.keys() <= {"messages"}:
        return counted(result.rows, "message")
    return ", ".join(f"{counted(rows, 'row')} of {table}" for table, rows in result.tables.items())


def summary(result: Result, target: str) -> str:
    """Return the result as text."""
    from spark_bridge.log.lost import tell_damaged

    until = clock_time(result.to_time_ms)
    if not result.has_matched:
        return f"nothing exported, and {target} may take another pattern"
    if result.from_offset == result.to_offset:
        return f"nothing new: {target} holds {result.destination} up to log offset {result.to_offset}, {until}"
    gone = f"\nnot exported, because retention had removed it: {result.gone()}" if result.gone() else ""
    damaged = f"\nnot exported, because it is damaged: {tell_damaged(result.damaged)}" if result.damaged else ""
    is_done = not result.is_rehearsal
    told = (
        f"{_rows(result)} of {result.destination} in {counted(result.files, 'file')}, "
        f"{result.bytes / 1024 / 1024:.1f} MiB, {'added' if is_done else 'would be added'} to {target}\n"
        f"log offsets {result.from_offset} to {result.to_offset} of store {result.store_id}, up to {until}"
    )
    if not is_done:
        told += f"\npartitioned by {' and '.join(result.partitioning)}"
    for name, counts in result.destinations.items():
        told += f"\n  {name}: {counted(counts['rows'], 'row')}, {counts['bytes'] / 1024 / 1024:.1f} MiB"
    if is_done:
        told += f"\n{result.export_seconds:.1f} s"
        if result.jvm_seconds:
            told += f", and {result.jvm_seconds:.1f} s to start Spark"
    return f"{told}{gone}{damaged}"
