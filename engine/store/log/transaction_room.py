"""The room that transactions need in a segment: each is written whole into one."""

from __future__ import annotations

from dataclasses import dataclass

from engine.store.log.segment import Segment


@dataclass(slots=True, eq=False)
class TransactionRoom:
    """The open transaction, and the sizes of earlier ones.

    sequence, start, part_count: the log where the open one began.  own: the segment made for it.
    reserved: octets that a segment must have left for a transaction to begin in it.
    own_bytes: size of the largest transaction since the last roll that got its own segment.
    """

    sequence: int = 0
    start: int = 0
    part_count: int = 0
    own: Segment | None = None
    reserved: int = 0
    own_bytes: int = 0
    _largest: int = 0  # octets, in this segment
    _largest_before: int = 0  # and in the one before

    def began(self, sequence: int, start: int, part_count: int) -> None:
        """Record the end of the log as a transaction begins."""
        self.sequence = sequence
        self.start = start
        self.part_count = part_count

    def ended(self, size_bytes: int, reserved_max: int) -> None:
        """Record the size of the transaction that ends."""
        self._largest = max(self._largest, min(size_bytes, reserved_max))
        self.reserved = max(self._largest, self._largest_before)
        if self.own is not None:
            self.own_bytes = max(self.own_bytes, size_bytes)
            self.own = None

    def segment_began(self) -> None:
        """Start a new segment with a snapshot."""
        self._largest_before = self.reserved = self._largest
        self._largest = self.own_bytes = 0
