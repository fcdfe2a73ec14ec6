"""``penstock simulate``: yesterday's messages with another configuration, beside what really happened."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

from config.loader import load_config
from config.policies import MAXIMUM_PREFETCH
from config.schema import leaf_at, parse_text
from gateway.cli.shared.parsers import CommandError, Subparsers, add_command
from gateway.process import exit_codes

if TYPE_CHECKING:
    from config.model import ServerConfig
    from what_if.model.scenario import Scenario
    from what_if.report.results import Result
    from what_if.trace.trace import Trace

NEEDS_ARROW: Final = "penstock simulate needs pyarrow and numpy: pip install 'penstock[arrow]' (missing: {})"
PRESENT: Final = "present"
RUNS_MAX: Final = 64
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
    parser.add_argument("--chart", metavar="FILE", help="write an SVG picture of depth, time in queue and dead letters")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


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


def run(arguments: argparse.Namespace) -> int:
    present = load_config(arguments.present)
    variants = _variants(arguments, present)
    if arguments.processes < 0:
        raise CommandError(f"--processes is {arguments.processes}; allowed is 0 (one per processor) and above")
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
    results = [really(trace), *_run_all(trace, variants, arguments.processes)]
    period = period_of(trace)
    report = document(results, period.start_ms, period.end_ms, period.part_ms)
    if arguments.chart:
        from what_if.report.chart import chart_of

        Path(arguments.chart).write_text(chart_of(report), encoding="utf-8")
    if arguments.json:
        print(json.dumps(report))
    else:
        from what_if.report.text import text_of

        print(text_of(report))
    return exit_codes.OK


def _run_all(trace: Trace, scenarios: Sequence[Scenario], processes: int) -> list[Result]:
    """Run the scenarios, several at the same time."""
    from what_if.run import run as run_one

    count = min(len(scenarios), processes or os.cpu_count() or 1)
    if count == 1:
        return [run_one(trace, scenario) for scenario in scenarios]
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(count, get_context("spawn"), _take_trace, (trace,)) as pool:
        return list(pool.map(_run_here, scenarios))


_here: dict[str, Trace] = {}  # of a process that runs scenarios


def _take_trace(trace: Trace) -> None:
    _here["trace"] = trace


def _run_here(scenario: Scenario) -> Result:
    from what_if.run import run as run_one

    return run_one(_here["trace"], scenario)


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
    if len(found) > RUNS_MAX:
        raise CommandError(f"these are {len(found)} runs; at most {RUNS_MAX} are allowed")
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
    if not all(number.isascii() and number.isdigit() and 1 <= int(number) <= most for number in numbers):
        raise CommandError(f"{option} is {text!r}; allowed is a whole number from 1 to {most}, or several with commas")
    return [int(number) for number in numbers]
