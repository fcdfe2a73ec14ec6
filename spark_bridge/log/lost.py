"""Losses that do not stop an export: damaged records, each counted, and ranges dropped while it read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from engine.store.plain_words import counted
from engine.store.read.reader import DestinationInfo
from engine.values.destination import uri
from spark_bridge.log.records import Flags, Int64s

TOLD_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Damaged:
    """Consecutive unreadable records between two log offsets.

    destination: of the messages; "" for settlements, for records other than messages of a chosen destination, and for
    records whose kind is unknown.
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
    """gone: ranges of the log that retention dropped during the read."""

    damaged: list[Damaged] = field(default_factory=list)
    gone: list[tuple[int, int]] = field(default_factory=list)

    def add(self, other: Lost) -> None:
        """Add the losses of another part of the read."""
        self.damaged += other.damaged
        self.gone += other.gone


def tell_damaged(damaged: Sequence[Damaged]) -> str:
    """Describe the damage, the largest first."""
    first = sorted(damaged, key=lambda each: (-each.records, each.from_offset))
    told = ", ".join(map(str, first[:TOLD_MAX]))
    others = first[TOLD_MAX:]
    return f"{told}, and {counted(sum(each.records for each in others), 'record')} more" if others else told


def merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges of the log in order, overlapping ones as one: each table finds what is gone by itself."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if found and first < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return found


def stretches(
    is_lost: Flags, offsets: Int64s, sizes: Int64s, numbers: Int64s, destinations: dict[int, DestinationInfo]
) -> list[Damaged]:
    """Return the marked ones of ascending records; neighbours of one destination become one stretch."""
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
