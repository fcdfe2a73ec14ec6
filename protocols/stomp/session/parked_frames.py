"""Frames that wait at a gate: SENDs to an address that takes nothing now, and what must not overtake them.

Source: docs/semantics.md, "Full addresses".
"""

from __future__ import annotations

from typing import Final

from engine.sources.composite import Destination, reached
from protocols.stomp.codec.frames import Frame

FRAME_OVERHEAD_BYTES: Final = 512  # of a parked frame's objects, without the octets of head and body, rounded up


def frame_bytes(frame: Frame) -> int:
    """Return what a parked frame takes.  Equal heads may be shared, and then count once each all the same."""
    head = frame.head
    size = FRAME_OVERHEAD_BYTES + len(frame.body) + len(head.block) + len(frame.receipt or b"")
    for name, value in head.headers.items():
        size += len(name) + len(value)
    return size


class ParkedFrames:
    """park_bytes: held before reading pauses, of a connection that only sends.

    park_max_bytes: the same of one that also receives, whose ACKs stand behind its SENDs in one stream: it is read
    on until here, then it gets an ERROR.  ``addresses``: what the parked frames wait for.
    deadline_ms: until then a DISCONNECT waits behind them.
    """

    __slots__ = (
        "park_bytes",
        "park_max_bytes",
        "parked",
        "parked_bytes",
        "addresses",
        "deadline_ms",
    )

    def __init__(self, park_bytes: int, park_max_bytes: int) -> None:
        self.park_bytes = park_bytes
        self.park_max_bytes = park_max_bytes
        self.parked: list[Frame] = []
        self.parked_bytes = 0
        self.addresses: set[str] = set()
        self.deadline_ms = 0

    def add(self, frame: Frame, destination: Destination, held_bytes: int = 0) -> None:
        """Let ``frame`` wait.  held_bytes: what is held for its sake besides itself, as of a COMMIT."""
        self.parked.append(frame)
        self.parked_bytes += frame_bytes(frame) + held_bytes
        self.addresses.update(_addresses(destination))

    def holds(self, destination: Destination) -> bool:
        """Say whether a SEND to ``destination`` would overtake one that waits."""
        return any(address in self.addresses for address in _addresses(destination))

    def add_last(self, frame: Frame) -> None:
        """Let DISCONNECT wait behind all others."""
        self.parked.append(frame)

    def take_all(self) -> list[Frame]:
        """Return all parked frames in order; those that must still wait are parked again by the caller."""
        parked = self.parked
        self.parked = []
        self.parked_bytes = 0
        self.addresses = set()
        return parked


def _addresses(destination: Destination) -> list[str]:
    return [target.uri() for target in reached(destination)]
