"""``penstock demo``: the whole main job once, on generated orders, with every number checked.

The demo starts a gateway and sends it orders over STOMP.  A worker at prefetch 1 is killed half-way, and another takes
over.  Unreadable orders end in the dead-letter queue.  Spark exports everything and reads the Parquet back.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import urlsplit

from gateway.cli.demo_worker import UNREADABLE, Done
from gateway.cli.operation.stat import fetch_stat
from gateway.cli.shared.blocking_client import BlockingClient, ConnectionLost, Refused
from gateway.cli.shared.http_client import HttpError
from gateway.cli.shared.parsers import CommandError, Subparsers, add_command
from gateway.process import exit_codes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tqdm import tqdm


MAXIMUM_REDELIVERIES: Final = 2
CONFIGURATION: Final = f"""\
# Refused orders come back twice, after short delays, and are then dead letters.
addresses:
  - match: "orders.>"
    redelivery:
      maximum-redeliveries: {MAXIMUM_REDELIVERIES}
      initial-redelivery-delay-ms: 50
      redelivery-delay-ms: 100
"""
# The number of orders for each destination; the audit has no consumer.
ORDERS: Final = {"orders.eu": 15_000, "orders.us": 15_000, "orders.audit": 20_000}
CONSUMED: Final = ("orders.eu", "orders.us")
DEAD_LETTER_QUEUE: Final = "ActiveMQ.DLQ"
UNREADABLE_EVERY: Final = 1_000  # share of the consumed orders
STEP_LIMIT_S: Final = 300.0


class DemoFailed(Exception):
    """A step had the wrong result; the text names it."""


@dataclass(slots=True)
class Row:
    """One destination as its clients saw it.  exported: rows by delivery state, as Spark read them back."""

    sent: int = 0
    acknowledged: int = 0
    redelivered: int = 0
    dead_lettered: int = 0
    exported: dict[str, int] = field(default_factory=dict)

    @property
    def exported_count(self) -> int:
        return sum(self.exported.values())


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "demo",
        "do the whole main job once on generated orders",
        "Start a gateway on free ports, send 50,000 orders, consume part of them with a worker that is "
        "killed half-way and one that takes over, dead-letter some, export all to Parquet, read it back, compare.",
    )
    parser.add_argument("--data", metavar="DIR", help="keep store and Parquet files there (default: a temporary one)")


def run(arguments: argparse.Namespace) -> int:
    try:
        import pyspark  # noqa: F401
    except ModuleNotFoundError as error:
        print(f"penstock demo needs Spark: pip install 'penstock[spark]' (missing: {error.name})", file=sys.stderr)
        return exit_codes.FAILED
    with ExitStack() as stack:
        if arguments.data is None:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-demo-")))
        else:
            home = Path(arguments.data)
            if home.exists() and any(home.iterdir()):
                raise CommandError(f"{home} is not empty; the demo counts what it finds there")
            home.mkdir(parents=True, exist_ok=True)
        try:
            rows, problems = _demonstrate(home, stack)
        except (DemoFailed, ConnectionLost, Refused, HttpError, TimeoutError) as error:
            raise CommandError(f"demo: {error}", exit_codes.FAILED) from None
    print(table(rows))
    for problem in problems:
        print(f"penstock: demo: {problem}", file=sys.stderr)
    if not problems:
        print("Every number agrees: clients, gateway and Parquet.")
    return exit_codes.FAILED if problems else exit_codes.OK


def _demonstrate(home: Path, stack: ExitStack) -> tuple[dict[str, Row], list[str]]:
    gateway = _Gateway(home)
    stack.callback(gateway.kill)
    print(f"Gateway {gateway.pid} listens on {gateway.stomp} and {gateway.http}, its store is {home / 'data'}")
    rows = {name: Row() for name in ORDERS}
    _send(gateway, rows)
    _consume(gateway, rows)
    document = fetch_stat(gateway.http, None)
    rows[DEAD_LETTER_QUEUE] = Row(sent=sum(row.dead_lettered for row in rows.values()))
    exported = _export(home)
    problems = disagreements(rows, document["destinations"])
    for (name, state), count in exported.items():
        rows.setdefault(name, Row()).exported[state] = count
    problems += export_disagreements(rows)
    status = gateway.stop()
    if status != exit_codes.OK:
        problems.append(f"the gateway ended with exit status {status}; see {gateway.log}")
    return rows, problems


def _start(arguments: list[str], log: IO[bytes] | None = None) -> subprocess.Popen[str]:
    """Start a module of ours in a separate process, independent of the working directory."""
    own = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (own, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-P", "-m", *arguments]
    return subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=log, text=True
    )


class _Gateway:
    """``penstock run`` in a separate process, on free ports."""

    def __init__(self, home: Path) -> None:
        configuration = home / "penstock.yaml"
        configuration.write_text(CONFIGURATION)
        self.log = home / "gateway.log"
        arguments = ["gateway", "run", "--json", "--config", str(configuration), "--data", str(home / "data")]
        with self.log.open("ab") as log:
            self._process = _start([*arguments, "--stomp", "tcp://127.0.0.1:0", "--http", "http://127.0.0.1:0"], log)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.kill()
            raise DemoFailed(f"the gateway did not start:\n{self.log.read_text(errors='replace')[-2000:]}")
        said = json.loads(line)
        self.pid = int(said["pid"])
        self.stomp: str = said["listeners"]["stomp"]
        self.http: str = said["listeners"]["http"]
        parts = urlsplit(self.stomp)
        assert parts.hostname is not None and parts.port is not None, f"no host and port in {line!r}"
        self.host, self.port = parts.hostname, parts.port

    def stop(self) -> int:
        self._process.terminate()
        try:
            return self._process.wait(STEP_LIMIT_S)
        finally:
            self.kill()

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def orders() -> Iterator[tuple[str, bytes]]:
    """Yield destination and body of every order; the destinations take turns as long as they last."""
    left = dict(ORDERS)
    number = 0
    while any(left.values()):
        for name in left:
            if not left[name]:
                continue
            left[name] -= 1
            number += 1
            if name in CONSUMED and left[name] % UNREADABLE_EVERY == 0:
                yield f"/queue/{name}", UNREADABLE + b" order %d" % number
            else:
                order = {"order": number, "customer": f"C{number % 997:03}", "amount": number * 7919 % 100_000 / 100}
                yield f"/queue/{name}", json.dumps(order).encode()


def _send(gateway: _Gateway, rows: dict[str, Row]) -> None:
    client = BlockingClient(gateway.host, gateway.port)
    sent = [destination.removeprefix("/queue/") for destination, _ in orders()]
    with _bar(len(sent), "sending", "msg") as bar:
        for index in client.publish(orders()):
            rows[sent[index]].sent += 1
            bar.update()
    client.close()
    print(f"Sent {len(sent):,} orders, each confirmed")


def _consume(gateway: _Gateway, rows: dict[str, Row]) -> None:
    """Let two workers consume everything in CONSUMED; the first is killed when it has half of it."""
    total = sum(ORDERS[name] for name in CONSUMED)
    unreadable = sum(ORDERS[name] // UNREADABLE_EVERY for name in CONSUMED)
    with _bar(total - unreadable, "consuming", "msg") as bar:
        first = _work(gateway, bar, hold_after=total // 2, acknowledge=total, dead_letter=unreadable)
        if not first.is_holding:
            raise DemoFailed(f"the first worker ended by itself: {first}")
        bar.write(f"A worker was killed after {first.acknowledged_count:,} orders, another takes over")
        second = _work(
            gateway,
            bar,
            hold_after=-1,
            acknowledge=total - unreadable - first.acknowledged_count,
            dead_letter=unreadable - first.dead_lettered_count,
        )
    print(f"The second worker acknowledged {second.acknowledged_count:,}; {unreadable} were unreadable")
    for done in (first, second):
        for name in CONSUMED:
            rows[name].acknowledged += done.acknowledged.get(f"/queue/{name}", 0)
            rows[name].redelivered += done.redelivered.get(f"/queue/{name}", 0)
            rows[name].dead_lettered += done.dead_lettered.get(f"/queue/{name}", 0)


def _work(gateway: _Gateway, bar: tqdm[None], hold_after: int, acknowledge: int, dead_letter: int) -> Done:
    """Run one worker to its end, or kill it when it holds; return its last report."""
    counts = [str(count) for count in (MAXIMUM_REDELIVERIES, hold_after, acknowledge, dead_letter)]
    worker = ["gateway.cli.demo_worker", gateway.host, str(gateway.port), *counts]
    done = Done()
    before = 0
    with _start([*worker, *(f"/queue/{name}" for name in CONSUMED)]) as process:
        watchdog = threading.Timer(STEP_LIMIT_S, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                done = Done(**json.loads(line))
                bar.update(done.acknowledged_count - before)
                before = done.acknowledged_count
                if done.is_holding:
                    process.kill()
        finally:
            watchdog.cancel()
            if process.poll() is None and not done.is_holding:
                process.wait(STEP_LIMIT_S)
    if process.returncode != 0 and not done.is_holding:
        raise DemoFailed(f"a worker ended with exit status {process.returncode} after {done}")
    return done


def _export(home: Path) -> dict[tuple[str, str], int]:
    """Export everything and read the Parquet back; return messages by destination and delivery state."""
    from pyspark.sql import SparkSession

    from spark_bridge.export import Request, export
    from spark_bridge.spark import session

    target = home / "parquet"
    with tempfile.TemporaryDirectory(prefix="penstock-demo-spark-") as scratch:
        print("Starting Spark")
        context = session.start("local[2]", Path(scratch))
        try:
            result = export(Request(home / "data", ">", target), shows_progress=sys.stderr.isatty(), spark=context)
            print(f"Exported {result.rows:,} messages in {result.export_seconds:.1f} s, while the gateway runs")
            return _read_back(SparkSession(context), target)
        finally:
            context.stop()


def _read_back(spark: SparkSession, target: Path) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    files = sorted(str(path) for path in target.rglob("*.parquet"))
    with _bar(len(files), "reading back", "file") as bar:
        for file in files:
            messages = spark.read.parquet(file)
            for row in messages.groupBy("destination_name", "delivery_state").count().collect():
                key = (row["destination_name"], row["delivery_state"])
                counts[key] = counts.get(key, 0) + row["count"]
            bar.update()
    return counts


def _bar(total: int, what: str, unit: str) -> tqdm[None]:
    """Return a progress bar; it prints nothing if the output is no terminal."""
    from tqdm import tqdm

    return tqdm(total=total, desc=what, unit=unit, disable=None)


def disagreements(rows: dict[str, Row], destinations: list[dict[str, object]]) -> list[str]:
    """Return the differences between the gateway's counters and those of its clients."""
    by_name = {str(each["name"]): each for each in destinations if each["kind"] == "queue"}
    problems: list[str] = []
    for name, row in rows.items():
        stats = by_name.get(name)
        if stats is None:
            problems.append(f"the gateway does not know {name}")
            continue
        expected = {
            "enqueued": row.sent,
            "acknowledged": row.acknowledged,
            "redelivered": row.redelivered,
            "dead_lettered": row.dead_lettered,
            "depth": row.sent - row.acknowledged - row.dead_lettered,
        }
        problems += [
            f"{name}: {key} is {stats[key]} for the gateway, {count} for its clients"
            for key, count in expected.items()
            if stats[key] != count
        ]
    return problems


def export_disagreements(rows: dict[str, Row]) -> list[str]:
    """Return the differences between the Parquet files and the counts of the clients."""
    problems: list[str] = []
    for name, row in rows.items():
        pending = row.sent - row.acknowledged - row.dead_lettered
        states = {"acknowledged": row.acknowledged, "dead-lettered": row.dead_lettered, "pending": pending}
        expected = {state: count for state, count in states.items() if count}
        if row.exported != expected:
            problems.append(f"{name}: exported are {row.exported}, expected {expected}")
    if sum(rows[name].sent for name in ORDERS) != sum(ORDERS.values()):
        problems.append(f"not every order was sent: {[rows[name].sent for name in ORDERS]}")
    return problems


def table(rows: dict[str, Row]) -> str:
    lines = [("destination", "sent", "acknowledged", "redelivered", "dead-lettered", "exported")]
    for name, row in rows.items():
        counts = (row.sent, row.acknowledged, row.redelivered, row.dead_lettered, row.exported_count)
        lines.append((name, *(f"{count:,}" for count in counts)))  # type: ignore[arg-type]
    widths = [max(len(line[column]) for line in lines) for column in range(6)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
