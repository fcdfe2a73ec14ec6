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
    """Keeps the last two samples; its owner takes about one per second."""

    _before: dict[tuple[str, str], DestinationStats] = field(default_factory=dict)
    _rates: dict[tuple[str, str], Rates] = field(default_factory=dict)
    _then_s: float | None = None

    def sample(self, destinations: list[DestinationStats], now_s: float) -> Iterator[None]:
        """Take one sample, in steps; it counts after the last of them.  now_s: any monotonic clock, in seconds."""
        elapsed_s = now_s - self._then_s if self._then_s is not None else 0.0
        now: dict[tuple[str, str], DestinationStats] = {}
        rates: dict[tuple[str, str], Rates] = {}
        for start in range(0, len(destinations), AT_ONCE):
            for destination in destinations[start : start + AT_ONCE]:
                key = (destination.kind, destination.name)
                now[key] = destination
                if elapsed_s > 0.0:
                    # A new destination has counted from zero.
                    rates[key] = _rates(self._before.get(key), destination, elapsed_s)
            yield
        if elapsed_s > 0.0:
            self._rates = rates
        self._before = now
        self._then_s = now_s

    def rates_of(self, kind: str, name: str) -> Rates | None:
        """Return the rates between the last two samples; None until there are two."""
        return self._rates.get((kind, name))


def _rates(before: DestinationStats | None, after: DestinationStats, elapsed_s: float) -> Rates:
    enqueued, delivered, acknowledged = (
        (before.enqueued, before.delivered, before.acknowledged) if before is not None else (0, 0, 0)
    )
    # Never below zero: a destination that was removed and made again counts from zero.
    return Rates(
        round(max(0, after.enqueued - enqueued) / elapsed_s, 1),
        round(max(0, after.delivered - delivered) / elapsed_s, 1),
        round(max(0, after.acknowledged - acknowledged) / elapsed_s, 1),
    )
