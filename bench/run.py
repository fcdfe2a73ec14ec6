"""Measure the gateway: ``python -m bench.run`` from the root of the project; bench/README.md explains it."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from bench import deep, fill, many_queues, schedule_bench, store_alone
from bench.measure import Bench
from bench.processes import ROOT, Beside, Broken, Gateway, build_loadgen
from bench.report import markdown, save
from bench.scenarios import SCENARIOS

SPECIAL: Final = ("backlog", "idle", "schedule", "store", "fill10m", "queues10k", "deep")


def arguments() -> argparse.Namespace:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock-bench"
    names = [scenario.name for scenario in SCENARIOS] + list(SPECIAL)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="SCENARIO", help=f"of {' '.join(names)} (default: all)")
    parser.add_argument("--runs", type=int, default=5, help="measured runs of each (default: 5)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of a load run, about (default: 5)")
    parser.add_argument(
        "--backlog", type=int, default=1_000_000, help="messages of backlog and deep (default: 1,000,000)"
    )
    parser.add_argument("--schedule", type=int, default=1_000_000, help="messages of schedule (default: 1,000,000)")
    parser.add_argument("--records", type=int, default=2_000_000, help="of a run of store (default: 2,000,000)")
    parser.add_argument("--fill", type=int, default=10_000_000, help="messages of fill10m (default: 10,000,000)")
    parser.add_argument("--keyed-one-in", type=int, default=10, help="one of this many has a key (default: 10)")
    parser.add_argument("--queues", type=int, default=10_000, help="of queues10k, beside a tenth (default: 10,000)")
    parser.add_argument("--settle", type=float, default=15.0, help="seconds until idle memory is read (default: 15)")
    parser.add_argument(
        "--yardstick", type=Path, default=ROOT.parent / "shared" / "bench" / "ceiling", help="the yardstick's directory"
    )
    parser.add_argument("--loadgen", type=Path, help="an existing build of the load generator")
    parser.add_argument("--cache", type=Path, default=cache, help=f"for builds and stores (default: {cache})")
    parser.add_argument(
        "--tree", type=Path, default=ROOT, help="the project to measure, as scripts/build-compiled --tree DIR makes one"
    )
    parser.add_argument("--no-ceiling", action="store_true", help="without the yardstick beside it")
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        metavar="NAME=URL[,URL]",
        help="a broker that runs already and takes turns with the gateway, as stomp://HOST:PORT/PREFIX or "
        "amqp://HOST:PORT/PREFIX; PREFIX precedes the names of queues",
    )
    parser.add_argument("--login", default="", help="for the brokers beside")
    parser.add_argument("--passcode", default="", help="for the brokers beside")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="directory for the results")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(names)
    if unknown:
        parser.error(f"no scenario {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return chosen


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def commit() -> str:
    """Return the measured commit, with a mark if the tree has uncommitted changes."""

    def git(*command: str) -> str:
        return subprocess.run(["git", *command], cwd=ROOT, text=True, capture_output=True, check=False).stdout.strip()

    name = git("rev-parse", "--short", "HEAD") or "uncommitted"
    return f"{name}-changed" if git("status", "--porcelain", "--", ":!bench/results") else name


def machine() -> dict[str, Any]:
    models = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "processors": os.cpu_count(),
        "processor": models[0] if models else platform.machine(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def measure(chosen: argparse.Namespace) -> dict[str, Any]:
    wanted = chosen.names or [scenario.name for scenario in SCENARIOS] + list(SPECIAL)
    is_loaded = any(scenario.name in wanted for scenario in SCENARIOS) or "backlog" in wanted or "deep" in wanted
    loadgen = chosen.loadgen or (build_loadgen(chosen.cache) if is_loaded else Path())
    beside = tuple(Beside(spec, (chosen.login, chosen.passcode)) for spec in chosen.beside)
    bench = Bench(loadgen, chosen.yardstick, chosen.cache / "stores", chosen.seconds, chosen.runs, say, beside)
    results: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d %H:%M:%S"),
        "commit": commit(),
        "build": Gateway.build(),
        "machine": machine(),
        "runs": chosen.runs,
        "disk": [bench.disk()],
        "scenarios": {},
    }
    with_ceiling = not chosen.no_ceiling and chosen.yardstick.is_dir()
    if not with_ceiling:
        say("without the yardstick beside it")
    for scenario in SCENARIOS:
        if scenario.name in wanted:
            results["scenarios"][scenario.name] = bench.scenario(scenario, with_ceiling)
            results["disk"].append(bench.disk())
    if "backlog" in wanted:
        results["backlog"] = bench.backlog(chosen.backlog)
    if "idle" in wanted:
        results["idle"] = bench.idle(chosen.settle)
    stores = chosen.cache / "stores"
    if "schedule" in wanted:
        results["schedule"] = schedule_bench.run(stores / "schedule", chosen.schedule, 1_000, 30.0, say)
    if "store" in wanted:
        results["store"] = store_alone.measure(stores / "alone", chosen.records, chosen.runs)
        say(f"store  {results['store']}")
    if "fill10m" in wanted:
        results["fill10m"] = fill.measure(stores / "fill", chosen.fill, chosen.keyed_one_in, say)
    if "queues10k" in wanted:
        counts = [max(1, chosen.queues // 10), chosen.queues]
        results["queues10k"] = many_queues.measure(stores / "queues", counts, say)
    if "deep" in wanted:
        results["deep"] = deep.measure(loadgen, stores / "deep", chosen.backlog, chosen.runs, chosen.seconds, say)
    results["disk"].append(bench.disk())
    return results


def main() -> int:
    chosen = arguments()
    Gateway.tree = chosen.tree.resolve()
    try:
        results = measure(chosen)
    except (Broken, subprocess.CalledProcessError, FileNotFoundError) as error:
        say(f"bench: {error}")
        return 1
    save(results, markdown(results), chosen.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
