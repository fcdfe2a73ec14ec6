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
COLUMNS_MAX: Final = 6  # of more runs, each is a row
TIMES: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def text_of(report: Document) -> str:
    """Return the report for people.

    Each run is a column, with long names above the tables; in a report of many, a row.
    """
    names = report["runs"]
    is_sweep = len(names) > COLUMNS_MAX
    short = {name: name if is_sweep or len(name) <= NAME_MOST else f"run {number}" for number, name in enumerate(names)}
    legend = "\n".join(f"{short[name]}: {name}" for name in names if short[name] != name)
    tables = [_lines(label, short, runs) for label, runs in report["destinations"].items()]
    if is_sweep:
        tables = [_transposed(lines) for lines in tables]
    return "\n\n".join(filter(None, [legend, *map(_aligned, tables)]))


def _lines(label: str, names: dict[str, str], runs: Document) -> list[list[str]]:
    """Return the cells of a table."""
    lines = [[label, *names.values()]]
    for words, key in ROWS:
        values = [runs[name][key] if name in runs else None for name in names]
        if key in RARE and not any(values):
            continue
        lines.append([f"  {words}", *(value_of(key, value) for value in values)])
    return lines


def _transposed(lines: list[list[str]]) -> list[list[str]]:
    """Return a row for each run below heads of two lines: "depth, mean" is depth above mean."""
    heads, *rows = [[cell.strip() for cell in row] for row in zip(*lines, strict=True)]
    parts = [head.split(", " if ", " in head else " ", 1) for head in heads[1:]]
    return [[heads[0], *(part[0] for part in parts)], ["", *(" ".join(part[1:]) for part in parts)], *rows]


def _aligned(lines: list[list[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    )


def value_of(key: str, value: float | None) -> str:
    """Return a figure for people."""
    if value is None:
        return "-"
    return duration(int(value)) if key.endswith("_ms") else f"{value:,}"


def duration(milliseconds: int) -> str:
    """Return a time with about three digits."""
    for unit_ms, unit in TIMES:
        if milliseconds >= unit_ms:
            return f"{milliseconds / unit_ms:.3g} {unit}"
    return f"{milliseconds} ms"
