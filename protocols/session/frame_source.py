"""Octets of a connection that become frames: the side of a codec that its session feeds."""

from __future__ import annotations

from abc import abstractmethod


class FrameSource:
    __slots__ = ()

    @abstractmethod
    def receive_data(self, octets: bytes) -> None:
        """Take the octets of one read."""

    @abstractmethod
    def buffered_bytes(self) -> int:
        """Return the octets that are held and not yet handed out."""

    @abstractmethod
    def drop(self) -> None:
        """Forget what is buffered."""
