"""The destinations of a read: names with ``.``, ``*`` for one word, ``>`` (or ``#``) for all further ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.values.destination import INTERNAL_QUEUES, KIND_NAMES, KINDS_BY_NAME, uri

PREFIXES: Final = {f"{name}://": kind for name, kind in KINDS_BY_NAME.items()} | {
    f"/{name}/": kind for name, kind in KINDS_BY_NAME.items()
}


@dataclass(frozen=True, slots=True)
class Selection:
    """A parsed pattern.  ``kind`` 0: queues and topics.

    only: for columns of destinations, the values that count besides.
    """

    kind: int
    words: tuple[str, ...]
    only: tuple[tuple[str, frozenset[str]], ...] = ()

    def __str__(self) -> str:
        prefix = f"{KIND_NAMES[self.kind]}://" if self.kind else ""
        return prefix + ".".join(self.words)

    def matches(self, kind: int, name: str) -> bool:
        """Return whether the pattern matches the destination.  As in ActiveMQ, ``a.>`` also matches ``a`` itself.

        Only its full name matches an internal queue: scheduled messages fire as new ones, and those of prepared
        transactions are sent as new ones, so a pattern would export each of them twice; duplicate ids are no messages.
        """
        if self.kind not in (0, kind):
            return False
        if self.only:
            row = {"destination": uri(kind, name), "destination_kind": KIND_NAMES[kind], "destination_name": name}
            if not all(row[column] in values for column, values in self.only):
                return False
        words = name.split(".")
        if name in INTERNAL_QUEUES and self.words != tuple(words):
            return False
        for number, pattern in enumerate(self.words):
            if pattern == ">":
                return True
            if number == len(words):
                return False
            if pattern not in ("*", words[number]):
                return False
        return len(words) == len(self.words)


def parse(text: str) -> Selection:
    """Parse ``orders.>``, ``queue://orders.*``, ``/topic/prices.>``; ``""`` and ``>`` mean everything.

    Raises: ValueError for an empty word and for a ``>`` that is not the last word.
    """
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
    return Selection(kind, words)
