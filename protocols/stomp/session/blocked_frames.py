"""Frames that wait at a gate: SENDs to an address that takes nothing now, COMMITs, and DISCONNECT behind them.

Source: docs/reference/semantics.md, "Full addresses".
"""

from __future__ import annotations

from typing import Final

from protocols.blocked_sends import BlockedSend
from protocols.stomp.codec.frames import Frame

FRAME_OVERHEAD_BYTES: Final = 512  # of a frame's objects, without the octets of head and body, rounded up


class BlockedFrame(BlockedSend):
    __slots__ = ("frame",)

    def __init__(self, frame: Frame, addresses: list[str], size_bytes: int) -> None:
        super().__init__(addresses, size_bytes)
        self.frame = frame


def frame_bytes(frame: Frame) -> int:
    """Return what a frame that waits takes.  Equal heads may be shared, and then count once each anyway."""
    head = frame.head
    size = FRAME_OVERHEAD_BYTES + len(frame.body) + len(head.block) + len(frame.receipt or b"")
    for name, value in head.headers.items():
        size += len(name) + len(value)
    return size
