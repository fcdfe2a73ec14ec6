"""Octets that are taken one after the other, within bounds."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from protocols.errors import FrameError


@mypyc_attr(allow_interpreted_subclasses=True)
class OctetReader:
    """position: of the next octet."""

    __slots__ = ("octets", "position")

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.position = 0

    def take(self, count: int) -> bytes:
        """Return the next ``count`` octets.  Raises: FrameError."""
        start = self.position
        end = start + count
        if count < 0 or end > len(self.octets):
            raise FrameError(f"{count} octets are announced where {len(self.octets) - start} are left")
        self.position = end
        return self.octets[start:end]
