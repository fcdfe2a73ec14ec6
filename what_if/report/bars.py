"""The figures of many runs as bars: a row for each run, and a line where the present configuration ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from what_if.report.results import Document
from what_if.report.svg import RIGHT, WIDTH, text
from what_if.report.text import value_of

BARS: Final = (
    ("depth, mean", "depth_mean"),
    ("time in queue, p99", "time_in_queue_p99_ms"),
    ("dead letters", "dead_letters"),
)
NAMES_LEFT: Final = 10
BARS_LEFT: Final = 372
NAME_MOST: Final = 58  # characters
NAME_END: Final = 30  # of a longer name
VALUE_WIDTH: Final = 56
ROW_HEIGHT: Final = 15
HEAD_HEIGHT: Final = 16


def draw_bars(parts: list[str], top: int, names: Sequence[str], reference: str, runs: Document) -> int:
    """Add a row for each run; return the height.  reference: the run to compare with."""
    width = (WIDTH - RIGHT - BARS_LEFT) / len(BARS)
    for number, name in enumerate(names):
        parts.append(text(NAMES_LEFT, _row(top, number) + 10, _cut(name), more=name))
    for place, (title, key) in enumerate(BARS):
        left = BARS_LEFT + place * width
        parts.append(text(left, top + 10, title, 'fill="#777777"'))
        most = max(runs[name][key] for name in names) or 1
        scale = (width - VALUE_WIDTH) / most
        for number, name in enumerate(names):
            length, y = runs[name][key] * scale, _row(top, number)
            colour = "#1f77b4" if name == reference else "#9ecae1"
            parts.append(f'<rect x="{left:.1f}" y="{y}" width="{length:.1f}" height="11" fill="{colour}"/>')
            parts.append(text(left + length + 4, y + 10, value_of(key, runs[name][key])))
        if reference in names:
            x, bottom = left + runs[reference][key] * scale, _row(top, len(names))
            ends = f'x1="{x:.1f}" y1="{top + HEAD_HEIGHT}" x2="{x:.1f}" y2="{bottom}"'
            parts.append(f'<line {ends} stroke="#1f77b4" stroke-dasharray="3 3"/>')
    return _row(0, len(names))


def _row(top: int, number: int) -> int:
    return top + HEAD_HEIGHT + number * ROW_HEIGHT


def _cut(name: str) -> str:
    """Return a name that fits: combinations differ at both ends."""
    return name if len(name) <= NAME_MOST else f"{name[: NAME_MOST - NAME_END - 1]}…{name[-NAME_END:]}"
