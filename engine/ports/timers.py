"""Calls at a later time, asked of the world."""

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
    """One-shot timers; they fire on the engine's thread, in order of time, then of their setting."""

    @abstractmethod
    def call_at(self, when_ms: int, target: TimerTarget, key: int) -> None:
        """Call ``target.timer_fired(key)`` once monotonic time has reached ``when_ms``; not to be taken back."""
