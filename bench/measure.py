"""One measurement each: a load scenario, a backlog, an idle gateway, the bare disk."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.processes import Beside, Broken, Ceiling, Gateway, Server, load, memory_mib
from bench.scenarios import BASE, PERSISTENT, Scenario

# If other programs use more than this, the run is repeated.
NOISE_CORES: Final = 0.40
NOISY_RUNS_MAX: Final = 3
RATE_SECONDS: Final = 10

Say = Callable[[str], None]


class Bench:
    """Places of files and lengths of runs.  Every server gets a fresh directory below ``work``.

    beside: brokers that run already; they take turns with the gateway, or with each other if there is no gateway.
    """

    def __init__(
        self,
        loadgen: Path,
        yardstick: Path,
        work: Path,
        seconds: float,
        runs: int,
        say: Say,
        beside: tuple[Beside, ...] = (),
        has_gateway: bool = True,
    ) -> None:
        self.loadgen = loadgen
        self.yardstick = yardstick
        self.work = work
        self.seconds = seconds
        self.runs = runs
        self.say = say
        self.beside = beside
        self.has_gateway = has_gateway
        self._count = 0

    def home(self) -> Path:
        """Return a new directory for a server."""
        self._count += 1
        home = self.work / f"{os.getpid()}-{self._count}"
        shutil.rmtree(home, ignore_errors=True)
        return home

    def _servers(self, scenario: Scenario, with_ceiling: bool) -> list[Server]:
        servers: list[Server] = [Gateway(self.home())] if self.has_gateway else []
        if with_ceiling and scenario.has_ceiling:
            servers.append(Ceiling(self.home(), self.yardstick, scenario.protocol))
        return servers + [server for server in self.beside if scenario.protocol in server.addresses]

    def scenario(self, scenario: Scenario, with_ceiling: bool) -> dict[str, list[dict[str, Any]]]:
        """Return the reports by server."""
        return self.in_turn(scenario, self._servers(scenario, with_ceiling))

    def in_turn(self, scenario: Scenario, servers: list[Server]) -> dict[str, list[dict[str, Any]]]:
        """Return the reports by server.  The servers take turns, so that both have the same conditions."""
        reports: dict[str, list[dict[str, Any]]] = {}
        try:
            counts: dict[str, int] = {}
            for server in servers:
                server.start()
                counts[server.name] = self._size(scenario, server)
                reports[server.name] = []
            for run in range(self.runs):
                for server in servers:
                    reports[server.name].append(self._quiet_run(scenario, server, counts[server.name], run))
        finally:
            for server in servers:
                server.stop()
                if server not in self.beside:
                    shutil.rmtree(server.home, ignore_errors=True)
        return reports

    def _size(self, scenario: Scenario, server: Server) -> int:
        """Return how many messages take about ``seconds``; this run also warms the server up."""
        if not scenario.sizing_messages:
            return scenario.rate * RATE_SECONDS
        arguments = [*BASE, *scenario.arguments]
        name = f"{scenario.name}.warm"
        report = load(self.loadgen, server, name, scenario.sizing_messages, arguments, scenario.protocol)
        rate = min(report["produced_per_s"], report["consumed_per_s"] / scenario.subscribers)
        return max(2_000, min(int(rate * self.seconds), 2_000_000)) // 1_600 * 1_600

    def _quiet_run(self, scenario: Scenario, server: Server, messages: int, run: int) -> dict[str, Any]:
        for attempt in range(NOISY_RUNS_MAX + 1):
            self._await_quiet_machine()
            name = f"{scenario.name}.{run}.{attempt}"
            with server.attended():
                report = load(self.loadgen, server, name, messages, [*BASE, *scenario.arguments], scenario.protocol)
            report["is_noisy"] = report["other_cores"] > NOISE_CORES
            self.say(f"{scenario.name:6} {server.name:9} {brief(report)}")
            if not report["is_noisy"]:
                break
        return report

    def _await_quiet_machine(self, limit_s: float = 40.0) -> None:
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            idle, total = processor_ticks()
            time.sleep(0.7)
            idle_after, total_after = processor_ticks()
            if (idle_after - idle) / max(1, total_after - total) > 0.88:
                return

    def backlog(self, messages: int) -> dict[str, Any]:
        """Fill a queue without a consumer, restart in both ways, drain it."""
        gateway = Gateway(self.home())
        arguments = [*BASE, *PERSISTENT, "--timeline", "--idle-timeout", "60"]
        destination = "backlog"
        try:
            gateway.start()
            self._await_quiet_machine()
            fill = load(self.loadgen, gateway, destination, messages, [*arguments, "--mode", "produce"])
            fill["memory_mib"] = memory_mib(gateway.pid)
            self.say(f"fill   {brief(fill)}  {fill['memory_mib']}")
            restarts: dict[str, float] = {}
            for how, number in (("stop", signal.SIGTERM), ("kill", signal.SIGKILL)):
                gateway.stop(number)
                began = time.monotonic()
                gateway.start()
                first_delivery(gateway.port, destination)
                restarts[how] = round((time.monotonic() - began) * 1000)
            self.say(f"restart to first delivery, ms: {restarts}")
            drain = load(self.loadgen, gateway, destination, messages, [*arguments, "--mode", "consume"])
            drain["memory_mib"] = memory_mib(gateway.pid)
            self.say(f"drain  {brief(drain)}  {drain['memory_mib']}")
        finally:
            gateway.stop()
            shutil.rmtree(gateway.home, ignore_errors=True)
        return {
            "messages": messages,
            "fill": fill,
            "fill_tenths_per_s": tenths(fill["produced_each_s"], messages, fill["produce_s"]),
            "restart_ms": restarts,
            "drain": drain,
            "drain_tenths_per_s": tenths(drain["consumed_each_s"], messages, drain["consume_s"]),
        }

    def idle(self, settle_s: float) -> dict[str, Any]:
        """Start on an empty store, several times; memory after ``settle_s``."""
        starts: list[float] = []
        memories: list[float] = []
        for _ in range(self.runs):
            gateway = Gateway(self.home())
            try:
                gateway.start()
                starts.append(round(gateway.start_ms))
                time.sleep(settle_s)
                memories.append(memory_mib(gateway.pid)["now"])
            finally:
                gateway.stop()
                shutil.rmtree(gateway.home, ignore_errors=True)
            self.say(f"idle   accepts after {starts[-1]:.0f} ms, {memories[-1]:.1f} MiB")
        return {"start_ms": starts, "memory_mib": memories, "settle_s": settle_s}

    def disk(self, seconds: float = 2.0) -> dict[str, float]:
        """Write 1 KiB over preallocated space and fdatasync, again and again, on the disk the stores are on."""
        self.work.mkdir(parents=True, exist_ok=True)
        path = self.work / f"{os.getpid()}-disk"
        size = 64 * 1024 * 1024
        octets = os.urandom(1024)
        durations: list[int] = []
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
            os.fsync(descriptor)
            end = time.monotonic() + seconds
            at = 0
            while time.monotonic() < end:
                began = time.perf_counter_ns()
                os.pwrite(descriptor, octets, at)
                os.fdatasync(descriptor)
                durations.append(time.perf_counter_ns() - began)
                at = (at + len(octets)) % size
        finally:
            os.close(descriptor)
            path.unlink()
        durations.sort()
        return {
            "per_s": round(len(durations) / seconds),
            "p50_us": round(durations[len(durations) // 2] / 1000, 1),
            "p99_us": round(durations[len(durations) * 99 // 100] / 1000, 1),
        }


def brief(report: dict[str, Any]) -> str:
    latency = report.get("latency_us", {})
    return (
        f"produced {report['produced_per_s']:>7}/s  delivered {report['consumed_per_s']:>7}/s  "
        f"lost {report['lost']} dup {report['duplicates']}  latency p50 {latency.get('p50', 0) / 1000:.2f} "
        f"p99 {latency.get('p99', 0) / 1000:.2f} ms  other {report['other_cores']}"
        f"{'  NOISY' if report.get('is_noisy') else ''}"
    )


def tenths(each_s: list[int], messages: int, total_s: float) -> list[int]:
    """Return the rate in each tenth of the time, from counts for each whole second."""
    if total_s <= 0:
        return []
    points = [(0.0, 0.0)]
    for second, count in enumerate(each_s, 1):
        if second < total_s:
            points.append((float(second), points[-1][1] + count))
    points.append((total_s, float(messages)))

    def done_at(when: float) -> float:
        for (before_s, before), (after_s, after) in itertools.pairwise(points):
            if when <= after_s:
                return before + (after - before) * (when - before_s) / (after_s - before_s)
        return float(messages)

    step = total_s / 10
    return [round((done_at((tenth + 1) * step) - done_at(tenth * step)) / step) for tenth in range(10)]


def first_delivery(port: int, queue: str) -> None:
    """Connect, subscribe, wait for one message, leave without acknowledging it."""
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(
            b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0"
            b"SUBSCRIBE\nid:1\ndestination:/queue/%s\nack:client-individual\nactivemq.prefetchSize:1\n\n\0"
            % queue.encode()
        )
        seen = b""
        while b"MESSAGE\n" not in seen:
            octets = connection.recv(65536)
            if not octets:
                raise Broken(f"no message after a restart: {seen!r}")
            seen += octets
        # An orderly close, so that no attempt is counted.
        connection.sendall(b"DISCONNECT\nreceipt:bye\n\n\0")
        while connection.recv(65536):
            pass


def processor_ticks() -> tuple[int, int]:
    """Return (idle, all) ticks of all processors since the machine started."""
    values = [int(value) for value in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return values[3] + values[4], sum(values[:8])


def median(values: list[float]) -> float:
    return float(statistics.median(values))
