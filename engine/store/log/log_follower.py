"""Followers of the commit log as it becomes durable: consume queues, the key index."""

from __future__ import annotations

from abc import abstractmethod

from engine.ports.timers import TimerTarget
from engine.store.state.closed_segment import Closing


class LogFollower(TimerTarget):
    """A part that does its work behind the log, in its own time; hence the timers."""

    def segments_closed(self, closings: list[Closing]) -> None:
        """Take what rolls of the log have closed, before any of it is durable."""
        return None

    @abstractmethod
    def log_durable(self, offset: int) -> None:
        """Take note that everything below ``offset`` survives a power cut."""
