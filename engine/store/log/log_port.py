"""The port of the log: all that a store asks of it once records have their offsets, and its followers.

Batches of octets come in order, each with its segment.  ``GroupCommit`` keeps them on one disk; a log on several
machines would implement the same port (docs/decisions/0037).
"""

from __future__ import annotations

from abc import abstractmethod

from engine.ports.store import StoreListener
from engine.ports.timers import TimerTarget
from engine.store.log.segment import LogMap
from engine.store.state.consume_queue import Closing


class LogFollower(TimerTarget):
    """A part that follows the log at its own pace; for that it has timers."""

    def segments_closed(self, closings: list[Closing]) -> None:
        """Note the segments that rolls of the log have closed, before any of them is durable."""
        return None

    @abstractmethod
    def log_durable(self, offset: int) -> None:
        """Note that everything below ``offset`` survives a power cut."""


class DurableLog(TimerTarget):
    """written: everything below was handed to the medium; durable: everything below survives a power cut."""

    __slots__ = ("written", "durable")

    def __init__(self, end: int) -> None:
        self.written = end
        self.durable = end

    @abstractmethod
    def attach(self, listener: StoreListener) -> None:
        """Report to ``listener`` from now on how far confirmations may go."""

    @abstractmethod
    def follow(self, follower: LogFollower) -> None:
        """Report to ``follower`` from now on how far the log is durable."""

    @abstractmethod
    def write(self) -> None:
        """Take the appended batch and hand it to the medium, or keep it while the medium fails."""

    @abstractmethod
    def sync(self) -> None:
        """Write what was appended and make it durable; while an earlier batch is under way, both follow it."""

    @abstractmethod
    def map(self) -> LogMap:
        """Return where each range of the log can be read."""

    @abstractmethod
    def drop_prefix(self, base: int) -> bool:
        """Forget the segments below ``base``, where one begins; return False if the medium cannot record that."""

    @abstractmethod
    def require(self, version: int) -> None:
        """Record, before the log needs it, which version its readers must support; called once per version."""

    @abstractmethod
    def close(self) -> None:
        """Make everything durable now; nothing is accepted afterwards.

        Raises: StoreError if the medium refuses; what was confirmed is durable anyway.
        """
