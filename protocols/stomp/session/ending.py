"""How a connection comes to its end: what is owed first still leaves, but it is not waited for without a limit."""

from __future__ import annotations


class Ending:
    """error: the ERROR to end with; b"" once it has left, or if there is none.

    is_late: the error is only for what is not confirmed by ``deadline_ms``; else it follows the confirmations.
    deadline_ms: monotonic; 0 as long as nothing ends.
    """

    __slots__ = ("error", "is_late", "deadline_ms")

    def __init__(self) -> None:
        self.error = b""
        self.is_late = False
        self.deadline_ms = 0

    def fail(self, error: bytes, deadline_ms: int) -> None:
        """End with ``error``, behind the confirmations that come until then."""
        self.error = error
        self.is_late = False
        self.deadline_ms = deadline_ms

    def leave(self, error: bytes, deadline_ms: int) -> None:
        """End because the client wants to; ``error`` is for the case that what it is owed takes longer."""
        self.error = error
        self.is_late = True
        self.deadline_ms = deadline_ms

    def take_error(self, now_ms: int, is_idle: bool) -> bytes:
        """Return the ERROR if it may leave now, b"" else.  is_idle: nothing is left to be confirmed."""
        if now_ms < self.deadline_ms and (self.is_late or not is_idle):
            return b""
        error = b"" if is_idle and self.is_late else self.error
        self.error = b""
        return error

    def is_over(self, now_ms: int) -> bool:
        return 0 < self.deadline_ms <= now_ms
