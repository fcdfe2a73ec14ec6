"""How much a consumer may hold: base + extension - in flight.  Prefetch, link credit and pull are this one thing.

Source: ActiveMQ prefetch (semantics.md 2.1) with the half top-up in the broker: a window that has filled opens
again when at most half of it, rounded down, is in flight.
"""

from __future__ import annotations

from typing import Final

PULL_LIMIT: Final = 1  # prefetch 0: one message on demand, the next after it is settled


class Window:
    """A count of messages in flight with a limit, and whether more may be handed out now.

    limit: messages, at least 1.  resume_at: a full window opens again at this many in flight.
    """

    __slots__ = ("prefetch", "limit", "resume_at", "in_flight", "is_full")

    def __init__(self, prefetch: int, is_half_top_up: bool) -> None:
        self.prefetch = prefetch
        self.limit = prefetch if prefetch > 0 else PULL_LIMIT
        self.resume_at = self.limit // 2 if is_half_top_up else self.limit - 1
        self.in_flight = 0
        self.is_full = False

    def take(self) -> bool:
        """Count one message as in flight; return True if that filled the window."""
        self.in_flight += 1
        if self.in_flight >= self.limit:
            self.is_full = True
            return True
        return False

    def give_back(self) -> bool:
        """Count one message as no longer in flight; return True if that opened a full window."""
        self.in_flight -= 1
        if self.is_full and self.in_flight <= self.resume_at:
            self.is_full = False
            return True
        return False

    def retake(self) -> None:
        """Count a message again that had been given back inside a transaction, even past the limit."""
        self.in_flight += 1
        if self.in_flight >= self.limit:
            self.is_full = True
