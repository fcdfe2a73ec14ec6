"""A report as an SVG picture: figures of each destination over time, and bars of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from what_if.report.bars import draw_bars
from what_if.report.results import Document
from what_if.report.svg import LEFT, RIGHT, WIDTH, text

PLOT_HEIGHT: Final = 120
TOP: Final = 34
GAP: Final = 36
PLOTS: Final = (
    ("depth, most", "depth_max", False),
    ("time in queue, mean, ms", "time_in_queue_mean_ms", False),
    ("dead letters, in total", "dead_letters", True),
)
COLOURS: Final = ("#555555", "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b")
PALE: Final = "#c9c9c9"  # of each combination where the runs are more than the colours
NAMED: Final = 2  # what really happened, and the present configuration
DESTINATIONS_MAX: Final = 20
RUNS_MAX: Final = 64


def chart_of(report: Document) -> str:
    """Return the picture; of many destinations, those with most messages."""
    found = sorted(report["destinations"].items(), key=lambda item: -_messages(item[1]))[:DESTINATIONS_MAX]
    names = report["runs"]
    parts: list[str] = []
    top = TOP + _legend(parts, names)
    for label, runs in found:
        parts.append(text(LEFT, top, label, 'font-weight="bold"'))
        top += 12
        drawn = _drawn(names, runs)
        for title, key, is_total in PLOTS:
            series = {name: _series(runs[name]["over_time"][key], is_total) for name in drawn}
            _plot(parts, top, title, series, names)
            top += PLOT_HEIGHT + GAP
        for share, time_ms in ((0.0, report["from_ms"]), (1.0, report["to_ms"])):
            anchor = "start" if share == 0.0 else "end"
            time = datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            parts.append(text(_x(share), top - GAP + 14, time, f'text-anchor="{anchor}"'))
        if len(names) > NAMED + 1:
            if len(drawn) < len(runs):
                words = f"{len(drawn)} of {len(runs)} runs: those with the shortest time in queue, p99"
                parts.append(text(LEFT, top + 4, words, 'fill="#777777"'))
                top += 12
            top += draw_bars(parts, top, drawn, names[NAMED - 1], runs) + GAP
        top += 10
    size = f'width="{WIDTH}" height="{top}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""])


def _drawn(names: Sequence[str], runs: Document) -> list[str]:
    """Return the runs to draw, in their order."""
    there = [name for name in names if name in runs]
    tried = [name for name in there if name not in names[:NAMED]]
    best = sorted(tried, key=lambda name: int(runs[name]["time_in_queue_p99_ms"]))[: RUNS_MAX - NAMED]
    return [name for name in there if name in {*names[:NAMED], *best}]


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
    """Add a line for each colour; return the height."""
    lines = [(name, _colour(number, names)) for number, name in enumerate(names)]
    if len(names) > len(COLOURS):
        lines = [*lines[:NAMED], (f"{len(names) - NAMED} combinations: see the bars", PALE)]
    for number, (words, colour) in enumerate(lines):
        y = TOP - 14 + 16 * number
        parts.append(f'<rect x="{LEFT}" y="{y - 7}" width="20" height="4" fill="{colour}"/>')
        parts.append(text(LEFT + 28, y, words))
    return 16 * len(lines)


def _plot(parts: list[str], top: int, title: str, series: dict[str, list[float]], names: Sequence[str]) -> None:
    most = max(max(values, default=0) for values in series.values()) or 1
    bottom = top + PLOT_HEIGHT
    parts.append(f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{PLOT_HEIGHT}" fill="#f6f6f6"/>')
    parts.append(text(LEFT + 4, top + 12, title, 'fill="#777777"'))
    parts.append(text(LEFT - 6, top + 10, f"{most:,.0f}" if most >= 10 else f"{most:g}", 'text-anchor="end"'))
    parts.append(text(LEFT - 6, bottom, "0", 'text-anchor="end"'))
    is_pale = len(names) > len(COLOURS)
    order = [*names[NAMED:], *names[:NAMED]] if is_pale else names  # the named ones above pale ones
    for name in order:
        values = series.get(name)
        if values is not None:
            number = names.index(name)
            last = max(1, len(values) - 1)
            width = 'stroke-width="1.5"' if number else 'stroke-width="4" stroke-opacity="0.5"'  # seen below others
            points = " ".join(
                f"{_x(place / last):.1f},{bottom - value / most * PLOT_HEIGHT:.1f}"
                for place, value in enumerate(values)
            )
            parts.append(f'<polyline points="{points}" fill="none" stroke="{_colour(number, names)}" {width}/>')


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _colour(number: int, names: Sequence[str]) -> str:
    return COLOURS[number] if number < NAMED or len(names) <= len(COLOURS) else PALE
