"""Messages per second of each destination, from two snapshots of its counters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from engine.values.broker_stats import DestinationStats


@dataclass(frozen=True, slots=True)
class Rates:
    """Messages per second."""

    enqueued: float
    delivered: float
    acknowledged: float


AT_ONCE: Final = 256  # destinations in one step of a sample


@dataclass(slots=True, eq=False)
class RateSampler:
    """Keeps the last two samples; its owner takes about one per second.

    _totals: messages enqueued, delivered and acknowledged between the first sample and the last, of destinations that
    are gone, too.
    """

    _before: dict[tuple[str, str], DestinationStats] = field(default_factory=dict)
    _rates: dict[tuple[str, str], Rates] = field(default_factory=dict)
    _then_s: float | None = None
    _totals: tuple[int, ...] = (0, 0, 0)

    def sample(self, destinations: list[DestinationStats], now_s: float) -> Iterator[None]:
        """Take one sample, in steps; it counts after the last of them.  now_s: any monotonic clock, in seconds."""
        elapsed_s = now_s - self._then_s if self._then_s is not None else 0.0
        now: dict[tuple[str, str], DestinationStats] = {}
        rates: dict[tuple[str, str], Rates] = {}
        totals = list(self._totals)
        for start in range(0, len(destinations), AT_ONCE):
            for destination in destinations[start : start + AT_ONCE]:
                key = (destination.kind, destination.name)
                now[key] = destination
                if elapsed_s > 0.0:
                    # A new destination has counted from zero.
                    grown = _growth(self._before.get(key), destination)
                    rates[key] = Rates(*[round(count / elapsed_s, 1) for count in grown])
                    totals = [total + count for total, count in zip(totals, grown, strict=True)]
            yield
        if elapsed_s > 0.0:
            self._rates = rates
            self._totals = tuple(totals)
        self._before = now
        self._then_s = now_s

    def rates_of(self, kind: str, name: str) -> Rates | None:
        """Return the rates between the last two samples; None until there are two."""
        return self._rates.get((kind, name))

    def totals(self) -> tuple[int, ...]:
        """Return the messages of all destinations since the first sample: enqueued, delivered, acknowledged."""
        return self._totals


def _growth(before: DestinationStats | None, after: DestinationStats) -> tuple[int, int, int]:
    """Return how many messages were enqueued, delivered and acknowledged between two samples."""
    enqueued, delivered, acknowledged = (
        (before.enqueued, before.delivered, before.acknowledged) if before is not None else (0, 0, 0)
    )
    # Never below zero: a destination that was removed and made again counts from zero.
    return (
        max(0, after.enqueued - enqueued),
        max(0, after.delivered - delivered),
        max(0, after.acknowledged - acknowledged),
    )
