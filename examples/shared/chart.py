"""Charts as SVG files, which browsers and code hosts show, in a few lines and without a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

WIDTH, HEIGHT = 880, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 84, 40
COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7")  # told apart by colour-blind readers, too
TICKS: Final = 5
LABELS_MOST: Final = 12  # on an axis
EVERY: Final = (1, 2, 5, 10, 15, 30, 60)  # of so many labels one is shown
STEPS: Final = (1, 2, 2.5, 5, 10)

Series = Mapping[str, Sequence[float]]


def columns(path: Path, title: str, unit: str, labels: Sequence[str], series: Series) -> None:
    """Draw a column for each label, the series on top of each other."""
    chart = _Chart(title, unit, labels, series, max(map(sum, zip(*series.values(), strict=True))))
    for at in range(len(labels)):
        base = 0.0
        for colour, values in zip(COLOURS, series.values(), strict=False):
            low, high = chart.y(base), chart.y(base + values[at])
            left, width = chart.x(at) - chart.step * 0.4, chart.step * 0.8
            chart.add(
                f'<rect x="{left:.1f}" y="{high:.1f}" width="{width:.1f}" height="{low - high:.1f}" fill="{colour}"/>'
            )
            base += values[at]
    chart.write(path)


def lines(path: Path, title: str, unit: str, labels: Sequence[str], series: Series) -> None:
    """Draw a line for each series."""
    chart = _Chart(title, unit, labels, series, max(map(max, series.values())))
    for colour, values in zip(COLOURS, series.values(), strict=False):
        points = " ".join(f"{chart.x(at):.1f},{chart.y(value):.1f}" for at, value in enumerate(values))
        chart.add(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
    chart.write(path)


class _Chart:
    """The frame: title, legend and axes.  step: pixels from one label to the next."""

    def __init__(self, title: str, unit: str, labels: Sequence[str], series: Series, highest: float) -> None:
        self.step = (WIDTH - LEFT - RIGHT) / len(labels)
        tick = _tick(highest)
        self._top = tick * max(1, -(-highest // tick))
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            f'<text x="{LEFT}" y="30" font-size="18" fill="#222222">{escape(title)}</text>',
        ]
        left = LEFT
        for name, colour in zip(series, COLOURS, strict=False):
            self.add(f'<rect x="{left}" y="46" width="12" height="12" fill="{colour}"/>')
            self._text(left + 18, 57, name, "start")
            left += 40 + 8 * len(name)
        self._text(8, TOP - 10, unit, "start")
        for number in range(round(self._top / tick) + 1):
            y = self.y(number * tick)
            self.add(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
            self._text(LEFT - 8, y + 4, f"{number * tick:g}", "end")
        every = next((each for each in EVERY if len(labels) <= each * LABELS_MOST), EVERY[-1])
        for at in range(0, len(labels), every):
            self._text(self.x(at), HEIGHT - BOTTOM + 20, labels[at], "middle")

    def x(self, at: int) -> float:
        return LEFT + self.step * (at + 0.5)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / self._top

    def add(self, part: str) -> None:
        self._parts.append(part)

    def _text(self, x: float, y: float, text: str, anchor: str) -> None:
        self.add(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="13" fill="#444444">{escape(text)}</text>'
        )

    def write(self, path: Path) -> None:
        path.write_text("\n".join([*self._parts, "</svg>", ""]))


def _tick(highest: float) -> float:
    """Return a round distance between two of about TICKS marks."""
    least = max(highest, 1e-9) / TICKS
    power = 10.0 ** (len(f"{least:.0f}") - 1) if least >= 1 else 10.0 ** -len(f"{1 / least:.0f}")
    return next(step * power for step in STEPS if step * power >= least)
