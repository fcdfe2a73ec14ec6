"""When a failed message is redelivered: after which delay, and how often; the only place with these formulas.

A negative answer waits for the delay, and so does a rollback if a delay is set.  What a lost connection held is
redelivered at once.  engine.fate.redelivery applies this; engine.fate.dead_letters gives up what is exhausted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

# A back-off without a limit grows up to this: far beyond any use (285,000 years), but still exact in floating point and
# small enough to be added to a clock within 64 bits.
LONGEST_DELAY_MS: Final = 2**53

# Spreads older than this many redeliveries no longer affect a delay; otherwise each attempt would compute all again.
COMPOUNDED_STEPS: Final = 64

Spread = Literal["fresh", "compounding"]


@dataclass(frozen=True, slots=True)
class RedeliveryPolicy:
    """When a failed delivery is tried again, and when it is given up.  Terms: ActiveMQ RedeliveryPolicy.

    HornetQ's and Artemis' settings are the same policy: redelivery-delay is both the initial and the further delay, a
    redelivery-delay-multiplier is the back-off, max-delivery-attempts counts deliveries (1 + maximum_redeliveries).
    """

    maximum_redeliveries: int = 6  # -1: no limit; a message is delivered 1 + this often in all
    initial_redelivery_delay_ms: int = 1_000  # neither capped nor multiplied
    redelivery_delay_ms: int = 1_000
    use_exponential_back_off: bool = False
    back_off_multiplier: float = 5.0
    maximum_redelivery_delay_ms: int = -1  # of the back-off only; -1: no limit
    # The same as a multiple of redelivery_delay_ms, if no maximum is set; 0: none.  HornetQ's default is 10.
    maximum_redelivery_delay_factor: float = 0.0
    use_collision_avoidance: bool = False
    collision_avoidance_percent: float = 15.0
    # fresh: each delay is spread around the un-jittered value.  compounding: each step starts from the previous
    # jittered one and the initial delay is exact, as in ActiveMQ.
    collision_avoidance_spread: Spread = "fresh"
    # HornetQ's formula instead of the steps above: redelivery_delay_ms times back_off_multiplier to the power of the
    # earlier redeliveries, rounded down once.  For imported files; the steps round down each time.
    back_off_from_base: bool = False
    # False: a waiting message holds back those behind it, to keep the order.  Groups, exclusive consumers and exclusive
    # queues keep it in any case.  ActiveMQ's client blocks by default, its broker cannot.
    non_blocking_redelivery: bool = True
    # Whether a rollback waits, too.  Not a setting of its own: true if an address or a URI sets a delay
    # (config.matching).
    delays_rollback: bool = False

    def next_delay_ms(self, previous_ms: int) -> int:
        """Return the un-jittered delay that follows ``previous_ms``."""
        if not self.use_exponential_back_off or previous_ms <= 0 or self.back_off_multiplier <= 1.0:
            return self.redelivery_delay_ms
        delay_ms = int(min(previous_ms * self.back_off_multiplier, float(LONGEST_DELAY_MS)))
        maximum_ms = self.maximum_ms()
        if 0 <= maximum_ms < delay_ms:
            return max(maximum_ms, self.redelivery_delay_ms)
        return delay_ms

    def maximum_ms(self) -> int:
        """Return the limit of the back-off, -1 for none."""
        if self.maximum_redelivery_delay_ms < 0 and self.maximum_redelivery_delay_factor > 0:
            return int(self.redelivery_delay_ms * self.maximum_redelivery_delay_factor)
        return self.maximum_redelivery_delay_ms

    def delay_ms(self, redelivery: int) -> int:
        """Return the un-jittered delay before the ``redelivery``-th redelivery, counted from 1."""
        assert redelivery >= 1, f"redelivery {redelivery} is not counted from 1"
        if self.back_off_from_base:
            return self._from_base_ms(redelivery - 1)
        delay_ms = self.initial_redelivery_delay_ms
        for _ in range(redelivery - 1):
            following_ms = self.next_delay_ms(delay_ms)
            if following_ms == delay_ms:  # constant from here on, or at the limit
                break
            delay_ms = following_ms
        return delay_ms

    def _from_base_ms(self, exponent: int) -> int:
        base_ms = self.redelivery_delay_ms if exponent else self.initial_redelivery_delay_ms
        try:
            delay_ms = int(min(base_ms * self.back_off_multiplier**exponent, float(LONGEST_DELAY_MS)))
        except OverflowError:
            delay_ms = LONGEST_DELAY_MS if base_ms else 0
        maximum_ms = self.maximum_ms()
        return min(delay_ms, maximum_ms) if maximum_ms >= 0 else delay_ms

    def drawn_ms(self, redelivery: int, draw: Callable[[], float]) -> int:
        """Return the delay before the ``redelivery``-th redelivery, spread.  draw: random numbers in [-1, 1)."""
        if not self.use_collision_avoidance or self.collision_avoidance_spread == "fresh":
            return self.jittered_ms(self.delay_ms(redelivery), draw())
        first = max(1, redelivery - COMPOUNDED_STEPS)
        delay_ms = self.delay_ms(first)
        for _ in range(first, redelivery):
            delay_ms = self.jittered_ms(self.next_delay_ms(delay_ms), draw())
        return delay_ms

    def jittered_ms(self, delay_ms: int, unit: float) -> int:
        """Spread ``delay_ms`` by at most the configured percentage either way.

        unit: a random number in [-1, 1), drawn for this one delay.
        """
        if not self.use_collision_avoidance:
            return delay_ms
        return int(delay_ms + delay_ms * (self.collision_avoidance_percent / 100.0) * unit)

    def is_exhausted(self, failed_attempts: int) -> bool:
        """Say whether a message that failed ``failed_attempts`` times must not be delivered again."""
        return 0 <= self.maximum_redeliveries < failed_attempts
