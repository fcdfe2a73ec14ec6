"""The window of an AMQP link: what its peer has granted, in place of a base."""

from __future__ import annotations

from typing import Final

from engine.consumers.window import NOT_COUNTED, Window
from engine.values import gates

USUAL_CREDIT: Final = 1_000  # messages that AMQP clients are used to grant at a time


class CreditWindow(Window):
    """A window without a base: all of it is what the client has granted (AMQP link credit), honoured as granted.

    What may be in flight is what is and what may follow, so that settling a message gives no room for another one.
    Octets and rate limit it as any other.
    beyond: what may follow after ``stage``; both together are what other windows call ``limit``.
    """

    __slots__ = ("beyond",)

    def __init__(self) -> None:
        super().__init__(USUAL_CREDIT, False)  # by which it is decided what small messages are
        self.stage = 0
        self.beyond = 0
        self.persistent_limit = NOT_COUNTED
        self.other_limit = NOT_COUNTED
        self.is_full = True

    def arm(self) -> None:
        self._allow(self.allowed())

    def allowed(self) -> int:
        return self.stage + self.beyond

    def grant(self, credit: int) -> bool:
        """Let ``credit`` messages follow, whatever was granted before; return True if that opened a full window."""
        limit = self.in_flight + credit
        if limit <= self.paid:
            self.stage = limit
            self.beyond = 0
        else:
            self._allow(limit)
        if self.is_refusing:
            return False
        if credit == 0:
            self._fill(gates.WINDOW_FULL, self.in_flight)
            return False
        if self.is_full and self.gate == gates.WINDOW_FULL:
            self.is_full = False
            return True
        return False

    def refused(self) -> bool:
        self.was_full = False  # credit has no half
        return super().refused()

    def take(self) -> bool:
        self.in_flight += 1
        if self.in_flight < self.stage:
            return False
        if self.beyond:
            self._pay()
            if self.in_flight < self.stage + self.beyond:
                return False
        self._fill(gates.WINDOW_FULL, self.stage)
        return True

    def give_back(self, size_bytes: int) -> bool:
        self.stage -= 1
        self.in_flight -= 1
        if size_bytes > self.counted_above:
            self._return_bytes(size_bytes)
        # Without credit it stays full: settling a message gives room for none.
        return self.is_full and self.gate != gates.WINDOW_FULL and self._opens()

    def _leave(self, count: int) -> None:
        self.stage -= count
        self.in_flight -= count

    def retake(self, size_bytes: int) -> None:
        self.stage += 1
        super().retake(size_bytes)

    def describe(self) -> str:
        if self.gate == gates.WINDOW_FULL:
            return f"no credit left, {self.in_flight} in flight, resumes when the client grants more"
        return super().describe()

    def _allow(self, limit: int) -> None:
        stake = self.stake
        self.stage = limit
        if stake is not None:
            self.paid = stake.units
            self.stage = min(limit, stake.units)
            self.memory_above = stake.counts_above
            self.counted_above = min(self.bytes_above, stake.counts_above)
        self.beyond = limit - self.stage

    def _opens(self) -> bool:
        if self.in_flight >= self.allowed():
            self._fill(gates.WINDOW_FULL, self.allowed())
            return False
        return super()._opens()
