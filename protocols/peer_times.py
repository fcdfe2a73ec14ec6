"""When a peer was last heard, and how long it has taken over what it began: the same in every protocol."""

from __future__ import annotations

from typing import Final

TICK_MOST_MS: Final = 1_000
TICK_LEAST_MS: Final = 20
TICK_CONNECTING_MS: Final = 100  # once it is open, the agreed intervals must be kept soon


class PeerTimes:
    """opened_ms: monotonic time of the accept; received_ms, sent_ms: of the last octet either way."""

    __slots__ = ("opened_ms", "received_ms", "sent_ms", "partial_since_ms")

    def __init__(self, now_ms: int) -> None:
        self.opened_ms = now_ms
        self.received_ms = now_ms
        self.sent_ms = now_ms
        self.partial_since_ms = -1  # -1: no frame has begun that has not ended

    def frame_seen(self, has_partial: bool, now_ms: int) -> None:
        """Remember since when a frame has been under way."""
        if not has_partial:
            self.partial_since_ms = -1
        elif self.partial_since_ms < 0:
            self.partial_since_ms = now_ms

    def reading_resumed(self, now_ms: int) -> None:
        """We read again: the peer's clocks go on from here."""
        self.received_ms = now_ms
        if self.partial_since_ms >= 0:
            self.partial_since_ms = now_ms

    def is_frame_late(self, now_ms: int, frame_time_ms: int) -> bool:
        """Say whether a frame has been under way for ``frame_time_ms``."""
        return self.partial_since_ms >= 0 and now_ms - self.partial_since_ms >= frame_time_ms
