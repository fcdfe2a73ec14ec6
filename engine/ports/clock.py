"""The clock that the engine is given."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Clock:
    """Time, in milliseconds."""

    @abstractmethod
    def monotonic_ms(self) -> int:
        """Return a time that never goes back: for timers, delays, rates and heart-beats."""

    @abstractmethod
    def wall_ms(self) -> int:
        """Return milliseconds since the epoch: for store time and expiry."""
