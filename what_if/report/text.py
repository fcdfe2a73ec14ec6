"""A report as a table for each destination."""

from __future__ import annotations

from typing import Final

from what_if.report.results import Document

ROWS: Final = (
    ("messages", "messages"),
    ("acknowledged", "acknowledged"),
    ("redeliveries", "redeliveries"),
    ("dead letters", "dead_letters"),
    ("expired", "expired"),
    ("dropped", "dropped"),
    ("refused to producers", "refused"),
    ("waiting at the end", "waiting_at_end"),
    ("depth, mean", "depth_mean"),
    ("depth, most", "depth_max"),
    ("time in queue, p50", "time_in_queue_p50_ms"),
    ("time in queue, p99", "time_in_queue_p99_ms"),
    ("time in queue, most", "time_in_queue_max_ms"),
    ("producers blocked", "producers_blocked_ms"),
)
RARE: Final = ("expired", "dropped", "refused", "producers_blocked_ms")  # left out where they are 0
NAME_MOST: Final = 20  # characters of a column's head
TIMES: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def text_of(report: Document) -> str:
    """Return the report for people; long names of runs are above the tables."""
    names = report["runs"]
    short = {name: name if len(name) <= NAME_MOST else f"run {number}" for number, name in enumerate(names)}
    legend = "\n".join(f"{short[name]}: {name}" for name in names if short[name] != name)
    tables = [_table(label, short, runs) for label, runs in report["destinations"].items()]
    return "\n\n".join(filter(None, [legend, *tables]))


def _table(label: str, names: dict[str, str], runs: Document) -> str:
    lines = [[label, *names.values()]]
    for words, key in ROWS:
        values = [runs[name][key] if name in runs else None for name in names]
        if key in RARE and not any(values):
            continue
        lines.append([f"  {words}", *(_value(key, value) for value in values)])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    )


def _value(key: str, value: float | None) -> str:
    if value is None:
        return "-"
    return duration(int(value)) if key.endswith("_ms") else f"{value:,}"


def duration(milliseconds: int) -> str:
    """Return a time with about three digits."""
    for unit_ms, unit in TIMES:
        if milliseconds >= unit_ms:
            return f"{milliseconds / unit_ms:.3g} {unit}"
    return f"{milliseconds} ms"
