"""Measure many connections: ``python -m bench.connections`` from the root of the project; bench/README.md explains it.

idle: connections that only exchange heart-beats; memory and processor time of the gateway.
senders: connections that all send at once.
connects: connections that come and go at a rate, beside established traffic.
handshakes: those of TLS, as many as the gateway takes, beside established traffic.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

from bench import connection_peers as peers
from bench.processes import ROOT, Broken, Gateway, build_loadgen, load, memory_mib, processor_s
from bench.report import heading, save
from bench.run import commit, machine, say
from bench.scenarios import BASE, PERSISTENT
from bench.store_report import Rows, verdict

IDLE: Final = 5_000
BEAT_MS: Final = 10_000
IDLE_MEMORY_MIB: Final = 400
IDLE_CORES: Final = 0.20
SENDERS: Final = 1_000
CONNECTS_PER_S: Final = 2_000
SECONDS: Final = 10.0
TRAFFIC_PER_S: Final = 1_000
BEFORE_S: Final = 2.0  # of established traffic, before and after what comes beside it
HANDSHAKES_AT_ONCE: Final = 16
SPARE_DESCRIPTORS: Final = 200
MEASUREMENTS: Final = ("idle", "senders", "connects", "handshakes")


def arguments() -> argparse.Namespace:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock-bench"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {' '.join(MEASUREMENTS)} (default: all)")
    parser.add_argument("--idle-seconds", type=float, default=60.0, help="of idle (default: 60)")
    parser.add_argument("--messages", type=int, default=20, help="of each sender (default: 20)")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the project to measure, as in bench.run")
    parser.add_argument("--loadgen", type=Path, help="an existing build of the load generator")
    parser.add_argument("--cache", type=Path, default=cache, help=f"for builds and stores (default: {cache})")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="directory for the results")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(MEASUREMENTS)
    if unknown:
        parser.error(f"no measurement {', '.join(sorted(unknown))}; there are {', '.join(MEASUREMENTS)}")
    return chosen


def idle(gateway: Gateway, seconds: float) -> dict[str, Any]:
    before = memory_mib(gateway.pid)["now"]

    async def wait() -> dict[str, Any]:
        opened = time.monotonic()
        everybody = await peers.many(gateway.port, IDLE, BEAT_MS)
        opened_s = time.monotonic() - opened
        beating = asyncio.create_task(peers.beat(everybody, BEAT_MS))
        await asyncio.sleep(BEAT_MS / 1000)
        used_s, began = processor_s(gateway.pid), time.monotonic()
        await asyncio.sleep(seconds)
        cores = (processor_s(gateway.pid) - used_s) / (time.monotonic() - began)
        found = {
            "opened_s": round(opened_s, 1),
            "lost": sum(peer.is_lost for peer in everybody),
            "cores": round(cores, 3),
            "before_mib": before,
            "memory_mib": memory_mib(gateway.pid),
        }
        beating.cancel()
        for peer in everybody:
            peer.leave()
        return found

    return peers.run(wait())


def senders(gateway: Gateway, messages: int) -> dict[str, Any]:
    async def send() -> dict[str, Any]:
        everybody = await peers.many(gateway.port, SENDERS)
        used_s = processor_s(gateway.pid)
        latencies, ends = await peers.send_at_once(everybody, messages, 1024)
        found = {
            "messages": len(latencies),
            "per_s": round(len(latencies) / ends[-1]),
            "first_done_s": round(ends[0], 2),
            "last_done_s": round(ends[-1], 2),
            "processor_s": round(processor_s(gateway.pid) - used_s, 2),
            "memory_mib": memory_mib(gateway.pid),
            **peers.quantiles(latencies),
        }
        for peer in everybody:
            peer.leave()
        return found

    return peers.run(send())


def beside_traffic(loadgen: Path, gateway: Gateway, what: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    """Return the reports of established traffic alone and beside ``what(*given)``, which runs in its own process."""
    messages = int(TRAFFIC_PER_S * (SECONDS + 2 * BEFORE_S))
    words = [*BASE, *PERSISTENT, "--rate", str(TRAFFIC_PER_S)]
    load(loadgen, gateway, "warm", messages // 10, words)
    alone = load(loadgen, gateway, "alone", messages, words)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        process.submit(os.getpid).result()  # it has started
        used_s = processor_s(gateway.pid)
        begun = process.submit(_later, BEFORE_S, what, *given)
        beside = load(loadgen, gateway, "beside", messages, words)
        others = begun.result()
    others["processor_s"] = round(processor_s(gateway.pid) - used_s - alone["watched_cpu_s"], 2)
    return {"alone": alone, "beside": beside, "others": others, "memory_mib": memory_mib(gateway.pid)}


def _later(wait_s: float, what: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    time.sleep(wait_s)
    return what(*given)


def handshakes(loadgen: Path, home: Path) -> dict[str, Any]:
    certificate, key = home / "gateway.pem", home / "gateway.key"
    home.mkdir(parents=True)
    made = ["tls", "self-signed", "--certificate", str(certificate), "--key", str(key)]
    subprocess.run([sys.executable, "-m", "gateway", *made], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    config = home / "penstock.yaml"
    config.write_text(f"tls: {{certificate: {json.dumps(str(certificate))}, key: {json.dumps(str(key))}}}\n")
    gateway = Gateway(home, ("--config", str(config)))
    gateway.start()
    try:
        given = (gateway.port, str(certificate), HANDSHAKES_AT_ONCE, SECONDS)
        return beside_traffic(loadgen, gateway, peers.shake_hands, *given)
    finally:
        gateway.stop()


def measure(chosen: argparse.Namespace) -> dict[str, Any]:
    wanted = chosen.names or MEASUREMENTS
    needs_traffic = {"connects", "handshakes"} & set(wanted)
    loadgen = (chosen.loadgen or build_loadgen(chosen.cache)) if needs_traffic else Path()
    found: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d %H:%M:%S"),
        "commit": commit(),
        "build": Gateway.build(),
        "machine": machine(),
    }
    with_gateway: dict[str, Callable[[Gateway], dict[str, Any]]] = {
        "idle": lambda gateway: idle(gateway, chosen.idle_seconds),
        "senders": lambda gateway: senders(gateway, chosen.messages),
        "connects": lambda gateway: beside_traffic(
            loadgen, gateway, peers.open_at_rate, gateway.port, CONNECTS_PER_S, SECONDS
        ),
    }
    for name in wanted:
        home = chosen.cache / "stores" / f"{os.getpid()}-{name}"
        shutil.rmtree(home, ignore_errors=True)
        try:
            if name == "handshakes":
                found[name] = handshakes(loadgen, home)
                continue
            gateway = Gateway(home)
            gateway.start()
            try:
                found[name] = with_gateway[name](gateway)
            finally:
                gateway.stop()
        finally:
            shutil.rmtree(home, ignore_errors=True)
            say(f"{name:10} {found.get(name)}")
    return found


def rows(found: dict[str, Any]) -> Rows:
    result: Rows = []
    if "idle" in found:
        one = found["idle"]
        title = f"idle: {IDLE:,} connections, heart-beats every {BEAT_MS // 1000} s both ways"
        peak = one["memory_mib"]["peak"]
        held = verdict(peak <= IDLE_MEMORY_MIB)
        measured = f"{one['memory_mib']['now']:.0f} MiB, at most {peak:.0f} ({one['before_mib']:.0f} without them)"
        result.append((f"{title}: memory", measured, f"{IDLE_MEMORY_MIB} MiB", held))
        held = verdict(one["cores"] < IDLE_CORES)
        result.append((f"{title}: processor", f"{one['cores']:.1%} of a core", f"{IDLE_CORES:.0%}", held))
        result.append((f"{title}: lost", str(one["lost"]), "0", verdict(not one["lost"])))
    if "senders" in found:
        one = found["senders"]
        measured = (
            f"{one['messages']:,} messages, {one['per_s']:,}/s; receipts after p50 {one['p50_ms']:.0f} ms, "
            f"p99 {one['p99_ms']:.0f} ms, at most {one['max_ms']:.0f} ms; the first is done after "
            f"{one['first_done_s']:.1f} s, the last after {one['last_done_s']:.1f} s"
        )
        result.append((f"senders: {SENDERS:,} connections send at once, each after its receipt", measured, "all", ""))
    for name, what in (
        ("connects", f"{CONNECTS_PER_S:,} connections a second for {SECONDS:g} s"),
        ("handshakes", f"TLS handshakes, {HANDSHAKES_AT_ONCE} at a time for {SECONDS:g} s"),
    ):
        if name in found:
            result += _beside_rows(name, what, found[name])
    return result


def _beside_rows(name: str, what: str, found: dict[str, Any]) -> Rows:
    others, alone, beside = found["others"], found["alone"], found["beside"]
    each_ms = others["processor_s"] / max(1, others["made"]) * 1000
    measured = (
        f"{others['made']:,} made, {others['per_s']:,.0f}/s; CONNECTED after p50 {others['p50_ms']:.1f} ms, "
        f"p99 {others['p99_ms']:.1f} ms; {each_ms:.2f} ms of the gateway's processor each; "
        f"this client was {others['late_ms']:.0f} ms late"
    )
    failed = sum(others["failures"].values())
    lost = sum(beside[key] for key in ("lost", "duplicates", "out_of_order"))
    return [
        (f"{name}: {what}", measured, "", ""),
        (f"{name}: failed", f"{failed} {others['failures'] or ''}".strip(), "0", verdict(not failed)),
        (f"{name}: established traffic of {TRAFFIC_PER_S:,}/s, alone", _latency(alone), "", ""),
        (f"{name}: the same beside", _latency(beside), "", ""),
        (f"{name}: of it lost, repeated or out of order", str(lost), "0", verdict(not lost)),
    ]


def _latency(report: dict[str, Any]) -> str:
    latency = {key: report["latency_us"][key] / 1000 for key in ("p50", "p99", "max")}
    words = [f"{key} {value:.2f} ms" for key, value in latency.items()]
    return ", ".join(words) + f"; everything else on the machine used {report['other_cores']:.1f} cores"


def markdown(found: dict[str, Any]) -> str:
    lines = [
        f"{heading(found)}; all clients run on the same machine.",
        "",
        "| | measured | to reach | |",
        "|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(row)} |" for row in rows(found)]
    return "\n".join(lines) + "\n"


def main() -> int:
    chosen = arguments()
    Gateway.tree = chosen.tree.resolve()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and most < IDLE + SPARE_DESCRIPTORS:
        say(f"bench: this process may open {most} files, {IDLE + SPARE_DESCRIPTORS} are needed (ulimit -Hn)")
        return 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        found = measure(chosen)
    except (Broken, peers.Lost, TimeoutError, OSError, subprocess.CalledProcessError) as error:
        say(f"bench: {error or type(error).__name__}")
        return 1
    save(found, markdown(found), chosen.results, "connections")
    return 0


if __name__ == "__main__":
    sys.exit(main())
