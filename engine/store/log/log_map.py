"""Where to read each log offset."""

from __future__ import annotations

from engine.store.log.segment import Segment, records_limit


class LogMap:
    """The segments at one moment; ``limits``: upper bounds for the end of each one's records."""

    __slots__ = ("bases", "limits", "paths", "editions", "end")

    def __init__(self, segments: list[Segment]) -> None:
        self.bases = [segment.base for segment in segments]
        self.end = segments[-1].limit()
        self.limits = [records_limit(segments, place) for place in range(len(segments))]
        self.paths = [segment.path() for segment in segments]
        self.editions = [segment.edition for segment in segments]

    def next_base(self, place: int) -> int:
        """Return where the segment after ``place`` begins."""
        return self.bases[place + 1] if place + 1 < len(self.bases) else self.end
