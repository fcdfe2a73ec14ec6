"""Figures of the last hour for charts: the gateway's, and those of destinations that are in use.

Memory is bounded: each ring has ``POINTS`` points, 10 KiB for the gateway and 7 KiB for each of at most
``DESTINATIONS_MAX`` destinations.  A destination gets a ring once it has messages or traffic, and loses it after an
idle hour.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from engine.values.broker_stats import BrokerStats, DestinationStats
from gateway.web.samples.rates import RateSampler

INTERVAL_S: Final = 10  # between two points
POINTS: Final = 360  # of an hour
DESTINATIONS_MAX: Final = 1_000
AT_ONCE: Final = 256  # destinations in one step
COLUMNS: Final = ("depth", "in_flight", "enqueued_per_s", "delivered_per_s", "acknowledged_per_s")
GATEWAY_COLUMNS: Final = (*COLUMNS, "memory_bytes", "connections")

Point = float | None
_GAP: Final = array("f", [math.nan]) * POINTS


class Ring:
    """The points of one hour.  ticks: intervals since any beginning.

    counts: of the messages until ``tick``, for the rates of the next point.  busy_tick: of the last point that was not
    all zeros.
    """

    __slots__ = ("tick", "busy_tick", "counts", "_columns", "_points")

    def __init__(self, columns: int) -> None:
        self.tick = -1
        self.busy_tick = -1
        self.counts: tuple[int, ...] = ()
        self._columns = columns
        self._points = array("f", [math.nan]) * (columns * POINTS)

    def put(self, tick: int, figures: Sequence[float]) -> None:
        """Add a point; what no point was added for since the last one is a gap."""
        missed = min(tick - self.tick, POINTS) - 1
        if missed > 0 and self.tick >= 0:
            self._forget((tick - missed) % POINTS, missed)
        for column, figure in enumerate(figures):
            self._points[column * POINTS + tick % POINTS] = figure
        self.tick = tick
        if any(figures):
            self.busy_tick = tick

    def _forget(self, first: int, count: int) -> None:
        """Leave out points from the place of the first one on, beyond the end from the beginning on."""
        before_end = min(count, POINTS - first)
        for start in range(0, self._columns * POINTS, POINTS):
            self._points[start + first : start + first + before_end] = _GAP[:before_end]
            self._points[start : start + count - before_end] = _GAP[before_end:count]

    def column(self, column: int, until_tick: int) -> list[Point]:
        """Return one figure over the hour that ends with a tick, the oldest point first; None where there is none."""
        first = until_tick - POINTS + 1
        points: list[Point] = []
        for tick in range(first, until_tick + 1):
            figure = self._points[column * POINTS + tick % POINTS] if tick <= self.tick else math.nan
            points.append(None if math.isnan(figure) else round(figure, 1))
        return points


@dataclass(slots=True, eq=False)
class History:
    """_tick: of the last point, -1 for none."""

    _gateway: Ring = field(default_factory=lambda: Ring(len(GATEWAY_COLUMNS)))
    _rings: dict[tuple[str, str], Ring] = field(default_factory=dict)
    _tick: int = -1

    def sample(self, stats: BrokerStats, rates: RateSampler, now_s: float) -> Iterator[None]:
        """Add a point to each ring, in steps, if the last one is of an earlier interval."""
        tick = int(now_s // INTERVAL_S)
        if tick <= self._tick:
            return
        depth = in_flight = 0
        for start in range(0, len(stats.destinations), AT_ONCE):
            for one in stats.destinations[start : start + AT_ONCE]:
                depth += one.depth
                in_flight += one.in_flight
                self._put(one, rates, tick)
            yield
        counts = rates.totals()
        of_gateway = _per_second(self._gateway, tick, counts) or [0.0] * len(counts)
        self._gateway.put(tick, [depth, in_flight, *of_gateway, stats.memory_bytes, stats.connections])
        self._gateway.counts = counts
        for key in [key for key, ring in self._rings.items() if ring.busy_tick <= tick - POINTS]:
            del self._rings[key]
        self._tick = tick

    def of_gateway(self) -> dict[str, list[Point]]:
        return {name: self._gateway.column(at, self._tick) for at, name in enumerate(GATEWAY_COLUMNS)}

    def of_destination(self, kind: str, name: str) -> dict[str, list[Point]]:
        """Return the same for a destination; one without a ring has no points."""
        ring = self._rings.get((kind, name)) or Ring(len(COLUMNS))
        return {title: ring.column(at, self._tick) for at, title in enumerate(COLUMNS)}

    def _put(self, one: DestinationStats, rates: RateSampler, tick: int) -> None:
        key = (one.kind, one.name)
        ring = self._rings.get(key)
        if ring is None and len(self._rings) >= DESTINATIONS_MAX:
            return
        counts = (one.enqueued, one.delivered, one.acknowledged)
        per_second = None if ring is None else _per_second(ring, tick, counts)
        if per_second is None:
            now = rates.rates_of(*key)
            per_second = [0.0] * len(counts) if now is None else [now.enqueued, now.delivered, now.acknowledged]
        if ring is None:
            if not (one.depth or any(per_second)):
                return
            ring = self._rings[key] = Ring(len(COLUMNS))
        ring.put(tick, [one.depth, one.in_flight, *per_second])
        ring.counts = counts


def _per_second(ring: Ring, tick: int, counts: Sequence[int]) -> list[float] | None:
    """Return the rates since the last point of a ring; None if it has none."""
    if not ring.counts:
        return None
    elapsed_s = (tick - ring.tick) * INTERVAL_S
    # Never below zero: a destination that was removed and made again counts from zero.
    return [max(0, after - before) / elapsed_s for before, after in zip(ring.counts, counts, strict=True)]
