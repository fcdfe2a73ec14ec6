"""SIGINT and SIGTERM of a command that works until it is stopped."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType
from typing import Any, Self


class StopSignals:
    """Inside its ``with`` block the first signal lets the work under way end; the second raises KeyboardInterrupt."""

    def __init__(self) -> None:
        self.has_come = False
        self._read, self._write = -1, -1
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._read, self._write = os.pipe()
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.has_come:
            raise KeyboardInterrupt
        self.has_come = True
        os.write(self._write, b"x")

    def wait(self, seconds: float) -> bool:
        """Wait for that long, or for a signal; return whether one has come."""
        if not self.has_come:
            select.select([self._read], [], [], seconds)
        return self.has_come
