"""The timers that the engine is given."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerTarget:
    """The target of a timer."""

    @abstractmethod
    def timer_fired(self, key: int) -> None:
        """Take one due timer; ``key`` is what ``call_at`` was given."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Timers:
    """One-shot timers that fire on the engine's thread, in order of time; equal times keep the order of setting."""

    @abstractmethod
    def call_at(self, when_ms: int, target: TimerTarget, key: int) -> None:
        """Call ``target.timer_fired(key)`` once monotonic time has reached ``when_ms``; it cannot be cancelled."""
