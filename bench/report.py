"""From results to a Markdown table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench import deep, schedule_bench
from bench.measure import median
from bench.scenarios import SCENARIOS, Scenario
from bench.store_report import Rows, fill_rows, queue_rows, store_rows, verdict
from gateway.process.build import COMPILED, INTERPRETED


def heading(results: dict[str, Any]) -> str:
    """Return what was measured, when and on which machine."""
    machine = results["machine"]
    return (
        f"Penstock {results['commit']}, {results.get('build', INTERPRETED)}, {results['date']}; "
        f"{machine['processors']} x {machine['processor']}, "
        f"{machine['memory_gib']} GiB, Linux {machine['kernel']}, Python {machine['python']}"
    )


def save(results: dict[str, Any], table: str, directory: Path, what: str = "") -> None:
    """Print the table; write it, and every single run, to files named after date, commit, ``what`` and build."""
    directory.mkdir(parents=True, exist_ok=True)
    parts = [results["date"][:10], results["commit"], what, results["build"] if results["build"] != INTERPRETED else ""]
    name = "-".join(filter(None, parts))
    (directory / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    (directory / f"{name}.md").write_text(table)
    print(table)


def markdown(results: dict[str, Any]) -> str:
    """Return all results: a line for the machine, a table of medians beside their targets."""
    lines = [
        f"{heading(results)}; medians of {results['runs']} runs; the load generator runs on the same machine.",
        "",
        "| | measured | to reach | |",
        "|---|---|---|---|",
    ]
    for row in _rows(results):
        lines.append(f"| {' | '.join(row)} |")
    noisy = sum(
        report["is_noisy"]
        for servers in results["scenarios"].values()
        for reports in servers.values()
        for report in reports
    )
    lines += ["", f"Bare write + fdatasync of 1 KiB: {_disk(results)}."]
    if noisy:
        lines.append(f"{noisy} runs kept although other programs used more than 0.4 cores meanwhile (`is_noisy`).")
    return "\n".join(lines) + "\n"


def _rows(results: dict[str, Any]) -> Rows:
    rows: Rows = []
    for scenario in SCENARIOS:
        if scenario.name in results["scenarios"]:
            is_compiled = results.get("build") == COMPILED
            rows += _scenario_rows(scenario, results["scenarios"][scenario.name], results["disk"], is_compiled)
    if results.get("backlog"):
        rows += _backlog_rows(results["backlog"])
    if results.get("idle"):
        start_ms, memory = median(results["idle"]["start_ms"]), median(results["idle"]["memory_mib"])
        rows.append(("start to first accepted connection", f"{start_ms:.0f} ms", "1000 ms", verdict(start_ms <= 1000)))
        rows.append(("idle memory", f"{memory:.0f} MiB", "80 MiB", verdict(memory <= 80)))
    if results.get("schedule"):
        rows += schedule_bench.rows(results["schedule"])
    if results.get("store"):
        rows += store_rows(results["store"])
    if results.get("fill10m"):
        rows += fill_rows(results["fill10m"])
    if results.get("queues10k"):
        rows += queue_rows(results["queues10k"])
    if results.get("deep"):
        rows += deep.rows(results["deep"])
    return rows


def _scenario_rows(
    scenario: Scenario, servers: dict[str, list[dict[str, Any]]], disk: list[dict[str, float]], is_compiled: bool
) -> Rows:
    reports = servers["penstock"]
    delivered = median([report["consumed_per_s"] for report in reports])
    cpu_us = median([report["watched_cpu_s"] / max(1, report["received"]) * 1e6 for report in reports])
    title = f"{scenario.name}: {scenario.title}"
    rows: Rows = []
    if scenario.delivered_per_s or not (scenario.p50_ms or scenario.confirm_disk_ratio):
        least = max(scenario.delivered_per_s, scenario.compiled_per_s if is_compiled else 0)
        wanted = f"{least:,}/s" if least else ""
        measured = f"{delivered:,.0f}/s, {cpu_us:.1f} us of processor per delivery"
        rows.append((title, measured, wanted, verdict(delivered >= least) if wanted else ""))
    lost = sum(report["lost"] + report["duplicates"] + report["out_of_order"] for report in reports)
    if lost:
        rows.append((f"{scenario.name}: lost, repeated or out of order", str(lost), "0", verdict(False)))
    if "ceiling" in servers:
        ceiling = median([report["consumed_per_s"] for report in servers["ceiling"]])
        wanted = f"{scenario.ceiling_ratio:.0%}" if scenario.ceiling_ratio else ""
        ratio = f"{delivered / ceiling:.0%} of {ceiling:,.0f}/s"
        held = verdict(delivered >= scenario.ceiling_ratio * ceiling) if wanted else ""
        rows.append((f"{scenario.name}: of the ceiling", ratio, wanted, held))
    for name, others in servers.items():
        if name not in ("penstock", "ceiling"):
            other = median([report["consumed_per_s"] for report in others])
            p50, p99 = (median([report["latency_us"][key] / 1000 for report in others]) for key in ("p50", "p99"))
            measured = f"p50 {p50:.2f} ms, p99 {p99:.2f} ms" if scenario.p50_ms else f"{other:,.0f}/s"
            ratio = "" if scenario.p50_ms else f"Penstock: {delivered / max(1, other):.2f} times"
            lost = sum(report["lost"] + report["duplicates"] + report["out_of_order"] for report in others)
            rows.append(
                (f"{scenario.name}: {name}", measured, ratio, f"{lost} lost, repeated, reordered" if lost else "")
            )
    if scenario.confirm_disk_ratio:
        p50_us = median([report["confirm_us"]["p50"] for report in reports])
        disk_us = median([run["p50_us"] for run in disk])
        measured = f"p50 {p50_us:.0f} us, {p50_us / disk_us:.1f} times the disk"
        if "ceiling" in servers:
            ceiling_us = median([report["confirm_us"]["p50"] for report in servers["ceiling"]])
            measured += f"; the ceiling {ceiling_us / disk_us:.1f} times"
        held = verdict(p50_us <= scenario.confirm_disk_ratio * disk_us)
        rows.append((title, measured, f"{scenario.confirm_disk_ratio} times", held))
    if scenario.p50_ms:
        p50, p99 = (median([report["latency_us"][key] / 1000 for report in reports]) for key in ("p50", "p99"))
        held = verdict(p50 <= scenario.p50_ms and p99 <= scenario.p99_ms)
        wanted = f"p50 {scenario.p50_ms:g} ms, p99 {scenario.p99_ms:g} ms"
        rows.append((f"{title}, end to end", f"p50 {p50:.2f} ms, p99 {p99:.2f} ms", wanted, held))
    return rows


def _backlog_rows(backlog: dict[str, Any]) -> Rows:
    count = f"{backlog['messages']:,}"
    fill, drain = backlog["fill"], backlog["drain"]
    first, last = (sum(half) / 5 for half in (backlog["fill_tenths_per_s"][:5], backlog["fill_tenths_per_s"][5:]))
    peak = max(fill["memory_mib"]["peak"], drain["memory_mib"]["peak"])
    slowest_ms = max(backlog["restart_ms"].values())
    tenths = " ".join(f"{rate / 1000:.0f}" for rate in backlog["fill_tenths_per_s"])
    drained = drain["consumed_per_s"]
    return [
        (
            f"backlog of {count}: fill",
            f"{fill['produced_per_s']:,}/s; thousands in each tenth: {tenths}",
            "does not fall",
            verdict(last >= 0.9 * first),
        ),
        ("backlog: peak memory", f"{peak:.0f} MiB", "300 MiB", verdict(peak <= 300)),
        (
            "backlog: restart to first delivery",
            ", ".join(f"after {how} {ms:.0f} ms" for how, ms in backlog["restart_ms"].items()),
            "3000 ms",
            verdict(slowest_ms <= 3000),
        ),
        ("backlog: drain", f"{drained:,}/s", "50,000/s", verdict(drained >= 50_000)),
    ]


def _disk(results: dict[str, Any]) -> str:
    p50, p99 = ([run[key] for run in results["disk"]] for key in ("p50_us", "p99_us"))
    return (
        f"p50 {median(p50):.0f} us ({min(p50):.0f} to {max(p50):.0f}), p99 {median(p99):.0f} us, of {len(p50)} rounds"
    )
