"""Messages that a selection found on disk ahead of the loaded ones, and may hand over before those."""

from __future__ import annotations

from typing import Final

from engine.values.delivery import GONE, Delivery

AHEAD_BYTES: Final = 32 * 1024 * 1024  # found and not handed over yet; beyond, the search pauses
AHEAD_SETTLED: Final = 1_024  # deliveries checked per call for being gone


class FoundAhead:
    """by_offset: queue offset -> delivery.  ready_bytes: of those READY.

    left: offsets that ``take_gone`` still has to check, the last first.
    """

    __slots__ = ("by_offset", "ready_bytes", "left")

    def __init__(self) -> None:
        self.by_offset: dict[int, Delivery] = {}
        self.ready_bytes = 0
        self.left: list[int] = []

    def add(self, delivery: Delivery) -> None:
        self.by_offset[delivery.message.queue_offset] = delivery
        self.ready_bytes += delivery.message.size

    def holds(self, delivery: Delivery) -> bool:
        return self.by_offset.get(delivery.message.queue_offset) is delivery

    def remove(self, delivery: Delivery) -> None:
        """Forget a delivery that is READY."""
        del self.by_offset[delivery.message.queue_offset]
        self.ready_bytes -= delivery.message.size

    def came_back(self, delivery: Delivery) -> bool:
        """Say whether a delivery that is READY again belongs here; if so, it is counted."""
        if not self.holds(delivery):
            return False
        self.ready_bytes += delivery.message.size
        return True

    def take_gone(self) -> list[int]:
        """Check the next AHEAD_SETTLED deliveries, forget those that are gone, and return their offsets."""
        by_offset = self.by_offset
        if not by_offset:
            return []
        if not self.left:
            self.left = list(by_offset)
            self.left.reverse()
        part = self.left[-AHEAD_SETTLED:]
        del self.left[-AHEAD_SETTLED:]
        gone = [offset for offset in reversed(part) if offset in by_offset and by_offset[offset].state == GONE]
        for offset in gone:
            del by_offset[offset]
        return gone

    def take_all(self) -> list[Delivery]:
        found = list(self.by_offset.values())
        self.by_offset.clear()
        self.ready_bytes = 0
        return found
