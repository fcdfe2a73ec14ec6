"""The destinations of a read: names with ``.``, ``*`` for one word, ``>`` (or ``#``) for all further ones.

Several patterns with commas, which no name has, mean what one of them matches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.values.destination import INTERNAL_QUEUES, KIND_NAMES, KINDS_BY_NAME, uri

PATTERNS_MAX: Final = 100
CHARACTERS_MAX: Final = 10_000  # of all patterns together; the longest name of a destination has 1,024 octets

PREFIXES: Final = {f"{name}://": kind for name, kind in KINDS_BY_NAME.items()} | {
    f"/{name}/": kind for name, kind in KINDS_BY_NAME.items()
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """``kind`` 0: queues and topics."""

    kind: int
    words: tuple[str, ...]

    def __str__(self) -> str:
        prefix = f"{KIND_NAMES[self.kind]}://" if self.kind else ""
        return prefix + ".".join(self.words)

    def matches(self, kind: int, words: list[str]) -> bool:
        """Return whether it matches the destination of these words.  As in ActiveMQ, ``a.>`` also matches ``a``."""
        if self.kind not in (0, kind):
            return False
        for number, pattern in enumerate(self.words):
            if pattern == ">":
                return True
            if number == len(words):
                return False
            if pattern not in ("*", words[number]):
                return False
        return len(words) == len(self.words)


@dataclass(frozen=True, slots=True)
class Selection:
    """Parsed patterns, in the order in which they were written: their text names what an export is of.

    only: for columns of destinations, the values that count besides.
    """

    patterns: tuple[Pattern, ...]
    only: tuple[tuple[str, frozenset[str]], ...] = ()

    def __str__(self) -> str:
        return ",".join(map(str, self.patterns))

    def matches(self, kind: int, name: str) -> bool:
        """Return whether one of the patterns matches the destination.

        Only its full name matches an internal queue: scheduled messages fire as new ones, and those of prepared
        transactions are sent as new ones, so a pattern would export each of them twice; duplicate ids are no messages.
        """
        if self.only:
            row = {"destination": uri(kind, name), "destination_kind": KIND_NAMES[kind], "destination_name": name}
            if not all(row[column] in values for column, values in self.only):
                return False
        words = name.split(".")
        is_internal = name in INTERNAL_QUEUES
        for pattern in self.patterns:
            if pattern.matches(kind, words) and not (is_internal and pattern.words != tuple(words)):
                return True
        return False


def parse(text: str) -> Selection:
    """Parse ``orders.>``, ``queue://orders.*,/topic/prices.>``; ``""`` and ``>`` mean everything.

    Raises: ValueError for an empty word or pattern, for a ``>`` that is not the last word, and for too many patterns.
    """
    if len(text) > CHARACTERS_MAX:
        raise ValueError(f"destination has {len(text)} characters; allowed are {CHARACTERS_MAX}")
    parts = text.split(",")
    if len(parts) > PATTERNS_MAX:
        raise ValueError(f"destination has {len(parts)} patterns; allowed are {PATTERNS_MAX}, with commas between them")
    if len(parts) > 1 and not all(map(str.strip, parts)):
        raise ValueError(f"destination {text!r} has an empty pattern; allowed are patterns with commas between them")
    return Selection(tuple(map(_pattern, parts)))


def _pattern(text: str) -> Pattern:
    kind = 0
    name = text.strip()
    for prefix, prefix_kind in PREFIXES.items():
        if name.startswith(prefix):
            kind, name = prefix_kind, name[len(prefix) :]
            break
    words = tuple(">" if word == "#" else word for word in (name or ">").split("."))
    if "" in words:
        raise ValueError(f"destination {text!r} has an empty word")
    if ">" in words[:-1]:
        raise ValueError(f"destination {text!r}: '>' matches all further words and must be the last one")
    return Pattern(kind, words)
