"""Hostile clients of the positions and leases of readers over HTTP, drawn from a seed, and the laws that hold.

- Who lacks the right changes nothing; who has it changes only files of positions and leases, which are sound.
- No position is behind the end of the log.  Positions and leases are no more than their limits, names no longer.
- Nobody moves a reader whom only an honest client names.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from time import time_ns
from typing import Final
from urllib.parse import quote

from engine.store.disk.files import RealFiles
from engine.store.read.export_watermarks import read_watermarks
from engine.store.read.leases import LEASE_MOST_MS, READER_CHARACTERS, read_leases
from gateway.web.management.log_leases import PER_HOLDER_MOST
from gateway.web.management.log_readers import READERS_MOST
from tests.support.world.bodies import Violation

READERS: Final = "/api/store/readers"
ADVANCE: Final = f"{READERS}/advance"
LEASES: Final = "/api/store/leases"
HONEST: Final = "an honest reader"
FAR: Final = 1 << 40  # behind every end
NAMES: Final = (
    "billing",
    "/lake",
    "a" * READER_CHARACTERS,
    "ü-ℵ",
    "..",
    "../../secret",
    "%2e%2e",
    "mark.json",
    "0",
    " ",
)
PATTERNS: Final = (
    "",
    ">",
    "orders",
    "orders.>",
    "queue://*",
    "/topic/x.>",
    ".".join("a" * 500),
    "x" * 1_100,
    "\x7f",
    "#",
)


def _each(name: str, *values: object) -> list[tuple[str, object]]:
    return [(name, value) for value in values]


WRONG_OF_READERS: Final[tuple[tuple[str, object], ...]] = (
    *_each("reader", "", "a\n", "x" * 201, None, ["x"], {}, 7, "\ud800", "\0"),
    *_each("to_offset", -1, 1 << 63, 1 << 70, "7", 1.5, True, None, [], 1e300),
    *_each("kind", "lake", "", None, {}, "STREAM"),
    *_each("store", 7, None, "x" * 300),
    *_each("destination", "a..b", ">.>", "x" * 5_000, None, 7, "."),
    *(("has_messages", 1), ("more", "x"), ("", ""), ("lease_ms", 1_000)),
)
WRONG_OF_LEASES: Final[tuple[tuple[str, object], ...]] = (
    *_each("lease_ms", 0, 999, 60_001, "1000", None, 1e300),
    *_each("from_offset", -1, 1 << 63, "0", None),
    *_each("reader", "x" * 201, None, 7, "\ud800"),
    ("to_offset", 0),
)
WRONG_BODIES: Final = (
    *(b"", b"{", b"[]", b"null", b'{"a":' * 5_000, b"\xff\xfe{}", b'{"reader": "a", "reader": "b"}', b"7", b"NaN"),
    *(b"{" + b" " * 70_000 + b"}", b'"' + b"\\u0000" * 900 + b'"', b"{}garbage"),
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """expected: statuses for those who have the right."""

    method: str
    path: str
    body: bytes
    expected: frozenset[int]


@dataclass(slots=True)
class RandomReaders:
    """What clients ask for.  tokens: of leases that were given.  honest_offset: where the honest reader is."""

    store_id: str
    draw: random.Random
    tokens: list[str] = field(default_factory=list)
    honest_offset: int = -1

    def drawn(self, end: int) -> Drawn:
        """Draw a request.  end: a log offset that may be read."""
        kinds = (self._begin, self._advance, self._wrong_place, self._wrong_member, self._end, self._lease)
        return self.draw.choice((*kinds, self._renew, self._wrong_lease, self._wrong_body))(end)

    def honest(self, end: int) -> Drawn:
        """Let the honest reader begin, or go on."""
        is_known, self.honest_offset = self.honest_offset >= 0, end
        members = self._members(end, HONEST, "stream")
        if is_known:
            return Drawn("POST", ADVANCE, _json(members), frozenset((200,)))
        return Drawn("POST", READERS, _json({**members, "destination": ">"}), frozenset((200,)))

    def _members(self, to_offset: int, reader: str = "", kind: str = "") -> dict[str, object]:
        draw = self.draw
        kind = kind or draw.choice(("stream", "export"))
        return {"store": self.store_id, "kind": kind, "reader": reader or draw.choice(NAMES), "to_offset": to_offset}

    def _begin(self, end: int) -> Drawn:
        draw = self.draw
        members = {**self._members(draw.randrange(end + 1)), "destination": draw.choice(PATTERNS)}
        if draw.randrange(2):
            members["has_messages"] = draw.randrange(2) == 0
        if draw.randrange(3) == 0:
            members["reader"] = f"{draw.randrange(2 * READERS_MOST)}"
        return Drawn("POST", READERS, _json(members), frozenset((200, 429)))

    def _advance(self, end: int) -> Drawn:
        return Drawn("POST", ADVANCE, _json(self._members(self.draw.randrange(end + 1))), frozenset((200, 404, 409)))

    def _wrong_place(self, end: int) -> Drawn:
        members = self._members(FAR + self.draw.randrange(FAR))
        if self.draw.randrange(2):
            members |= {"store": self.draw.choice(("c0ffee00", "", self.store_id.upper())), "to_offset": 0}
        if self.draw.randrange(2):
            return Drawn("POST", ADVANCE, _json(members), frozenset((409,)))
        return Drawn("POST", READERS, _json({**members, "destination": ">"}), frozenset((409,)))

    def _wrong_member(self, end: int) -> Drawn:
        name, value = self.draw.choice(WRONG_OF_READERS)
        members = {**self._members(0), "destination": ">", name: value}
        return Drawn("POST", self.draw.choice((READERS, ADVANCE)), _json(members), frozenset((400,)))

    def _wrong_body(self, end: int) -> Drawn:
        path = self.draw.choice((READERS, ADVANCE, LEASES, f"{LEASES}/x"))
        return Drawn("POST", path, self.draw.choice(WRONG_BODIES), frozenset((400, 413)))

    def _end(self, end: int) -> Drawn:
        draw = self.draw
        asked, expected = f"kind={draw.choice(('stream', 'export'))}&reader={quote(draw.choice(NAMES))}", (200, 404)
        if draw.randrange(4) == 0:
            asked, expected = (
                draw.choice(("", "kind=stream", "reader=x", f"{asked}&x=1", "kind=x&reader=x")),
                (400, 400),
            )
        return Drawn("DELETE", f"{READERS}?{asked}", b"", frozenset(expected))

    def _lease(self, end: int) -> Drawn:
        draw = self.draw
        members: dict[str, object] = {"reader": draw.choice(NAMES), "from_offset": draw.choice((0, end, FAR))}
        if draw.randrange(2):
            members["lease_ms"] = draw.choice((1_000, LEASE_MOST_MS))
        return Drawn("POST", LEASES, _json(members), frozenset((201, 429)))

    def _renew(self, end: int) -> Drawn:
        token = self.draw.choice((*self.tokens[-20:], *map(quote, NAMES)))
        if self.draw.randrange(2):
            return Drawn("DELETE", f"{LEASES}/{token.replace('/', '%2F')}", b"", frozenset((200, 404)))
        return Drawn("POST", f"{LEASES}/{token.replace('/', '%2F')}", b"{}", frozenset((200, 404)))

    def _wrong_lease(self, end: int) -> Drawn:
        name, value = self.draw.choice(WRONG_OF_LEASES)
        members = {"reader": "x", "from_offset": 0, name: value}
        return Drawn("POST", LEASES, _json(members), frozenset((400,)))

    def check(self, directory: Path, end: int) -> None:
        """Look at what is left of all of them.  Raises: Violation."""
        marks = read_watermarks(RealFiles(), str(directory), self.store_id).marks
        if len(marks) > READERS_MOST:
            raise Violation(f"the store knows {len(marks)} readers")
        for mark in marks:
            if not 0 <= mark.to_offset <= end:
                raise Violation(f"{mark.title()} is at {mark.to_offset} of {end}")
            if not 0 < len(mark.reader) <= READER_CHARACTERS or not mark.reader.isprintable():
                raise Violation(f"a reader has the name {mark.reader!r}")
        honest = [mark.to_offset for mark in marks if mark.reader == HONEST]
        if honest != [self.honest_offset]:
            raise Violation(f"the honest reader is at {honest}, it has said {self.honest_offset}")
        now_ms = time_ns() // 1_000_000
        leases = read_leases(RealFiles(), str(directory), self.store_id, now_ms, 2 * LEASE_MOST_MS)
        if len(leases) > PER_HOLDER_MOST or any(each.until_ms > now_ms + LEASE_MOST_MS for each in leases):
            raise Violation(f"retention waits for {leases}")
        names = [path.name for folder in ("readers", "exports") for path in (directory / folder).iterdir()]
        if odd := [name for name in names if not name.endswith(".json")]:
            raise Violation(f"{odd} are left behind")


def _json(members: dict[str, object]) -> bytes:
    return json.dumps(members).encode()
