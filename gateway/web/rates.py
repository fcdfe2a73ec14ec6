"""Messages per second of each destination, from two snapshots of its counters."""

from __future__ import annotations

from dataclasses import dataclass

from engine.stats import BrokerStats, DestinationStats


@dataclass(frozen=True, slots=True)
class Rates:
    """Messages per second."""

    enqueued: float
    delivered: float
    acknowledged: float


class RateSampler:
    """Keeps the last two samples; whoever owns it takes one a second or so."""

    __slots__ = ("_before", "_rates", "_then_s")

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], DestinationStats] = {}
        self._rates: dict[tuple[str, str], Rates] = {}
        self._then_s: float | None = None

    def sample(self, stats: BrokerStats, now_s: float) -> None:
        """Take one sample.  now_s: any monotonic clock, in seconds."""
        now = {(destination.kind, destination.name): destination for destination in stats.destinations}
        elapsed_s = now_s - self._then_s if self._then_s is not None else 0.0
        if elapsed_s > 0.0:
            # A destination that was not there before has counted from nothing.
            self._rates = {
                key: _rates(self._before.get(key), destination, elapsed_s) for key, destination in now.items()
            }
        self._before = now
        self._then_s = now_s

    def rates_of(self, kind: str, name: str) -> Rates | None:
        """Return the rates between the last two samples; None until there are two."""
        return self._rates.get((kind, name))


def _rates(before: DestinationStats | None, after: DestinationStats, elapsed_s: float) -> Rates:
    enqueued, delivered, acknowledged = (
        (before.enqueued, before.delivered, before.acknowledged) if before is not None else (0, 0, 0)
    )
    # Never below zero: a destination that was removed and made again counts from nothing.
    return Rates(
        round(max(0, after.enqueued - enqueued) / elapsed_s, 1),
        round(max(0, after.delivered - delivered) / elapsed_s, 1),
        round(max(0, after.acknowledged - acknowledged) / elapsed_s, 1),
    )
