"""The end of a connection, in every protocol: owed confirmations are sent first, but only up to a deadline."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Ending:
    """last_words: sent after all owed confirmations.  late_words: sent instead at ``deadline_ms``.

    deadline_ms: monotonic; 0 until the end begins.
    """

    last_words: bytes = b""
    late_words: bytes = b""
    deadline_ms: int = 0

    def begin(self, last_words: bytes, late_words: bytes, deadline_ms: int) -> None:
        """End with ``last_words``, b"" for none; with ``late_words`` if the confirmations take longer."""
        self.last_words = last_words
        self.late_words = late_words
        self.deadline_ms = deadline_ms

    def take_words(self, now_ms: int, is_owed: bool) -> bytes:
        """Return the octets that may be sent now, once.  is_owed: confirmations are still owed."""
        if is_owed and now_ms < self.deadline_ms:
            return b""
        words = self.late_words if is_owed else self.last_words
        self.last_words = self.late_words = b""
        return words

    def is_over(self, now_ms: int, is_owed: bool) -> bool:
        """Say whether nothing is left to wait for."""
        return (not is_owed and not self.last_words) or 0 < self.deadline_ms <= now_ms
