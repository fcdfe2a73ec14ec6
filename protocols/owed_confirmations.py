"""The confirmations that a connection owes until their operations are durable, in every protocol."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Deferred:
    """A part of a connection that may send only after a confirmation."""

    __slots__ = ()

    @abstractmethod
    def release(self) -> None:
        """Send from now on."""


@mypyc_attr(allow_interpreted_subclasses=True)
class OwedConfirmations:
    """Stamped at the end of a turn, released in order as the confirmed offset moves.

    out: the connection's output of this turn.
    owed: the offset up to which the log must be durable, the octets to be sent then, and the parts that may send after
    them, None if no part can wait for them.  barrier_count: the number of entries with such parts.
    """

    __slots__ = ("out", "owed", "barrier_count")

    def __init__(self, out: list[bytes]) -> None:
        self.out = out
        self.owed: deque[tuple[int, bytes, list[Deferred] | None]] = deque()
        self.barrier_count = 0

    def owe(self, offset: int, octets: bytes, deferred: list[Deferred] | None, confirmed_offset: int) -> None:
        """Send ``octets`` once the log is durable up to ``offset``: now, if it is and nothing is owed before."""
        if self.owed or offset > confirmed_offset:
            self.owed.append((offset, octets, deferred))
            if deferred is not None:
                self.barrier_count += 1
            return
        self.out.append(octets)
        if deferred is not None:
            for one in deferred:
                one.release()

    def forget(self) -> None:
        """Owe nothing any more: nobody is there to read it."""
        self.owed.clear()
        self.barrier_count = 0

    def release(self, offset: int) -> bool:
        """Release the entries that waited for ``offset`` or less; return whether others still wait."""
        owed = self.owed
        while owed and owed[0][0] <= offset:
            _, octets, deferred = owed.popleft()
            self.out.append(octets)
            if deferred is not None:
                self.barrier_count -= 1
                for one in deferred:
                    one.release()
        return bool(owed)
