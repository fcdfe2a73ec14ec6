"""What is counted and measured of one queue or durable subscription, really or in a simulation: one way for both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.values.outcomes import ACKNOWLEDGED, DEAD_LETTERED, DROPPED, EXPIRED

EXACT_MS: Final = 1_000  # longer waits are counted with three digits
BUCKETS: Final = 240  # parts of the time that is simulated
PERCENTILES: Final = (50, 99)


@dataclass(slots=True)
class Period:
    """From ``start_ms`` to ``end_ms``, in parts of ``part_ms``."""

    start_ms: int
    end_ms: int
    part_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self.part_ms = max(1, -(-(self.end_ms - self.start_ms + 1) // BUCKETS))

    def parts(self) -> int:
        return (self.end_ms - self.start_ms) // self.part_ms + 1

    def part(self, time_ms: int) -> int:
        return max(0, min(time_ms, self.end_ms) - self.start_ms) // self.part_ms


class Figures:
    """Of one queue or subscription.

    came, depth: messages that have come, and those that have not left yet.
    waits: how many messages were acknowledged after how many milliseconds.
    areas: by part, the sum of depth times milliseconds; most: by part, the greatest depth.
    dead_by_part, waits_by_part, done_by_part: dead letters, the sum of waits and the number of acknowledged messages.
    """

    __slots__ = (
        "period",
        "came",
        "acknowledged",
        "redelivered",
        "dead",
        "expired",
        "dropped",
        "refused",
        "blocked_ms",
        "depth",
        "deepest",
        "waits",
        "longest_ms",
        "areas",
        "most",
        "dead_by_part",
        "waits_by_part",
        "done_by_part",
        "_since_ms",
    )

    def __init__(self, period: Period) -> None:
        parts = period.parts()
        self.period = period
        self.came = 0
        self.acknowledged = 0
        self.redelivered = 0
        self.dead = 0
        self.expired = 0
        self.dropped = 0
        self.refused = 0
        self.blocked_ms = 0
        self.depth = 0
        self.deepest = 0
        self.waits: dict[int, int] = {}
        self.longest_ms = 0
        self.areas = [0] * parts
        self.most = [0] * parts
        self.dead_by_part = [0] * parts
        self.waits_by_part = [0] * parts
        self.done_by_part = [0] * parts
        self._since_ms = period.start_ms

    def come(self, now_ms: int) -> None:
        """Count a message that has come."""
        self._pass(now_ms)
        self.came += 1
        self.depth += 1
        if self.depth > self.deepest:
            self.deepest = self.depth
        part = self.period.part(now_ms)
        if self.depth > self.most[part]:
            self.most[part] = self.depth

    def leave(self, now_ms: int, wait_ms: int, outcome: int) -> None:
        """Count a message that is settled.  wait_ms: since it came."""
        self._pass(now_ms)
        self.depth -= 1
        part = self.period.part(now_ms)
        if outcome == ACKNOWLEDGED:
            self.acknowledged += 1
            self.done_by_part[part] += 1
            self.waits_by_part[part] += wait_ms
            if wait_ms > self.longest_ms:
                self.longest_ms = wait_ms
            counted = wait_ms if wait_ms < EXACT_MS else three_digits(wait_ms)
            self.waits[counted] = self.waits.get(counted, 0) + 1
        elif outcome == DEAD_LETTERED:
            self.dead += 1
            self.dead_by_part[part] += 1
        elif outcome == EXPIRED:
            self.expired += 1
        elif outcome == DROPPED:
            self.dropped += 1

    def fail(self) -> None:
        """Count an attempt that failed; the message is tried again."""
        self.redelivered += 1

    def end(self) -> None:
        """Count the time up to the end of the period."""
        self._pass(self.period.end_ms + 1)

    def percentile(self, percent: int) -> int:
        """Return the wait that so many percent of the acknowledged messages did not exceed."""
        wanted = -(-sum(self.waits.values()) * percent // 100)
        for wait_ms in sorted(self.waits):
            wanted -= self.waits[wait_ms]
            if wanted <= 0:
                return wait_ms
        return 0

    def mean_depth(self) -> float:
        return round(sum(self.areas) / (self.period.end_ms + 1 - self.period.start_ms), 2)

    def document(self) -> dict[str, object]:
        """Return all of it for JSON."""
        parts = range(len(self.areas))
        return {
            "messages": self.came,
            "acknowledged": self.acknowledged,
            "redeliveries": self.redelivered,
            "dead_letters": self.dead,
            "expired": self.expired,
            "dropped": self.dropped,
            "refused": self.refused,
            "waiting_at_end": self.depth,
            "depth_mean": self.mean_depth(),
            "depth_max": self.deepest,
            **{f"time_in_queue_p{percent}_ms": self.percentile(percent) for percent in PERCENTILES},
            "time_in_queue_max_ms": self.longest_ms,
            "producers_blocked_ms": self.blocked_ms,
            "over_time": {
                "depth_mean": [round(self.areas[part] / self._length_ms(part), 2) for part in parts],
                "depth_max": self.most,
                "time_in_queue_mean_ms": [
                    round(self.waits_by_part[part] / max(1, self.done_by_part[part]), 1) for part in parts
                ],
                "dead_letters": self.dead_by_part,
            },
        }

    def _length_ms(self, part: int) -> int:
        start_ms = self.period.start_ms + part * self.period.part_ms
        return min(self.period.part_ms, self.period.end_ms + 1 - start_ms)

    def _pass(self, now_ms: int) -> None:
        """Add the depth up to now to the parts of the period."""
        since_ms = self._since_ms
        if now_ms <= since_ms:
            return
        self._since_ms = now_ms
        depth = self.depth
        if not depth:
            return
        period = self.period
        part_ms = period.part_ms
        part = (since_ms - period.start_ms) // part_ms
        most = self.most
        while since_ms < now_ms and part < len(most):
            until_ms = min(now_ms, period.start_ms + (part + 1) * part_ms)
            self.areas[part] += depth * (until_ms - since_ms)
            if depth > most[part]:
                most[part] = depth
            since_ms = until_ms
            part += 1


def three_digits(value: int) -> int:
    """Return a number rounded down to its first three digits."""
    unit = 1
    while value // unit >= EXACT_MS:
        unit *= 10
    return value // unit * unit
