"""Followers of the commit log as it becomes durable: consume queues, the key index."""

from __future__ import annotations

from abc import abstractmethod

from engine.ports.timers import TimerTarget
from engine.store.state.closed_segment import Closing


class LogFollower(TimerTarget):
    """A part that follows the log at its own pace; for that it has timers."""

    def segments_closed(self, closings: list[Closing]) -> None:
        """Note the segments that rolls of the log have closed, before any of them is durable."""
        return None

    @abstractmethod
    def log_durable(self, offset: int) -> None:
        """Note that everything below ``offset`` survives a power cut."""
