"""Live traffic on one queue while another queue's deep backlog is read: its latency alone, and beside the read.

The backlog is in the log.  First a consumer with a selector that matches only the last message searches it; then
another consumer drains it.  The comparison is of latency, not throughput, because the load generators share the
processors.
"""

from __future__ import annotations

import shutil
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from bench.measure import Say, brief, median
from bench.plain_stomp import PlainStomp
from bench.processes import Gateway, load, memory_mib
from bench.scenarios import BASE, PERSISTENT
from bench.store_report import Rows, verdict
from protocols.stomp.codec import frames

RATE: Final = 1_000  # live messages per second
P50_MS: Final = 5.0  # of live traffic beside: unnoticed by a person who waits for an answer
MORE_P99_MS: Final = 25.0  # beside minus alone: a few turns of the loop, each serving every queue
PARTS: Final = ("alone", "selector", "drain")


def measure(loadgen: Path, home: Path, messages: int, runs: int, seconds: float, say: Say) -> dict[str, Any]:
    """Return the reports of live traffic by the read beside it, and those of the read."""
    shutil.rmtree(home, ignore_errors=True)
    gateway = Gateway(home)
    live: dict[str, list[dict[str, Any]]] = {part: [] for part in PARTS}
    arguments = [*BASE, *PERSISTENT, "--idle-timeout", "60"]

    def live_run(part: str) -> None:
        name = f"live.{part}.{len(live[part])}"
        report = load(loadgen, gateway, name, int(RATE * seconds), [*BASE, *PERSISTENT, "--rate", str(RATE)])
        report["is_whole"] = True
        live[part].append(report)
        say(f"deep   {part:9} {brief(report)}")

    try:
        gateway.start()
        live_run("alone")  # a warm-up
        live["alone"].clear()
        fill = load(loadgen, gateway, "deep", messages, [*arguments, "--mode", "produce"])
        _send_last(gateway.port)
        for _ in range(runs):
            live_run("alone")
        with ThreadPoolExecutor(1) as beside:
            searches: list[float] = []
            for _ in range(runs):
                search = beside.submit(_search, gateway.port)
                time.sleep(0.2)
                live_run("selector")
                live["selector"][-1]["is_whole"] = not search.done()
                searches.append(round(search.result(), 2))
            drain: Future[dict[str, Any]] = beside.submit(
                load, loadgen, gateway, "deep", messages, [*arguments, "--mode", "consume"]
            )
            time.sleep(0.3)
            while not drain.done():
                live_run("drain")
            live["drain"][-1]["is_whole"] = False  # the drain has ended meanwhile
            drained = drain.result()
        memory = memory_mib(gateway.pid)
    finally:
        gateway.stop()
        shutil.rmtree(home, ignore_errors=True)
    return {
        "messages": messages,
        "fill": fill,
        "live": live,
        "search_s": searches,
        "drain": drained,
        "memory_mib": memory,
    }


def _send_last(port: int) -> None:
    """Send the one message that the selector matches."""
    client = PlainStomp(port)
    client.send(b"SEND\ndestination:/queue/deep\npersistent:true\npick:me\nreceipt:1\n\nlast\0")
    client.take(frames.RECEIPT)
    client.close()


def _search(port: int) -> float:
    """Find that message with the selector, do not acknowledge it; return the seconds that it took."""
    client = PlainStomp(port)
    began = time.monotonic()
    client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/deep\nack:client-individual\nselector:pick = 'me'\n\n\0")
    client.take(frames.MESSAGE)
    found_s = time.monotonic() - began
    client.close()
    return found_s


def rows(found: dict[str, Any]) -> Rows:
    """Rows of live traffic alone, and beside the read."""
    title = f"deep: {RATE:,} live msg/s"
    latencies = {part: _latency(reports) for part, reports in found["live"].items()}
    alone_p50, alone_p99 = latencies["alone"]
    count = f"{found['messages']:,}"
    result: Rows = [(f"{title}, alone", f"p50 {alone_p50:.2f} ms, p99 {alone_p99:.2f} ms", "", "")]
    words = {
        "selector": f"a selector searches {count} messages ({median(found['search_s']):.1f} s)",
        "drain": f"{count} messages are drained ({found['drain']['consumed_per_s']:,}/s)",
    }
    for part, what in words.items():
        p50, p99 = latencies[part]
        result.append(
            (
                f"{title}, while {what}",
                f"p50 {p50:.2f} ms, p99 {p99:.2f} ms",
                f"p50 {P50_MS:g} ms, p99 {MORE_P99_MS:g} ms more than alone",
                verdict(p50 <= P50_MS and p99 <= alone_p99 + MORE_P99_MS),
            )
        )
    lost = sum(report["lost"] + report["duplicates"] for reports in found["live"].values() for report in reports)
    result.append(("deep: live messages lost or repeated", str(lost), "0", verdict(not lost)))
    return result


def _latency(reports: list[dict[str, Any]]) -> tuple[float, float]:
    """Return the medians of p50 and p99, in ms, of the runs that were beside the read from beginning to end."""
    chosen = [report for report in reports if report["is_whole"]] or reports
    p50, p99 = (median([report["latency_us"][key] / 1000 for report in chosen]) for key in ("p50", "p99"))
    return p50, p99
