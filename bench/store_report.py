"""Rows of the store: by itself, ten million messages, ten thousand queues."""

from __future__ import annotations

from typing import Any

from bench.measure import median

Rows = list[tuple[str, str, str, str]]


def verdict(holds: bool) -> str:
    return "reached" if holds else "MISSED"


def store_rows(found: dict[str, Any]) -> Rows:
    """Rates of the store alone."""
    plain = median(found["plain_per_s"])
    rows: Rows = []
    for flush, wanted in (("sync", 150_000), ("async", 200_000)):
        rate = median(found[f"{flush}_per_s"])
        measured = f"{rate:,.0f} records/s, {rate / plain:.0%} of plain write + fdatasync ({plain:,.0f}/s)"
        rows.append(
            (f"store: alone, 1 KiB, batches of 1,000, {flush}", measured, f"{wanted:,}/s", verdict(rate >= wanted))
        )
    return rows


def fill_rows(found: dict[str, Any]) -> Rows:
    """A fill of many messages, restarts and queries."""
    title = f"fill10m: {found['messages']:,} messages of 256 B"
    fill = found["fill"]
    first, last = fill["tenths_per_s"][0], fill["tenths_per_s"][-1]
    peak = max(fill["memory_mib"]["peak"], found["memory_after_mib"]["peak"])
    slowest = max(found["restart_ms"].values())
    queries = found["queries"]
    rows: Rows = [
        (
            title,
            f"{fill['per_s']:,}/s; first tenth {first:,}, last tenth {last:,} ({last / first:.0%})",
            "last at least 90 % of first",
            verdict(last >= 0.9 * first),
        ),
        ("fill10m: peak memory", f"{peak:.0f} MiB", "256 MiB of messages", verdict(peak <= 350)),
        (
            "fill10m: restart to first delivery",
            ", ".join(f"after {how} {ms} ms" for how, ms in found["restart_ms"].items()),
            "3000 ms",
            verdict(slowest <= 3000),
        ),
    ]
    for what, limit_ms in (("id", 2.0), ("key", 10.0)):
        own = queries[f"by_{what}_ms"]
        others = ", ".join(
            f"{words} p50 {queries[name]['p50']:.2f} p99 {queries[name]['p99']:.2f}"
            for name, words in ((f"by_{what}_one_reader_ms", "one reader"), (f"http_{what}_ms", "HTTP"))
        )
        measured = f"p50 {own['p50']:.2f} ms, p99 {own['p99']:.2f} ms, of processor {own['cpu_p99']:.2f} ms ({others})"
        rows.append((f"fill10m: query by {what}", measured, f"p99 {limit_ms:.0f} ms", verdict(own["p99"] <= limit_ms)))
    return rows


def queue_rows(found: list[dict[str, Any]]) -> Rows:
    """Each phase's cost per queue, with few and with many."""
    few, many = found[0], found[-1]
    rows: Rows = []
    for phase, cost_us in many["us_a_queue"].items():
        before_us = few["us_a_queue"][phase]
        words = f"{few['queues']:,}: {before_us:.0f} us per queue, {many['queues']:,}: {cost_us:.0f} us"
        rows.append(
            (f"queues10k: {phase.replace('_', ' ')}", words, "no growth per queue", verdict(cost_us <= 1.5 * before_us))
        )
    peak = many["memory_mib"]["peak"]
    rows.append(("queues10k: peak memory", f"{peak:.0f} MiB ({many['idle_mib']:.0f} idle)", "", ""))
    return rows
