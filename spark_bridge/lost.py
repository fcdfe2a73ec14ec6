"""Losses that an export goes on without: damaged records, each counted, and ranges dropped while it read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from engine.store.plain_words import counted
from engine.store.read.reader import DestinationInfo
from engine.values.destination import uri
from spark_bridge.arrow.records import Flags, Int64s

TOLD_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Damaged:
    """Records that cannot be read, between two log offsets; all of them are there, one behind the other.

    destination: whose messages they are; "" for settlements, for what is no message of a chosen destination, and for
    records that do not tell any more what they were.
    """

    destination: str
    records: int
    from_offset: int
    to_offset: int

    def __str__(self) -> str:
        what = f"{counted(self.records, 'message')} of {self.destination}"
        if not self.destination:
            what = f"{counted(self.records, 'record')} that may be of any destination"
        return f"{what} (log offsets {self.from_offset} to {self.to_offset})"


@dataclass(slots=True)
class Lost:
    """gone: ranges of the log that retention dropped under the reader's eyes."""

    damaged: list[Damaged] = field(default_factory=list)
    gone: list[tuple[int, int]] = field(default_factory=list)

    def add(self, other: Lost) -> None:
        """Take what another part of the read has lost."""
        self.damaged += other.damaged
        self.gone += other.gone


def tell_damaged(damaged: Sequence[Damaged]) -> str:
    """Return in words what is damaged, the largest first."""
    first = sorted(damaged, key=lambda each: (-each.records, each.from_offset))
    told = ", ".join(map(str, first[:TOLD_MAX]))
    others = first[TOLD_MAX:]
    return f"{told}, and {counted(sum(each.records for each in others), 'record')} more" if others else told


def stretches(
    is_lost: Flags, offsets: Int64s, sizes: Int64s, numbers: Int64s, destinations: dict[int, DestinationInfo]
) -> list[Damaged]:
    """Return what is marked in a list of records, ascending; neighbours in it of one destination are one stretch."""
    found: list[Damaged] = []
    places = np.flatnonzero(is_lost)
    if not len(places):
        return found
    breaks = np.flatnonzero((np.diff(places) != 1) | (np.diff(numbers[places]) != 0)) + 1
    for part in np.split(places, breaks):
        first, last = int(part[0]), int(part[-1])
        info = destinations.get(int(numbers[first]))
        name = "" if info is None else uri(info.kind, info.name)
        found.append(Damaged(name, len(part), int(offsets[first]), int(offsets[last] + sizes[last])))
    return found
