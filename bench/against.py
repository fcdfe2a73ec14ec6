"""Rows against servers that run already, in one table beside recorded results: ``scripts/bench``.

    scripts/bench penstock=stomp://127.0.0.1:61613/,amqp://127.0.0.1:61613/
    scripts/bench old=stomp://broker:61613/ new=stomp://gateway:61613/ --rows a d16 --runs 5

Several servers take turns, run by run.  bench/README.md explains the rows and the URLs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from bench.measure import Bench, median
from bench.processes import Beside, Broken, build_loadgen
from bench.scenarios import SCENARIOS, Scenario

# Delivered messages a second, of f1000 and amqp-f1000 p99 in ms: medians on a machine with two processors (AMD EPYC,
# KVM, OpenJDK 17, Erlang 25), the load generator beside the broker.  Machines differ threefold: for orientation only.
RECORDED: Final[dict[str, dict[str, float]]] = {
    "ActiveMQ 5.18": {
        "a": 3_792, "b": 55_357, "c": 3_477, "e": 182_803, "g": 3_623, "d1": 3_003, "d16": 4_949, "f1000": 5.8,
        "amqp-a": 3_299, "amqp-b": 52_092, "amqp-f1000": 2.7,
    },
    "Artemis 2.44": {
        "a": 37_518, "b": 47_100, "c": 60_239, "e": 102_341, "g": 18_734, "d1": 3_215, "d16": 15_420, "f1000": 2.0,
        "amqp-a": 115_086, "amqp-b": 245_406, "amqp-f1000": 7.4,
    },
    "RabbitMQ 3.10": {
        "a": 17_140, "b": 23_692, "c": 19_310, "e": 40_016, "g": 8_604, "d1": 2_445, "d16": 8_060, "f1000": 6.9,
        "amqp-a": 17_452, "amqp-b": 20_484, "amqp-f1000": 2.4,
    },
}  # fmt: skip


def arguments() -> argparse.Namespace:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock-bench"
    names = [scenario.name for scenario in SCENARIOS]
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("servers", nargs="+", metavar="NAME=URL[,URL]", help="stomp:// and amqp:// addresses of one")
    parser.add_argument("--rows", nargs="+", choices=names, default=names, metavar="ROW", help=f"of {' '.join(names)}")
    parser.add_argument("--runs", type=int, default=3, help="measured runs of each row (default: 3)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of a run, about (default: 5)")
    parser.add_argument("--login", default="", help="with --passcode")
    parser.add_argument("--passcode", default="")
    parser.add_argument("--loadgen", type=Path, help="an existing build of the load generator")
    parser.add_argument("--cache", type=Path, default=cache, help=f"for its build (default: {cache})")
    return parser.parse_args()


def result(scenario: Scenario, reports: list[dict[str, Any]]) -> str:
    """Return the median in words; messages that did not come once and in order are named."""
    if scenario.p99_ms:
        text = f"{median([report['latency_us']['p99'] / 1000 for report in reports]):.1f}"
    else:
        text = f"{median([report['consumed_per_s'] for report in reports]):,.0f}"
    wrong = {key: sum(report[key] for report in reports) for key in ("lost", "duplicates", "out_of_order")}
    named = [f"{count:,} {key.replace('_', ' ')}" for key, count in wrong.items() if count]
    return f"{text} ({', '.join(named)})" if named else text


def table(found: dict[str, dict[str, list[dict[str, Any]]]], names: list[str]) -> str:
    """Return the rows of Markdown.  found: reports by scenario and server."""
    lines = [
        "Delivered messages a second; of f1000 and amqp-f1000, the 99th percentile of latency in ms. The last columns",
        "are of another machine, with two processors: only ratios within one machine say anything.",
        "",
        f"| row | what | {' | '.join([*names, *RECORDED])} |",
        "|---" * (2 + len(names) + len(RECORDED)) + "|",
    ]
    for scenario in SCENARIOS:
        if scenario.name not in found:
            continue
        servers = found[scenario.name]
        cells = [scenario.name, scenario.title]
        cells += [result(scenario, servers[name]) if name in servers else "-" for name in names]
        cells += [f"{known[scenario.name]:,}" for known in RECORDED.values()]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    chosen = arguments()

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    try:
        servers = tuple(Beside(spec, (chosen.login, chosen.passcode)) for spec in chosen.servers)
        loadgen = chosen.loadgen or build_loadgen(chosen.cache)
        bench = Bench(
            loadgen, Path(), chosen.cache / "stores", chosen.seconds, chosen.runs, say, servers, has_gateway=False
        )
        found = {
            scenario.name: bench.scenario(scenario, with_ceiling=False)
            for scenario in SCENARIOS
            if scenario.name in chosen.rows and any(scenario.protocol in server.addresses for server in servers)
        }
    except (Broken, subprocess.CalledProcessError, FileNotFoundError) as error:
        say(f"bench: {error}")
        return 1
    print(table(found, [server.name for server in servers]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
