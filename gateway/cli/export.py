"""``penstock export``: destinations to Parquet, without a connection to the gateway."""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from engine.store.plain_words import counted
from gateway.cli.export_report import ExportReport
from gateway.cli.shared.parsers import CommandError, Subparsers, add_command, add_json_argument, add_nice_argument
from gateway.process import exit_codes

if TYPE_CHECKING:
    from config.values import Bytes, Duration
    from spark_bridge.export import Request

    Target: TypeAlias = tuple[Request, ExportReport]

URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
GATEWAY: Final = re.compile(r"https?:/", re.IGNORECASE)
RATE_MAX_BYTES: Final = 1 << 40
TARGETS_MAX: Final = 100  # of one command
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
        "--destination",
        metavar="PATTERN",
        action="append",
        required=True,
        help="for example orders.eu, 'orders.>', 'queue://orders.*', or several with commas",
    )
    parser.add_argument(
        "--to",
        metavar="PLACE",
        action="append",
        required=True,
        help="where the Parquet files are: a directory, or in an object store, s3://bucket/prefix; for several targets "
        "give --destination and --to again",
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
    add_json_argument(parser, "print the result as one line of JSON for each target")


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
    from spark_bridge.export import FAILURES

    try:
        targets = _targets(request, arguments)
        return _follow(targets, arguments) if arguments.follow else _export(targets)
    except FAILURES as error:
        raise _told(error) from None


def _export(targets: list[Target]) -> int:
    """Return the exit code of the first target that failed.  Raises: CommandError if it is the only one."""
    from spark_bridge.export import FAILURES, export_on
    from spark_bridge.one_spark import OneSpark

    code = exit_codes.OK
    with OneSpark(shows_progress=sys.stderr.isatty()) as spark:
        for request, report in targets:
            try:
                result = export_on(spark, request)
            except FAILURES as error:
                if len(targets) == 1:
                    raise
                report.ended(error)
                code = code or _told(error).exit_code
            else:
                report.done(result)
    return code


def _follow(targets: list[Target], arguments: argparse.Namespace) -> int:
    """Export until a signal comes.  Raises: as ``export``, CommandError."""
    from config.values import Bytes, Duration
    from gateway.process.stop_signals import StopSignals
    from spark_bridge.follow import Followed, Rhythm, follow
    from spark_bridge.target import target_at

    interval_ms = _parsed("--interval", arguments.interval, Duration(INTERVAL_MIN_MS, INTERVAL_MAX_MS))
    new_bytes = _parsed("--new-bytes", arguments.new_bytes, Bytes(0, RATE_MAX_BYTES))
    followed = [Followed(target_at(request.target), request, report) for request, report in targets]
    with StopSignals() as signals:
        follow(followed, Rhythm(interval_ms / 1000, new_bytes), signals.wait)
    return exit_codes.OK


def _told(error: Exception) -> CommandError:
    from engine.values.errors import StoreError
    from spark_bridge.errors import TargetError

    if isinstance(error, StoreError):
        return CommandError(str(error), exit_codes.STORE)
    is_usage = isinstance(error, TargetError | ValueError)
    return CommandError(str(error), exit_codes.USAGE if is_usage else exit_codes.FAILED)


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    """Raises: CommandError."""
    patterns, places = len(arguments.destination), len(arguments.to)
    if patterns != places or places > TARGETS_MAX:
        raise CommandError(
            f"--destination is given {counted(patterns, 'time')} and --to {counted(places, 'time')}; allowed is one "
            f"--to for each --destination, at most {TARGETS_MAX}"
        )
    if arguments.iceberg and places > 1:
        raise CommandError(f"--iceberg publishes the tables of one target; --to is given {places} times, allowed is 1")
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
    """Return what to export to the first target.  Raises: CommandError."""
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
        arguments.destination[0],
        arguments.to[0],
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


def _targets(request: Request, arguments: argparse.Namespace) -> list[Target]:
    """Return the request for each target.  Raises: CommandError; TargetError, ValueError for a place and a pattern."""
    from engine.store.read import selection
    from spark_bridge.files.choice import files_at
    from spark_bridge.files.place import is_url

    targets: dict[str, Target] = {}
    for pattern, place in zip(arguments.destination, arguments.to, strict=True):
        selection.parse(pattern)
        if not place:
            raise CommandError("--to is ''; allowed is a directory or a URL")
        files = files_at(place if is_url(place) else os.path.realpath(place))
        title = files.title if is_url(place) else place
        if files.identity in targets:
            raise CommandError(f"--to names {title} twice; allowed are different targets")
        report = ExportReport(title, arguments.json, len(arguments.to) == 1)
        targets[files.identity] = replace(request, destination=pattern, target=place), report
    return list(targets.values())


def _parsed(option: str, text: str, kind: Duration | Bytes) -> int:
    """Return the option's value.  Raises: CommandError."""
    try:
        return kind.parse(text)
    except ValueError:
        raise CommandError(f"{option} is {text!r}; allowed is {kind.allowed}") from None
