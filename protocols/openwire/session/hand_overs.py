"""Hand-overs of messages as clients name them: brokerSequenceId in dispatches, acknowledgements and RemoveInfo.

A client that reconnects repeats the acknowledgements of its open transaction, also after a restart of the gateway.
A restart counts hand-overs from 1 again.  So each number contains that of the start, and an acknowledgement of what an
earlier start has handed over finds nothing.
"""

from __future__ import annotations

from typing import Final

NUMBER_BITS: Final = 40  # of hand-overs in one start
START_BITS: Final = 22


class HandOvers:
    """base: of the numbers of this start."""

    __slots__ = ("base",)

    def __init__(self, start_count: int) -> None:
        self.base = (start_count & ((1 << START_BITS) - 1)) << NUMBER_BITS

    def tag(self, sequence: int) -> int:
        """Return the engine's number of a hand-over; for one of another start, a number that no hand-over has."""
        return sequence - self.base
