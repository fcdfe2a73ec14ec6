"""Times of a peer: its last octets, and the beginnings of what it has not completed; the same in every protocol.

A check for a fault gets the time up to which the peer's socket has been read.  So a peer whose octets came in time is
never blamed, however late we are.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

TICK_MOST_MS: Final = 1_000
TICK_LEAST_MS: Final = 20
TICK_ENDING_MS: Final = 100
CHECKS_LATE_MOST: Final = 5  # for something that is due and cannot be done, per interval
NO_FRAME: Final = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class PeerTimes:
    """opened_ms: monotonic time of the accept; received_ms, sent_ms: of the last octet in each direction.

    resumed_ms: since then we have read without a pause.
    opening: the frame that opens a connection, within connect_time_ms.  frame_time_ms: from a frame's first octet to
    its last.
    """

    __slots__ = (
        "opening",
        "connect_time_ms",
        "frame_time_ms",
        "opened_ms",
        "received_ms",
        "sent_ms",
        "resumed_ms",
        "partial_number",
        "partial_since_ms",
    )

    def __init__(self, now_ms: int, opening: str, connect_time_ms: int, frame_time_ms: int) -> None:
        self.opening = opening
        self.connect_time_ms = connect_time_ms
        self.frame_time_ms = frame_time_ms
        self.opened_ms = now_ms
        self.received_ms = now_ms
        self.sent_ms = now_ms
        self.resumed_ms = now_ms
        self.partial_number = NO_FRAME
        self.partial_since_ms = now_ms

    def frame_seen(self, number: int, now_ms: int) -> None:
        """Remember when a partial frame began.

        number: that of the connection's partial frame; NO_FRAME if there is none.
        """
        if number != self.partial_number:
            self.partial_number = number
            self.partial_since_ms = now_ms

    def reading_resumed(self, now_ms: int) -> None:
        """We read again: the peer's clocks go on from here."""
        self.received_ms = self.resumed_ms = now_ms

    def fault(self, now_ms: int, is_open: bool, is_reading_paused: bool) -> str:
        """Return the time limit that the peer has passed, "" for none.  Its clock stops while we do not read."""
        if is_reading_paused:
            return ""
        if not is_open and now_ms - self.opened_ms >= self.connect_time_ms:
            return f"no {self.opening} within {self.connect_time_ms} ms"
        since_ms = max(self.partial_since_ms, self.resumed_ms)
        if self.partial_number != NO_FRAME and now_ms - since_ms >= self.frame_time_ms:
            return f"a frame took longer than {self.frame_time_ms} ms"
        return self.silence(now_ms - self.received_ms) if is_open else ""

    @abstractmethod
    def silence(self, silent_ms: int) -> str:
        """Return the fault of a silence of ``silent_ms`` on an open connection, "" for none."""

    @abstractmethod
    def must_send(self, now_ms: int) -> bool:
        """Say whether the peer expects octets now."""

    def interval_ms(self, is_open: bool, now_ms: int) -> int:
        """Return when to check again; a connection that opens meanwhile asks sooner (``PeerSocket.tick_soon``)."""
        if is_open:
            return max(TICK_LEAST_MS, min(TICK_MOST_MS, self.open_interval_ms(now_ms)))
        left_ms = self.opened_ms + self.connect_time_ms - now_ms
        return max(TICK_LEAST_MS, min(TICK_MOST_MS, left_ms))

    def until_due_ms(self, due_ms: int, every_ms: int, now_ms: int) -> int:
        """Return when to check again for what is due at ``due_ms``; every_ms: the agreed interval, 0 for none."""
        return max(due_ms - now_ms, every_ms // CHECKS_LATE_MOST) if every_ms else TICK_MOST_MS

    @abstractmethod
    def open_interval_ms(self, now_ms: int) -> int:
        """Return when the agreed intervals of an open connection must be checked next."""
