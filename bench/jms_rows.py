"""Measure JMS with activemq-client: ``python -m bench.jms_rows --beside classic=tcp://127.0.0.1:61616``.

The same Java program (bench/jms/Rows.java) takes turns at the gateway and each broker beside it, run by run.  Each run
is a JVM and a queue of its own; the first quarter of its messages is not measured.  You need Java 17 and Maven.

sync: persistent, each send waits for its response.  sync16, sync64: so many connections that do so.
async: persistent, without waiting (``jms.useAsyncSend``).  nonpersistent: without waiting.
paced: sync, at 1,000 messages a second.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Final, TypeAlias

from bench.processes import ROOT, Broken, Gateway

# Rows, and the messages of a run.
MESSAGES: Final = {
    "sync": 10_000,
    "sync16": 64_000,
    "sync64": 128_000,
    "async": 150_000,
    "nonpersistent": 150_000,
    "paced": 5_000,
}
COLUMNS: Final = ("messages/s", "p50 ms", "p99 ms")

Figures: TypeAlias = tuple[float, float, float]


def built(home: Path) -> list[str]:
    """Compile the Java program in ``home``; return the command that runs it."""
    maven, java = shutil.which("mvn"), shutil.which("java")
    if maven is None or java is None:
        raise Broken("the rows are a Java program: they need java and mvn on the PATH")
    shutil.copytree(ROOT / "bench" / "jms", home, dirs_exist_ok=True)
    goals = ["compile", "dependency:build-classpath", "-Dmdep.outputFile=target/classpath"]
    subprocess.run([maven, "-q", "-B", *goals], cwd=home, check=True)
    classpath = f"{home / 'target/classes'}:{(home / 'target/classpath').read_text()}"
    return [java, "-Xms256m", "-Xmx512m", "-cp", classpath, "Rows"]


def run(command: list[str], url: str, row: str, queue: str, messages: int) -> Figures:
    """Return messages a second and the latency's median and 99th percentile in milliseconds."""
    done = subprocess.run(
        [*command, url, row, queue, str(messages)], check=False, text=True, capture_output=True, timeout=300
    )
    if done.returncode != 0:
        raise Broken(f"{row} at {url}: {done.stderr.strip()[-1000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return found["messages"] / found["seconds"], found["p50_ms"], found["p99_ms"]


def table(figures: dict[tuple[str, str], list[Figures]], rows: list[str], brokers: list[str]) -> str:
    """Return the medians as a Markdown table: a line for each row and broker, with the gateway's share of it."""
    lines = [f"| row | broker | {' | '.join(COLUMNS)} | gateway / broker |", "|---|---|---|---|---|---|"]
    for row in rows:
        ours = statistics.median(one[0] for one in figures[row, brokers[0]])
        for broker in brokers:
            rate, p50, p99 = (statistics.median(each) for each in zip(*figures[row, broker], strict=True))
            lines.append(f"| {row} | {broker} | {rate:,.0f} | {p50:.2f} | {p99:.2f} | {ours / rate:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {' '.join(MESSAGES)} (default: all)")
    parser.add_argument("--runs", type=int, default=5, help="measured runs of each (default: 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the messages of a run (default: 1)")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the project to measure (default: this one)")
    parser.add_argument("--beside", action="append", default=[], metavar="NAME=URL", help="a broker that runs already")
    options = parser.parse_args()
    rows = options.rows or list(MESSAGES)
    unknown = [row for row in rows if row not in MESSAGES]
    if unknown:
        parser.error(f"rows are {', '.join(MESSAGES)}, not {', '.join(unknown)}")
    Gateway.tree = options.tree.resolve()
    with tempfile.TemporaryDirectory(prefix="penstock-jms-") as home:
        command = built(Path(home) / "java")
        gateway = Gateway(Path(home) / "gateway")
        gateway.start()
        try:
            urls = {f"penstock ({Gateway.build()})": f"tcp://127.0.0.1:{gateway.port}"}
            urls.update(one.split("=", 1) for one in options.beside)
            figures: dict[tuple[str, str], list[Figures]] = {}
            for row in rows:
                for index in range(options.runs + 1):
                    for broker, url in urls.items():
                        found = run(command, url, row, f"bench.{row}.{index}", int(MESSAGES[row] * options.scale))
                        if index:  # the first is a warm-up
                            figures.setdefault((row, broker), []).append(found)
        finally:
            gateway.stop()
    print(table(figures, rows, list(urls)))


if __name__ == "__main__":
    main()
