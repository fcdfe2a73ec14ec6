"""Members in the order in which they came, for work on all of them that takes several turns."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class Roster(Generic[K, T]):
    """members: those present, by key.

    keys: of these, and of some that have gone.  All walks share this list, so thousands of them at once cost a place
    each.  When more than half of its members have gone a new list begins; the old one lasts as long as its walks.
    """

    __slots__ = ("members", "keys", "_gone_count")

    def __init__(self, members: dict[K, T]) -> None:
        self.members = members
        self.keys: list[K] = list(members)
        self._gone_count = 0

    def add(self, key: K, member: T) -> None:
        self.members[key] = member
        self.keys.append(key)

    def pop(self, key: K) -> T | None:
        """Remove and return a member, None if it is not there."""
        member = self.members.pop(key, None)
        if member is not None:
            self._gone_count += 1
            if 2 * self._gone_count > len(self.keys):
                self.keys = list(self.members)
                self._gone_count = 0
        return member

    def walk(self) -> RosterWalk[K, T]:
        return RosterWalk(self)


class RosterWalk(Generic[K, T]):
    """An iterator over the members that were present when it began; None in the place of one that has gone.

    A member that left and came again may be returned twice.
    """

    __slots__ = ("index", "_members", "_keys", "_end")

    def __init__(self, roster: Roster[K, T]) -> None:
        self.index = 0
        self._members = roster.members
        self._keys = roster.keys
        self._end = len(roster.keys)

    def __iter__(self) -> RosterWalk[K, T]:
        return self

    def __next__(self) -> T | None:
        index = self.index
        if index >= self._end:
            raise StopIteration
        self.index = index + 1
        return self._members.get(self._keys[index])
