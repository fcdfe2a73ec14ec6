"""A file of the simulated disk: its content for reads, on the disk, and after a crash."""

from __future__ import annotations

import random

SECTOR_BYTES = 512
TORN_RATE = 0.1  # share of the sectors that survive, until one is torn


class Tearing:
    """The fate of the sector that is being written when the power is cut: only its beginning survives."""

    def __init__(self, chance: random.Random, is_over: bool) -> None:
        self._chance = chance
        self._is_over = is_over

    def size(self) -> int:
        """Return how many octets of a sector survive."""
        if self._is_over or self._chance.random() >= TORN_RATE:
            return SECTOR_BYTES
        self._is_over = True
        return self._chance.randrange(SECTOR_BYTES)


class Inode:
    """A file apart from its names.

    ordered: (number, position, octets) of the writes since the last sync, on a disk that keeps the order of writes;
    octets are None for a new size, which is the position.
    """

    def __init__(self) -> None:
        self.octets = bytearray()
        self.durable = bytearray()
        self.dirty: set[int] = set()
        self.has_lost = False  # the system could not write some of it, and has not reported that
        self.is_loss_secret = False  # the same for a sync of the whole file system: each of the two reports it once
        self.is_spoiled = False  # a sync has failed, on a disk where that spoils the file
        self.ordered: list[tuple[int, int, bytes | None]] = []

    def write(self, octets: bytes | memoryview, position: int) -> None:
        if not octets:
            return
        end = position + len(octets)
        if end > len(self.octets):
            self.octets.extend(bytes(end - len(self.octets)))
        self.octets[position:end] = octets
        self.dirty.update(range(position // SECTOR_BYTES, (end + SECTOR_BYTES - 1) // SECTOR_BYTES))

    def resize(self, size: int) -> None:
        if size < len(self.octets):
            del self.octets[size:]
        else:
            self.octets.extend(bytes(size - len(self.octets)))

    def sync(self) -> None:
        for sector in self.dirty:
            self._flush(sector)
        self.dirty.clear()
        self.ordered.clear()
        self._resize_durable(len(self.octets))

    def _flush(self, sector: int, size: int = SECTOR_BYTES) -> None:
        start = sector * SECTOR_BYTES
        octets = self.octets[start : start + size]
        if start + len(octets) > len(self.durable):
            self._resize_durable(start + len(octets))
        self.durable[start : start + len(octets)] = octets

    def _resize_durable(self, size: int) -> None:
        if size < len(self.durable):
            del self.durable[size:]
        else:
            self.durable.extend(bytes(size - len(self.durable)))

    def write_back(self, sector: int) -> None:
        """Write one sector to the disk; the content for reads does not change."""
        self._flush(sector)
        self.dirty.discard(sector)

    def lose(self) -> None:
        """Mark the pages as clean without writing them."""
        self.dirty.clear()
        self.has_lost = False
        self.is_loss_secret = True

    def lose_sector(self, sector: int) -> None:
        """Mark one page as clean without writing it; the next sync reports that."""
        self.dirty.discard(sector)
        self.has_lost = True
        self.is_loss_secret = True

    def survivor(self, chance: random.Random, tearing: Tearing) -> Inode:
        """Return the file after the crash."""
        if len(self.octets) != len(self.durable) and chance.random() < 0.5:
            self._resize_durable(len(self.octets))
        size = len(self.durable)
        for sector in sorted(self.dirty):
            if sector * SECTOR_BYTES < size and chance.random() < 0.5:
                self._flush(sector, tearing.size())
        self._resize_durable(size)
        return self._after(self.durable)

    def whole(self) -> Inode:
        """Return the file with everything that was written."""
        return self._after(self.octets)

    def as_of(self, number: int) -> Inode:
        """Return the file with all synced octets, and later writes up to a number."""
        after = self._after(self.durable)
        for one, position, octets in self.ordered:
            if one > number:
                break
            if octets is None:
                after.resize(position)
            else:
                after.write(octets, position)
        after.sync()
        return after

    def copy(self) -> Inode:
        """Return a separate file with the same history."""
        after = Inode()
        after.octets, after.durable = bytearray(self.octets), bytearray(self.durable)
        after.dirty = set(self.dirty)
        after.has_lost, after.is_loss_secret = self.has_lost, self.is_loss_secret
        after.ordered = list(self.ordered)
        return after

    def _after(self, octets: bytearray) -> Inode:
        after = Inode()
        after.octets = bytearray(octets)
        after.durable = bytearray(octets)
        return after
