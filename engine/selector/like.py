"""LIKE patterns, matched in time proportional to the length of the value, not to value times pattern.

A pattern is split at each %.  The first part must be at the value's beginning, the last one at its end.  Each part in
between is matched at its first occurrence after the one before; a later place could never help.
Source: Jakarta Messaging 3.1, section 3.8.1.1, "LIKE".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_ONE: Final = "_"
_ANY: Final = "%"


class LikePattern:
    """escape: the character before a literal % or _ in ``pattern``; None for none."""

    __slots__ = ("_prefix", "_first", "_middle", "_last")

    def __init__(self, pattern: str, escape: str | None) -> None:
        elements: list[list[str | None]] = [[]]
        for kind, character in _elements(pattern, escape):
            if kind == _ANY:
                elements.append([])
            else:
                elements[-1].append(None if kind == _ONE else character)
        first, *rest = [_Stretch(stretch) for stretch in elements]
        self._prefix = first.prefix()
        self._first = first
        self._last = rest.pop() if rest else None  # None: without %, the first part is the whole pattern
        self._middle = tuple(stretch for stretch in rest if stretch.length > 0)

    def matches(self, value: str) -> bool:
        """Say whether the pattern matches the whole of ``value``."""
        if not value.startswith(self._prefix):  # the usual mismatch, found by one call
            return False
        first = self._first
        last = self._last
        if last is None:
            return len(value) == first.length and first.stands_at(value, 0)
        end = len(value) - last.length
        at = first.length
        if at > end or not first.stands_at(value, 0) or not last.stands_at(value, end):
            return False
        for stretch in self._middle:
            at = stretch.find(value, at, end)
            if at < 0:
                return False
            at += stretch.length
        return True


class _Stretch:
    """A part of the pattern between two %: characters, and places (None) for any character.

    _pieces: its runs of characters, each with its place.  _places, _any_places: bit i is set if that character, or any
    character, may be element i.
    """

    __slots__ = ("length", "_pieces", "_places", "_any_places", "_longest")

    def __init__(self, elements: list[str | None]) -> None:
        self.length = len(elements)
        self._pieces = _pieces(elements)
        self._places: dict[str, int] = {}
        self._any_places = 0
        self._longest = max(self._pieces, key=_piece_length, default=(0, ""))
        if len(self._pieces) > 1:
            self._note_places(elements)

    def prefix(self) -> str:
        """Return the characters that it begins with, "" if any character may be its first."""
        place, characters = self._pieces[0] if self._pieces else (0, "")
        return characters if place == 0 else ""

    def stands_at(self, value: str, start: int) -> bool:
        """Say whether it matches at ``start``; the caller has checked that enough characters are left."""
        for place, characters in self._pieces:  # a loop: a generator costs more than the comparisons
            if not value.startswith(characters, start + place):
                return False
        return True

    def find(self, value: str, start: int, end: int) -> int:
        """Return the first place from ``start`` on where it matches and ends by ``end``; -1 if there is none."""
        if start + self.length > end:
            return -1
        pieces = self._pieces
        if not pieces:
            return start
        place, characters = self._longest
        at = value.find(characters, start + place, end) - place
        if at + self.length > end or at < start:
            return -1
        return at if len(pieces) == 1 else self._find_pieces(value, at, end)

    def _find_pieces(self, value: str, start: int, end: int) -> int:
        """Shift-And: bit i says that what was read so far ends with the stretch's first i + 1 elements."""
        places = self._places
        others = self._any_places
        found = 1 << (self.length - 1)
        state = 0
        for at in range(start, end):
            state = (state << 1 | 1) & places.get(value[at], others)
            if state & found:
                return at + 1 - self.length
        return -1

    def _note_places(self, elements: list[str | None]) -> None:
        others = 0
        for place, element in enumerate(elements):
            if element is None:
                others |= 1 << place
        for place, element in enumerate(elements):
            if element is not None:
                self._places[element] = self._places.get(element, others) | 1 << place
        self._any_places = others


def _piece_length(piece: tuple[int, str]) -> int:
    return len(piece[1])


def _pieces(elements: list[str | None]) -> tuple[tuple[int, str], ...]:
    pieces: list[tuple[int, str]] = []
    run: list[str] = []
    for place, element in enumerate([*elements, None]):
        if element is not None:
            run.append(element)
        elif run:
            pieces.append((place - len(run), "".join(run)))
            run = []
    return tuple(pieces)


def _elements(pattern: str, escape: str | None) -> Iterator[tuple[str, str]]:
    """Yield each element as %, _ or "", with its character."""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            yield "", next(characters)
        elif character in (_ANY, _ONE):
            yield character, character
        else:
            yield "", character
