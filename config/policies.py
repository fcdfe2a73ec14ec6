"""The policies of a destination as frozen values, each with its decisions as pure methods.

One formula, one place: nothing else in the tree computes a redelivery delay or clamps a prefetch.  Names and defaults
are ActiveMQ's; where Penstock differs, the comment says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

UNLIMITED: Final = -1

# A back-off without a limit grows until here and stays: far beyond any use (285,000 years), and still a number
# that floating point holds exactly and that can be added to a clock without leaving 64 bits.
LONGEST_DELAY_MS: Final = 2**53

# ActiveMQ clamps to a Java short less one, for every kind of subscription.
MAXIMUM_PREFETCH: Final = 32_766

TopUp = Literal["half", "each-ack"]
Nack = Literal["redeliver", "dead-letter", "requeue"]
Blame = Literal["acked+1", "all", "none"]


@dataclass(frozen=True, slots=True)
class RedeliveryPolicy:
    """When a failed delivery is tried again, and when it is given up.  Terms: ActiveMQ RedeliveryPolicy."""

    maximum_redeliveries: int = 6  # -1: no limit; a message is delivered 1 + this often in all
    initial_redelivery_delay_ms: int = 1_000  # neither capped nor multiplied
    redelivery_delay_ms: int = 1_000
    use_exponential_back_off: bool = False
    back_off_multiplier: float = 5.0
    maximum_redelivery_delay_ms: int = UNLIMITED  # of the back-off only
    use_collision_avoidance: bool = False
    collision_avoidance_percent: int = 15

    def next_delay_ms(self, previous_ms: int) -> int:
        """Return the un-jittered delay that follows ``previous_ms``."""
        if not self.use_exponential_back_off or previous_ms <= 0 or self.back_off_multiplier <= 1.0:
            return self.redelivery_delay_ms
        delay_ms = int(min(previous_ms * self.back_off_multiplier, float(LONGEST_DELAY_MS)))
        if 0 <= self.maximum_redelivery_delay_ms < delay_ms:
            return max(self.maximum_redelivery_delay_ms, self.redelivery_delay_ms)
        return delay_ms

    def delay_ms(self, redelivery: int) -> int:
        """Return the un-jittered delay before the ``redelivery``-th redelivery, counted from 1."""
        assert redelivery >= 1, f"redelivery {redelivery} is not counted from 1"
        delay_ms = self.initial_redelivery_delay_ms
        for _ in range(redelivery - 1):
            following_ms = self.next_delay_ms(delay_ms)
            if following_ms == delay_ms:  # a constant delay, or the limit is reached: it stays
                break
            delay_ms = following_ms
        return delay_ms

    def jittered_ms(self, delay_ms: int, unit: float) -> int:
        """Spread ``delay_ms`` by at most the configured percentage either way.

        unit: a random number in [-1, 1), drawn for this one delay.  ActiveMQ starts each step from the jittered step
        before, so that its spread compounds; here it is always drawn around the un-jittered value.
        """
        if not self.use_collision_avoidance:
            return delay_ms
        return int(delay_ms + delay_ms * (self.collision_avoidance_percent / 100.0) * unit)

    def is_exhausted(self, failed_attempts: int) -> bool:
        """Say whether a message that failed ``failed_attempts`` times is not to be delivered again."""
        return 0 <= self.maximum_redeliveries < failed_attempts


@dataclass(frozen=True, slots=True)
class PrefetchPolicy:
    """How many messages a consumer may hold unsettled when it did not say.  Terms: ActiveMQ ActiveMQPrefetchPolicy."""

    queue_prefetch: int = 1_000
    topic_prefetch: int = MAXIMUM_PREFETCH
    # half: after the window has filled, wait until at most half of it is in flight, then fill it.
    top_up: TopUp = "half"


def clamp_prefetch(requested: int) -> int:
    """Return the prefetch that a consumer gets who asked for ``requested``."""
    return min(requested, MAXIMUM_PREFETCH)


@dataclass(frozen=True, slots=True)
class AddressSettings:
    """Everything that is effective for one destination."""

    redelivery: RedeliveryPolicy = field(default_factory=RedeliveryPolicy)
    prefetch: PrefetchPolicy = field(default_factory=PrefetchPolicy)
    dead_letter_address: str | None = "ActiveMQ.DLQ"  # None: exhausted messages are dropped, counted
    expiry_address: str | None = None  # None: expired messages are dropped, counted
    nack: Nack = "redeliver"
    blame: Blame = "acked+1"  # whose delivery count grows when a connection is lost
    log_non_persistent: bool = False


DEFAULT_ADDRESS_SETTINGS: Final = AddressSettings()
