"""``penstock simulate``: yesterday's messages with another configuration, beside what really happened."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

from config.loader import load_config
from config.policies import MAXIMUM_PREFETCH
from config.schema import leaf_at, parse_text
from gateway.cli.shared.parsers import CommandError, Subparsers, add_command, add_json_argument, add_nice_argument
from gateway.process import exit_codes

if TYPE_CHECKING:
    from config.model import ServerConfig
    from what_if.model.scenario import Scenario
    from what_if.report.results import Document, Result
    from what_if.trace.trace import Trace

NEEDS_ARROW: Final = "penstock simulate needs pyarrow and numpy: pip install 'penstock[arrow]' (missing: {})"
PRESENT: Final = "present"
NEEDS_SPARK: Final = "penstock simulate --master needs Spark: pip install 'penstock[spark]' (missing: {})"
NO_SPARK: Final = "none"
RUNS_MAX: Final = 64
RUNS_ON_SPARK_MAX: Final = 1_024
RUNS_MOST: Final = 10_000
CONSUMERS_MAX: Final = 10_000


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "simulate",
        "try another configuration on recorded messages",
        "Send the messages of an export or a store through the real engine, on virtual time, with another "
        "configuration. Prints depth, time in queue, redeliveries and dead letters beside what really happened and "
        "beside the same simulation with the present configuration. Touches no gateway.",
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="DIR",
        required=True,
        help="an export with the tables messages and deliveries, or the data directory of a store",
    )
    parser.add_argument(
        "--config", metavar="FILE", action="append", default=[], help="settings to try; several: a run for each"
    )
    parser.add_argument(
        "--present",
        metavar="FILE",
        action="append",
        default=[],
        help="settings at that time, as 'penstock run --config' (default: the built-in ones)",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE[,VALUE]",
        action="append",
        default=[],
        help="setting of every destination, as redelivery.maximum-redeliveries=0,2; several values: a run for each",
    )
    parser.add_argument(
        "--consumers",
        metavar="N[,N]",
        default="",
        help="consumers of each queue and durable subscription, all the time (default: those that were there)",
    )
    parser.add_argument(
        "--prefetch", metavar="N[,N]", default="", help="of each consumer (default: that of the configuration)"
    )
    _add_choice(parser)
    _add_spark(parser)
    parser.add_argument("--chart", metavar="FILE", help="write an SVG picture of depth, time in queue and dead letters")
    add_json_argument(parser)


def _add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose what is simulated, and how."""
    parser.add_argument("--destination", metavar="PATTERN", default=">", help="only these (default: all)")
    for end, words in (("from", "messages from this time on"), ("to", "messages before this time")):
        parser.add_argument(
            f"--{end}-time",
            metavar="TIME",
            default="",
            help=f"{words}: 2026-11-23T09:00:00Z or milliseconds since 1970 (default: all)",
        )
    parser.add_argument(
        "--service",
        choices=("measured", "drawn"),
        default="measured",
        help="time that a message takes its consumer: as it did, or drawn from those of the consumer "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="of what is drawn; same seed, same report (default: %(default)s)",
    )
    parser.add_argument(
        "--processes", type=int, metavar="N", default=0, help="runs at the same time (default: one per processor)"
    )
    parser.add_argument(
        "--runs-max",
        type=int,
        metavar="N",
        default=0,
        help=f"refuse more combinations (default: {RUNS_MAX}, on Spark {RUNS_ON_SPARK_MAX:,})",
    )


def _add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master",
        metavar="URL",
        default=NO_SPARK,
        help="Spark master, as spark://host:7077: each run is a task there (default: none, processes of this machine)",
    )
    parser.add_argument(
        "--driver-host", metavar="HOST", default="", help="where workers find this machine (default: Spark's choice)"
    )
    add_nice_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    present = load_config(arguments.present)
    variants = _variants(arguments, present)
    _check_places(arguments, len(variants))
    try:
        from what_if.trace.read import read_trace
        from what_if.trace.tables import Chosen
    except ModuleNotFoundError as error:
        raise CommandError(NEEDS_ARROW.format(error.name), exit_codes.FAILED) from None
    from engine.values.errors import PenstockError, StoreError
    from what_if.report.results import document
    from what_if.run import period_of, really

    source = Path(arguments.source)
    if not source.is_dir():
        raise CommandError(f"--from is {arguments.source!r}, which is not a directory")
    try:
        chosen = Chosen(arguments.destination, arguments.from_time, arguments.to_time)
        trace = read_trace(source, chosen, present.addresses)
    except StoreError as error:
        raise CommandError(str(error), exit_codes.STORE) from None
    except ValueError as error:
        raise CommandError(str(error)) from None
    except PenstockError as error:
        raise CommandError(str(error), exit_codes.FAILED) from None
    try:
        results = [really(trace), *_run_all(arguments, trace, variants)]
    except PenstockError as error:
        raise CommandError(str(error), exit_codes.FAILED) from None
    period = period_of(trace)
    _print(arguments, document(results, period.start_ms, period.end_ms, period.part_ms))
    return exit_codes.OK


def _check_places(arguments: argparse.Namespace, runs: int) -> None:
    """Raises: CommandError where the runs have no place, before anything is read."""
    is_on_spark = arguments.master != NO_SPARK
    if arguments.processes < 0:
        raise CommandError(f"--processes is {arguments.processes}; allowed is 0 (one per processor) and above")
    if not 0 <= arguments.runs_max <= RUNS_MOST:
        raise CommandError(f"--runs-max is {arguments.runs_max}; allowed is 1 to {RUNS_MOST:,}, or 0 for the default")
    most = arguments.runs_max or (RUNS_ON_SPARK_MAX if is_on_spark else RUNS_MAX)
    if runs > most:
        raise CommandError(f"these are {runs} runs; at most {most} are allowed (--runs-max)")
    if not is_on_spark:
        return
    if arguments.processes:
        raise CommandError("--processes are those of this machine; with --master, Spark has as many as its cores")
    try:
        from what_if.sweep import on_spark  # noqa: F401
    except ModuleNotFoundError as error:
        raise CommandError(NEEDS_SPARK.format(error.name), exit_codes.FAILED) from None


def _run_all(arguments: argparse.Namespace, trace: Trace, scenarios: Sequence[Scenario]) -> list[Result]:
    """Raises: PenstockError."""
    if arguments.master == NO_SPARK:
        from what_if.sweep.processes import sweep_in_processes

        return sweep_in_processes(trace, scenarios, arguments.processes)
    from what_if.sweep.on_spark import sweep_on

    shows_progress = sys.stderr.isatty()
    return sweep_on(arguments.master, arguments.driver_host, arguments.nice, trace, scenarios, shows_progress)


def _print(arguments: argparse.Namespace, report: Document) -> None:
    """Print a report, and write its picture."""
    if arguments.chart:
        from what_if.report.chart import chart_of

        Path(arguments.chart).write_text(chart_of(report), encoding="utf-8")
    if arguments.json:
        print(json.dumps(report))
    else:
        from what_if.report.text import text_of

        print(text_of(report))


# -- what is tried


def _variants(arguments: argparse.Namespace, present: ServerConfig) -> list[Scenario]:
    """Return the present scenario and one for each combination of the options.  Raises: CommandError, ConfigError."""
    from what_if.model.scenario import AS_MEASURED, AS_THE_ADDRESS_SAYS, scenario_of

    is_drawn = arguments.service == "drawn"
    configs = [(path, load_config([path])) for path in arguments.config] or [("", present)]
    settings = [_setting(text) for text in arguments.set]
    consumers = _counts("--consumers", arguments.consumers, CONSUMERS_MAX)
    prefetches = _counts("--prefetch", arguments.prefetch, MAXIMUM_PREFETCH)
    found = [scenario_of(PRESENT, present, {}, arguments.seed, is_drawn)]
    if not (arguments.config or settings or consumers or prefetches):
        return found
    for (path, config), count, prefetch, values in product(
        configs, consumers or [AS_MEASURED], prefetches or [0], product(*settings)
    ):
        words = [os.path.basename(path), *(f"{key}={text}" for key, text, _, _ in values)]
        words += [f"{name}={number}" for name, number in (("consumers", count), ("prefetch", prefetch)) if number]
        scenario = scenario_of(
            " ".join(filter(None, words)),
            config,
            {path: value for _, _, path, value in values},
            arguments.seed,
            is_drawn,
        )
        found.append(replace(scenario, consumers=count, prefetch=prefetch or AS_THE_ADDRESS_SAYS))
    names = [scenario.name for scenario in found]
    return [
        replace(scenario, name=f"{scenario.name} ({number})") if names.count(scenario.name) > 1 else scenario
        for number, scenario in enumerate(found)
    ]


def _setting(text: str) -> list[tuple[str, str, str, object]]:
    """Return key, text, path and value of each value in ``KEY=VALUE,VALUE``.  Raises: CommandError."""
    from config.address_schema import ADDRESS

    key, equals, values = text.partition("=")
    if not equals:
        raise CommandError(f"--set is {text!r}; allowed is KEY=VALUE, or KEY=VALUE,VALUE for several runs")
    try:
        leaf = leaf_at(ADDRESS, key)
        return [(key, value, leaf.path, parse_text(leaf.kind, value)) for value in values.split(",")]
    except ValueError as error:
        raise CommandError(f"--set {key}: {error}") from None


def _counts(option: str, text: str, most: int) -> list[int]:
    """Return the numbers of an option, none if it is not given.  Raises: CommandError."""
    numbers = text.split(",") if text else []
    digits = len(str(most))
    if not all(
        number.isascii() and number.isdigit() and len(number) <= digits and 1 <= int(number) <= most
        for number in numbers
    ):
        raise CommandError(f"{option} is {text!r}; allowed is a whole number from 1 to {most}, or several with commas")
    return [int(number) for number in numbers]
