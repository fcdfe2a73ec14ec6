"""A number of messages per second: the bucket of one consumer or producer.

Source: HornetQ consumer-max-rate and producer-max-rate: a token bucket filled once a second.
"""

from __future__ import annotations

from typing import Final

PERIOD_MS: Final = 1_000


class TokenBucket:
    """``rate`` tokens per second, counted from the first one taken; unused tokens of a second are lost.

    refill_ms: monotonic, when the next second begins.
    """

    __slots__ = ("rate", "tokens", "refill_ms")

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.tokens = 0
        self.refill_ms = 0

    def take(self, now_ms: int) -> bool:
        """Take one token; return False if none is left before ``refill_ms``."""
        if now_ms >= self.refill_ms:
            self.tokens = self.rate
            self.refill_ms = now_ms + PERIOD_MS
        if self.tokens == 0:
            return False
        self.tokens -= 1
        return True
