"""A report as an SVG picture: depth, time in queue and dead letters of each destination over time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from what_if.report.results import Document

WIDTH: Final = 860
PLOT_HEIGHT: Final = 120
LEFT: Final = 70
TOP: Final = 34
GAP: Final = 36
PLOTS: Final = (
    ("depth, most", "depth_max", False),
    ("time in queue, mean, ms", "time_in_queue_mean_ms", False),
    ("dead letters, in total", "dead_letters", True),
)
COLOURS: Final = ("#555555", "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b")
DESTINATIONS_MAX: Final = 20


def chart_of(report: Document) -> str:
    """Return the picture; of many destinations, those with most messages."""
    found = sorted(report["destinations"].items(), key=lambda item: -_messages(item[1]))[:DESTINATIONS_MAX]
    parts: list[str] = []
    top = TOP + _legend(parts, report["runs"])
    for label, runs in found:
        parts.append(_text(LEFT, top, label, 'font-weight="bold"'))
        top += 12
        for title, key, is_total in PLOTS:
            series = {name: _series(runs[name]["over_time"][key], is_total) for name in runs}
            _plot(parts, top, title, series, report["runs"])
            top += PLOT_HEIGHT + GAP
        for share, time_ms in ((0.0, report["from_ms"]), (1.0, report["to_ms"])):
            anchor = "start" if share == 0.0 else "end"
            time = datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            parts.append(_text(_x(share), top - GAP + 14, time, f'text-anchor="{anchor}"'))
        top += 10
    size = f'width="{WIDTH}" height="{top}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""])


def _messages(runs: Document) -> int:
    return max(int(figures["messages"]) for figures in runs.values())


def _series(values: Sequence[float], is_total: bool) -> list[float]:
    total = 0.0
    sums: list[float] = []
    for value in values:
        total += value
        sums.append(total)
    return sums if is_total else list(values)


def _legend(parts: list[str], names: Sequence[str]) -> int:
    """Add a line for each run; return the height."""
    for number, name in enumerate(names):
        y = TOP - 14 + 16 * number
        parts.append(f'<rect x="{LEFT}" y="{y - 7}" width="20" height="4" fill="{_colour(number)}"/>')
        parts.append(_text(LEFT + 28, y, name))
    return 16 * len(names)


def _plot(parts: list[str], top: int, title: str, series: dict[str, list[float]], names: Sequence[str]) -> None:
    most = max(max(values, default=0) for values in series.values()) or 1
    bottom = top + PLOT_HEIGHT
    parts.append(f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - 20}" height="{PLOT_HEIGHT}" fill="#f6f6f6"/>')
    parts.append(_text(LEFT + 4, top + 12, title, 'fill="#777777"'))
    parts.append(_text(LEFT - 6, top + 10, f"{most:,.0f}" if most >= 10 else f"{most:g}", 'text-anchor="end"'))
    parts.append(_text(LEFT - 6, bottom, "0", 'text-anchor="end"'))
    for number, name in enumerate(names):
        values = series.get(name)
        if values is not None:
            last = max(1, len(values) - 1)
            width = 'stroke-width="1.5"' if number else 'stroke-width="4" stroke-opacity="0.5"'  # seen below others
            points = " ".join(
                f"{_x(place / last):.1f},{bottom - value / most * PLOT_HEIGHT:.1f}"
                for place, value in enumerate(values)
            )
            parts.append(f'<polyline points="{points}" fill="none" stroke="{_colour(number)}" {width}/>')


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - 20)


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" {more}>{escape(text)}</text>'
