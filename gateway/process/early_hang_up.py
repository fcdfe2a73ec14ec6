"""SIGHUP while the gateway starts, which may take minutes after a crash: the reload follows once it can be done."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from types import FrameType


class EarlyHangUp:
    """Notes the signal from now on until ``end``; without a handler it would end the process."""

    def __init__(self) -> None:
        self._has_come = False
        signal.signal(signal.SIGHUP, self._note)

    def end(self, loop: asyncio.AbstractEventLoop, hang_up: Callable[[], None]) -> None:
        """Call ``hang_up`` at each further signal, and now if one has come."""
        loop.add_signal_handler(signal.SIGHUP, hang_up)
        if self._has_come:
            hang_up()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._has_come = True
