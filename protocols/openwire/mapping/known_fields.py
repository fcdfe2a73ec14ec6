"""Octets of leading fields that many commands of one client share, and what they were decoded to."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

FIELDS_START: Final = 6  # in a command, behind the type, commandId and responseRequired
KNOWN_MOST: Final = 32
KNOWN_MOST_BYTES: Final = 1_024  # of longer ones nothing is kept

T = TypeVar("T")


class KnownFields(Generic[T]):
    __slots__ = ("_known", "_ends")

    def __init__(self) -> None:
        self._known: dict[bytes, T] = {}
        self._ends: list[int] = []  # of these fields, in the commands that were seen

    def find(self, command: bytes) -> T | None:
        """Return the decoded leading fields of a command, None if they are not known."""
        known = self._known
        for end in self._ends:
            found = known.get(command[FIELDS_START:end])
            if found is not None:
                return found
        return None

    def keep(self, octets: bytes, found: T) -> None:
        if len(octets) > KNOWN_MOST_BYTES:
            return
        if len(self._known) >= KNOWN_MOST:
            self._known.clear()
            self._ends.clear()
        self._known[octets] = found
        end = FIELDS_START + len(octets)
        if end not in self._ends:
            self._ends.append(end)
