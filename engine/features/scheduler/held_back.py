"""Due messages that a gate of their destination holds back: in order per destination."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.features.scheduler.pending_schedules import Schedule
from engine.features.scheduler.sorted_keys import SortedKeys
from engine.sources.composite import Target
from engine.values import gates

KEPT_OF_ONE: Final = 16  # messages per destination that stay in memory, to be ready as soon as waiting producers are
KEPT_MESSAGES: Final = 1_024  # of all destinations together
KEPT_BYTES: Final = 4 * 1024 * 1024  # likewise; one message always fits


class Held:
    """Messages held back for one destination.

    keys: as in Scheduler.  gate, destination: where the first one was refused; gates.OPEN: they fire, oldest first.
    since_ms: monotonic time of that refusal.
    """

    __slots__ = ("target", "keys", "gate", "destination", "since_ms")

    def __init__(self, target: int) -> None:
        self.target = target
        self.keys = SortedKeys()
        self.gate = gates.OPEN
        self.destination: Target | None = None
        self.since_ms = 0


@dataclass(slots=True, eq=False)
class HeldBack:
    """shut, going: destinations whose gate is shut, and those released; by their number, in rotation.

    reached: each pending key up to here is in one of them; -1 while nothing is held back.
    count: of the messages.  kept: those that stay in memory, by place, with their octets.
    """

    shut: dict[int, Held] = field(default_factory=dict)
    going: dict[int, Held] = field(default_factory=dict)
    reached: int = -1
    count: int = 0
    kept: dict[int, int] = field(default_factory=dict)
    kept_bytes: int = 0

    def find(self, target: int) -> Held | None:
        return self.shut.get(target) or self.going.get(target)

    def refuse(self, target: int, gate: int, destination: Target, now_ms: int) -> Held:
        """Note that a gate refuses due messages for ``target``."""
        one = self.going.pop(target, None) or self.shut.get(target) or Held(target)
        one.gate = gate
        one.destination = destination
        one.since_ms = now_ms
        self.shut[target] = one
        return one

    def let_go_on(self, one: Held) -> None:
        """Release the messages of a gate that has opened."""
        self.shut.pop(one.target, None)
        one.gate = gates.OPEN
        self.going[one.target] = one

    def add(self, one: Held, key: int) -> None:
        """Add a message behind all that wait there, unless it is there already."""
        if not one.keys.has(key):
            one.keys.add(key)
            self.count += 1
        if key > self.reached:
            self.reached = key

    def came_late(self, target: int, key: int) -> None:
        """Add a message that became due at a time that firing has passed."""
        one = self.find(target)
        if one is None:
            one = self.going[target] = Held(target)
        self.add(one, key)

    def remove(self, target: int, key: int, place: int) -> None:
        """Remove a message that fires, or is cancelled or moved."""
        self.kept_bytes -= self.kept.pop(place, 0)
        one = self.find(target)
        if one is None or not one.keys.has(key):
            return
        one.keys.remove(key)
        self.count -= 1
        if len(one.keys):
            return
        self.shut.pop(target, None)
        self.going.pop(target, None)
        if not self.shut and not self.going:
            self.reached = -1

    def keep(self, one: Held, schedule: Schedule) -> bool:
        """Say whether a message that is held back may stay in memory, and record it."""
        place, size = schedule.place, schedule.size
        if place in self.kept:
            return True
        if len(self.kept) >= KEPT_MESSAGES or (self.kept and self.kept_bytes + size > KEPT_BYTES):
            return False
        if schedule.key() > one.keys.after(-1, KEPT_OF_ONE)[-1]:
            return False
        self.kept[place] = size
        self.kept_bytes += size
        return True
