"""The octets of one write to the medium."""

from __future__ import annotations

from engine.store.log.segment import Segment


class Chunk:
    """The octets of a batch, or of its part in one segment, kept until they are durable.

    end, next_sequence, store_time_ms: the log as it is just past the chunk.
    """

    __slots__ = ("segment", "offset", "octets", "end", "next_sequence", "store_time_ms")

    def __init__(
        self, segment: Segment, offset: int, octets: bytes, end: int, next_sequence: int, store_time_ms: int
    ) -> None:
        self.segment = segment
        self.offset = offset
        self.octets = octets
        self.end = end
        self.next_sequence = next_sequence
        self.store_time_ms = store_time_ms
