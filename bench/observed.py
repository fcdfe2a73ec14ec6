"""What observation costs: rows at a gateway that nobody observes, and at one with a console, Prometheus and histograms.

    python -m bench.observed                        the rows a, b, g and amqp-a
    python -m bench.observed a --runs 3 --tree DIR

Both gateways are of the same build and take turns, run by run.  While the observed one is measured, a client scrapes
its metrics each second, and another does what an open console does; its histograms are always on.
"""

from __future__ import annotations

import argparse
import http.client
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from bench.measure import Bench, median
from bench.processes import ROOT, Broken, Gateway, build_loadgen
from bench.report import heading, save
from bench.run import commit, machine, say
from bench.scenarios import SCENARIOS
from bench.store_report import Rows, verdict

ROWS: Final = ("a", "b", "g", "amqp-a")
MORE_MOST: Final = 0.03  # what observation may take of a row
SCRAPE_S: Final = 1.0
DRAW_S: Final = 1.9  # as the page of the console
PAGES: Final = ("/api/destinations?search=&sort=-depth&offset=0&limit=50", "/api/history")
LIMIT_S: Final = 30.0


class Observers:
    """The clients that look at one gateway.

    scrapes, draws: how often they did.  failure: why one ended, "" if none did.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._ending = Event()
        self.scrapes = 0
        self.draws = 0
        self.failure = ""

    @contextmanager
    def watching(self) -> Iterator[None]:
        threads = [Thread(target=self._run, args=(work,)) for work in (self._scrape, self._draw)]
        self._ending.clear()
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ending.set()
            for thread in threads:
                thread.join()
        if self.failure:
            raise Broken(f"nobody observed the gateway to the end: {self.failure}")

    def _run(self, work: Any) -> None:
        try:
            work(http.client.HTTPConnection("127.0.0.1", self._port, timeout=LIMIT_S))
        except (OSError, http.client.HTTPException, Broken) as error:
            self.failure = f"{type(error).__name__}: {error}"

    def _scrape(self, connection: http.client.HTTPConnection) -> None:
        while not self._ending.is_set():
            _get(connection, "/metrics")
            self.scrapes += 1
            self._ending.wait(SCRAPE_S)

    def _draw(self, connection: http.client.HTTPConnection) -> None:
        """Read the stream of events, and ask for the first page again as the console does."""
        events = http.client.HTTPConnection("127.0.0.1", self._port, timeout=LIMIT_S)
        events.request("GET", "/api/events")
        stream = events.getresponse()
        if stream.status != 200:
            raise Broken(f"/api/events answers {stream.status}")
        drawn = 0.0
        while not self._ending.is_set():
            line = stream.readline()
            if not line:
                raise Broken("the stream of events has ended")
            if line.startswith(b"data:") and time.monotonic() - drawn >= DRAW_S:
                for page in PAGES:
                    _get(connection, page)
                drawn = time.monotonic()
                self.draws += 1
        events.close()
        connection.close()


def _get(connection: http.client.HTTPConnection, path: str) -> None:
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise Broken(f"{path} answers {answer.status}")


class ObservedGateway(Gateway):
    """A gateway that is observed during each measured run."""

    name = "observed"

    def __init__(self, home: Path) -> None:
        config = home / "penstock.yaml"
        super().__init__(home, ("--config", str(config)))
        home.mkdir(parents=True)
        config.write_text("metrics: {histograms: true}\n")
        self.scrapes = 0
        self.draws = 0

    @contextmanager
    def attended(self) -> Iterator[None]:
        observers = Observers(self.http_port)
        with observers.watching():
            yield
        self.scrapes += observers.scrapes
        self.draws += observers.draws


def measure(bench: Bench, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the reports of each row by gateway, and how often the observed one was asked."""
    found: dict[str, Any] = {}
    for scenario in SCENARIOS:
        if scenario.name in names:
            observed = ObservedGateway(bench.home())
            reports = bench.in_turn(scenario, [Gateway(bench.home()), observed])
            found[scenario.name] = {"reports": reports, "scrapes": observed.scrapes, "draws": observed.draws}
    return found


def rows(scenarios: dict[str, Any]) -> Rows:
    result: Rows = []
    for scenario in SCENARIOS:
        if scenario.name not in scenarios:
            continue
        found = scenarios[scenario.name]
        alone, observed = (
            median([report["consumed_per_s"] for report in found["reports"][name]])
            for name in (Gateway.name, ObservedGateway.name)
        )
        costs = [
            median([report["watched_cpu_s"] / max(1, report["received"]) * 1e6 for report in found["reports"][name]])
            for name in (Gateway.name, ObservedGateway.name)
        ]
        measured = (
            f"{alone:,.0f}/s alone, {observed:,.0f}/s observed: {observed / max(1, alone) - 1:+.1%}; "
            f"{costs[0]:.1f} and {costs[1]:.1f} us of processor per delivery; "
            f"{found['scrapes']} scrapes, {found['draws']} drawings"
        )
        held = verdict(observed >= (1 - MORE_MOST) * alone)
        result.append((f"{scenario.name}: {scenario.title}", measured, f"-{MORE_MOST:.0%}", held))
    return result


def markdown(found: dict[str, Any]) -> str:
    noisy = sum(
        report["is_noisy"]
        for scenario in found["scenarios"].values()
        for reports in scenario["reports"].values()
        for report in reports
    )
    lines = [
        f"{heading(found)}; medians of {found['runs']} runs of each gateway, in turn; the load generator and those who "
        "observe run on the same machine.",
        "",
        "| | measured | to reach | |",
        "|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(row)} |" for row in rows(found["scenarios"])]
    if noisy:
        lines += ["", f"{noisy} runs kept although other programs used more than 0.4 cores meanwhile (`is_noisy`)."]
    return "\n".join(lines) + "\n"


def arguments() -> argparse.Namespace:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock-bench"
    known = [scenario.name for scenario in SCENARIOS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="ROW", help=f"of {' '.join(known)} (default: {' '.join(ROWS)})")
    parser.add_argument("--runs", type=int, default=5, help="measured runs of each gateway (default: 5)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of a run, about (default: 5)")
    parser.add_argument("--loadgen", type=Path, help="an existing build of the load generator")
    parser.add_argument("--cache", type=Path, default=cache, help=f"for builds and stores (default: {cache})")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the project to measure, as in bench.run")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="directory for the results")
    chosen = parser.parse_args()
    if set(chosen.names) - set(known):
        parser.error(f"no row {', '.join(sorted(set(chosen.names) - set(known)))}; there are {', '.join(known)}")
    return chosen


def main() -> int:
    chosen = arguments()
    Gateway.tree = chosen.tree.resolve()
    try:
        loadgen = chosen.loadgen or build_loadgen(chosen.cache)
        bench = Bench(loadgen, Path(), chosen.cache / "stores", chosen.seconds, chosen.runs, say)
        found = {
            "date": time.strftime("%Y-%m-%d %H:%M:%S"),
            "commit": commit(),
            "build": Gateway.build(),
            "machine": machine(),
            "runs": chosen.runs,
            "scenarios": measure(bench, tuple(chosen.names) or ROWS),
        }
    except (Broken, subprocess.CalledProcessError, FileNotFoundError) as error:
        say(f"bench: {error}")
        return 1
    save(found, markdown(found), chosen.results, "observed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
