"""The port of the log: what a store asks of it once records have their offsets, and all that it asks.

Batches of octets come in order, each with the segment that it goes to.  ``GroupCommit`` keeps them on one disk; a log
that is kept on several machines would take the same place (docs/decisions/0037).
"""

from __future__ import annotations

from abc import abstractmethod

from engine.ports.store import StoreListener
from engine.ports.timers import TimerTarget
from engine.store.log.log_follower import LogFollower
from engine.store.log.log_map import LogMap


class DurableLog(TimerTarget):
    """written: everything below is handed to the medium; durable: everything below survives a power cut."""

    __slots__ = ("written", "durable")

    def __init__(self, end: int) -> None:
        self.written = end
        self.durable = end

    @abstractmethod
    def attach(self, listener: StoreListener) -> None:
        """Tell ``listener`` from now on how far confirmations may go."""

    @abstractmethod
    def follow(self, follower: LogFollower) -> None:
        """Tell ``follower`` from now on how far the log is durable."""

    @abstractmethod
    def write(self) -> None:
        """Take the batch that was appended, and hand it to the medium, or keep it while the medium fails."""

    @abstractmethod
    def sync(self) -> None:
        """Write what was appended and make it durable; while an earlier batch is on its way, both follow it."""

    @abstractmethod
    def map(self) -> LogMap:
        """Return where any range of the log is to be read."""

    @abstractmethod
    def drop_prefix(self, base: int) -> bool:
        """Forget the segments below ``base``, where one begins; return False if the medium refuses to say so."""

    @abstractmethod
    def require(self, version: int) -> None:
        """Say, before the log needs it, which version its readers must understand; once in a life."""

    @abstractmethod
    def close(self) -> None:
        """Make everything durable now; nothing that comes later is taken.

        Raises: StoreError when the medium refuses; what was confirmed is durable anyway.
        """
