"""SIGHUP while the gateway starts, which may take minutes after a crash: the reload follows once it can be done."""

from __future__ import annotations

import signal
from types import FrameType


class EarlyHangUp:
    """Notes the signal from now on, until another handler takes its place; without one it would end the process."""

    def __init__(self) -> None:
        self.has_come = False
        signal.signal(signal.SIGHUP, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.has_come = True
