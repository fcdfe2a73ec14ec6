"""The window of an AMQP link: the credit that its peer has granted, instead of a base."""

from __future__ import annotations

from typing import Final

from engine.consumers.prefetch_window import Window
from engine.consumers.window_limits import NOT_COUNTED
from engine.values import gates

USUAL_CREDIT: Final = 1_000  # the usual grant of AMQP clients, in messages


class CreditWindow(Window):
    """A window without a base: its size is what the client has granted (AMQP link credit), exactly as granted.

    The limit is what is in flight plus what may follow, so settling a message makes no room for another.  Octets and
    rate limit it as in any window.
    beyond: what may follow after ``stage``; both together are what other windows call ``limit``.
    paid: messages that its memory pays for.
    """

    __slots__ = ("beyond", "paid")

    def __init__(self) -> None:
        super().__init__(USUAL_CREDIT, False)  # decides which messages are small
        self.stage = 0
        self.beyond = 0
        self.paid = NOT_COUNTED
        self.limits.persistent = self.limits.other = NOT_COUNTED
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

    def end_refusing(self) -> bool:
        self.was_full = False  # credit is not topped up at half
        return super().end_refusing()

    def extend(self, count: int) -> bool:
        return False  # only the client's credit makes room

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
            self.limits.give_back(size_bytes, self.in_flight)
        # Without credit it stays full: settling a message makes no room.
        return self.is_full and self.gate != gates.WINDOW_FULL and self._opens()

    def _leave(self, count: int) -> None:
        self.stage -= count
        self.in_flight -= count

    def retake(self, size_bytes: int) -> None:
        self.stage += 1
        super().retake(size_bytes)

    def resumes(self) -> str:
        return f"link credit for {self.room():,} more, which only the client renews"

    def describe(self) -> str:
        if self.gate == gates.WINDOW_FULL:
            return f"no credit left, {self.in_flight} in flight, resumes when the client grants more"
        return super().describe()

    def _allow(self, limit: int) -> None:
        limits = self.limits
        memory = limits.memory
        self.stage = limit
        if memory is not None:
            self.paid = memory.units
            self.stage = min(limit, memory.units)
            limits.memory_above = memory.counts_above
            self.counted_above = min(limits.bytes_above, memory.counts_above)
        self.beyond = limit - self.stage

    def _opens(self) -> bool:
        if self.in_flight >= self.allowed():
            self._fill(gates.WINDOW_FULL, self.allowed())
            return False
        return super()._opens()
