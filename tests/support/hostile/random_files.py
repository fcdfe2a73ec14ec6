"""Hostile clients of the files of a store over HTTP, drawn from a seed, while the files change; and the laws that hold.

Among their requests are those of readers who say how far they are: ``random_readers``.

- Only files that a copy of a store has are given, and their octets: those of one state of the file whose tag is told.
- All else is a problem document with the status and the word that fit.  What should be given is given.
- An answer is no longer than its limit.  Without the right nothing of the log is given.
- Whoever is honest is answered meanwhile, and in the end nothing is held and nothing runs any more.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from dataclasses import dataclass, field
from typing import Final

from gateway.answers.served_files import RANGE_BYTES_MAX
from tests.support.hostile.random_readers import Drawn, RandomReaders
from tests.support.store.sample_store import SampleStore
from tests.support.web import basic
from tests.support.world.bodies import Violation

SECRET: Final = b"honest:"  # in every message and every other file of the directory
RIGHTS: Final = {"reader": 200, "clerk": 403, "nobody": 401, "": 401}  # status for who logs in so
HOSTILE_ADDRESS: Final = "127.0.0.9"
ANSWER_LIMIT_S: Final = 60.0
LISTED: Final = re.compile(r"store\.json|checkpoint|commitlog/\d{20}\.log|consumequeue/\d+/\d+/\d{1,20}\.cq")
WORDS: Final = {
    400: ("invalid-request",),
    401: ("login-refused",),
    403: ("access-denied",),
    404: ("not-found", "unknown-reader"),
    405: ("method-not-allowed",),
    409: ("conflict",),
    413: ("body-too-large",),
    416: ("range-not-satisfiable",),
    429: ("limit-reached",),
}
WRONG_NAMES: Final = (
    *("../secret", "commitlog/../../secret", "/etc/passwd", "..", ".", "", "/", "commitlog", "commitlog/", "lock"),
    *("readers/lease.json", "exports/mark.json", "commitlog/1.log.tmp", "store.json/", "store.json/.", "./store.json"),
    *("%2e%2e%2fsecret", "%252e%252e%252fsecret", "commitlog%2f..%2f..%2fsecret", "commitlog\\..\\..\\secret"),
    *("store.json%00", "%00", "checkpoint%0a", "store.json%0d%0aX: y", "\u0661.log", "commitlog/%d9%a1.log", "%ff%fe"),
    *("consumequeue/1/4/../../../../secret", "consumequeue/1/4/..%2f..%2f..%2f..%2fsecret", "link/store.json", "~"),
    *("store.json&path=checkpoint", "store.json&x=1", "a" * 201, "commitlog/" + "0" * 400 + ".log", "%", "%zz", "+"),
)
WRONG_RANGES: Final = (
    *("bytes=-", "bytes=5-4", "bytes=--5", "bytes=-5-", "bytes=0-1,2-3", "bytes=0-,0-,0-", "bytes=0-9,5-20", "x", "="),
    *("bytes=0-1;", "bytes 0-1", "octets=0-1", "bytes=0x0-0x9", "bytes=1e3-", "bytes=\u0661-", "bytes=" + "0-0," * 900),
    *("bytes=10000000000000000000-", "bytes=" + "9" * 5000 + "-", "bytes=0-1\t,", "none", "bytes=", "bytes=a-b"),
)
HEADERS: Final = (
    *("Accept: */*", "Accept: text/html;q=2,,;", "Accept: " + "a/b," * 900, "Accept: \x01", "Accept-Encoding: gzip"),
    *('If-Range: W/"1"', "If-None-Match: *", "If-Range: x", "TE: trailers", "Range: bytes=7-7", "Connection: close"),
    *("Content-Type: text/html", "Expect: 100-continue", "Origin: http://localhost", "X: " + "y" * 9_000),
)
INTERIM: Final = b"HTTP/1.1 100"  # for Expect: the answer is still to come
METHODS: Final = ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "")


@dataclass(frozen=True, slots=True)
class Asked:
    """expected: statuses, of which one must come; empty for any error, or none before the connection ends.

    path, first, stop: of the octets that must be given if the status is 200 or 206.
    """

    octets: bytes
    expected: frozenset[int] = frozenset()
    path: str = ""
    first: int = 0
    stop: int | None = None
    is_head: bool = False


@dataclass(slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Files:
    """The store, and all states that its files had, by path: with the tag of each."""

    store: SampleStore
    draw: random.Random
    states: dict[str, set[tuple[str, bytes]]] = field(default_factory=dict)
    now: dict[str, int] = field(default_factory=dict)  # sizes

    def look(self) -> None:
        directory = self.store.directory
        self.now = {}
        for place in sorted(directory.rglob("*")):
            path = str(place.relative_to(directory))
            if place.is_file() and LISTED.fullmatch(path):
                octets = place.read_bytes()
                self.now[path] = len(octets)
                self.states.setdefault(path, set()).add((f'W/"{place.stat().st_ino:x}"', octets))

    def change(self) -> None:
        """Do what a gateway does: write, drop the first segment, put another file in a segment's place."""
        store, kind = self.store, self.draw.randrange(4)
        segments = sorted((store.directory / "commitlog").glob("*.log"))
        if kind == 0 and len(segments) > 3:
            store.drop_first_segment()
        elif kind == 1 and len(segments) > 1:
            thinned = segments[0].with_suffix(".log.tmp")
            thinned.write_bytes(segments[0].read_bytes().replace(SECRET, b"thinned"))
            thinned.rename(segments[0])
        else:
            store.send(1, SECRET + b"x" * self.draw.randrange(3_000))
            if self.draw.randrange(3) == 0:
                store.roll()
        store.publish(is_clean=True)
        self.look()


class RandomFiles:
    """files: of the store that a listener serves.  counts: of statuses, so that a test can show it is not idle."""

    def __init__(self, port: int, files: Files, draw: random.Random) -> None:
        self.readers = RandomReaders(files.store.store_id, draw)
        self._port = port
        self._files = files
        self._draw = draw
        self.counts: dict[int, int] = {}

    async def run(self, rounds: int) -> None:
        """Raises: Violation."""
        for _ in range(rounds):
            asking = [self._one() for _ in range(self._draw.choice((1, 3, 12)))]
            if self._draw.randrange(2):
                self._files.change()
            await asyncio.gather(*asking, self._honest())

    # -- one client

    async def _one(self) -> None:
        asked = [self._asked() for _ in range(self._draw.choice((1, 1, 1, 2, 5)))]
        kind = self._draw.randrange(10)
        pause = self._draw.randrange(200)  # turns of the loop
        is_cut = self._draw.randrange(2) == 0
        is_odd = not all(one.expected for one in asked)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, local_addr=(HOSTILE_ADDRESS, 0))
        try:
            octets = b"".join(one.octets for one in asked)
            if kind == 0:
                octets = octets[: self._draw.randrange(len(octets))]  # half a request
            if kind == 1:
                for start in range(0, min(len(octets), 300)):
                    writer.write(octets[start : start + 1])
                    await asyncio.sleep(0)
                octets = octets[300:]
            writer.write(octets)
            for _ in range(pause if kind < 4 else 0):  # slow readers, and those who leave
                await asyncio.sleep(0)
            if kind in (0, 2):
                if is_cut:
                    writer.transport.abort()
                return
            for one in asked:
                answer = await self._answer(reader, one.is_head)
                if answer is None or (is_odd and answer.status == 400):
                    return  # what is no request at all is answered before those that came with it
                if not self._is_judged(one, answer):
                    return
        finally:
            writer.close()

    async def _honest(self) -> None:
        """Ask as one who may: the answer must come, with the octets of the file."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        reads = self._asked_for("store.json", "reader", "bytes=0-9", frozenset((206,)), (0, 10))
        try:
            for asked in (reads, self._of_reader(self.readers.honest(self._files.store.offset), "reader")):
                writer.write(asked.octets)
                answer = await self._answer(reader, False)
                if answer is None:
                    raise Violation("an honest client got no answer")
                self._is_judged(asked, answer)
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, is_head: bool) -> Answer | None:
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                head = INTERIM
                while head.startswith(INTERIM):
                    head = await reader.readuntil(b"\r\n\r\n")
                first, *lines = head.decode("latin-1").split("\r\n")[:-2]
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                size = 0 if is_head else int(headers.get("content-length", "0"))
                if size > RANGE_BYTES_MAX + 64 * 1024 and "json" not in headers.get("content-type", ""):
                    raise Violation(f"an answer has {size} octets")
                return Answer(int(first.split()[1]), headers, await reader.readexactly(size))
        except TimeoutError:
            raise Violation(f"no answer in {ANSWER_LIMIT_S:g} s") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    # -- requests

    def _asked(self) -> Asked:
        draw = self._draw
        login = draw.choice(("reader", "reader", "reader", "reader", "reader", "clerk", "nobody", ""))
        kind = draw.randrange(18)
        if kind >= 12:
            return self._of_reader(self.readers.drawn(self._files.store.offset), login)
        if kind == 0:
            return self._request("GET", "/api/store/files", login, (), frozenset((RIGHTS[login],)))
        if kind == 1:
            path = draw.choice(("/api/store/file?path=store.json", "/api/store/files"))
            return self._request(draw.choice(METHODS), path, login, (), frozenset())
        if kind == 2:
            path = draw.choice(WRONG_NAMES)
            expected = frozenset((400, 404)) if RIGHTS[login] == 200 else frozenset((400, RIGHTS[login]))
            return self._request("GET", f"/api/store/file?path={path}", login, ("Range: bytes=0-9",), expected)
        if kind == 3:
            more = draw.sample(HEADERS, 2)
            return self._request("GET", "/api/store/file?path=store.json", login, tuple(more), frozenset())
        path = draw.choice(list(self._files.states))
        if kind == 4:
            expected = frozenset((400, 404)) if RIGHTS[login] == 200 else frozenset((400, RIGHTS[login]))
            return self._asked_for(path, login, draw.choice(WRONG_RANGES), expected)
        return self._ranged(path, login)

    def _ranged(self, path: str, login: str) -> Asked:
        """Ask for a range as it should be, also behind the end, of a file that may be dropped meanwhile."""
        draw = self._draw
        size = self._files.now.get(path, 1_000)
        first, last = draw.randrange(size + 10), draw.choice((draw.randrange(size + 10), 9_999_999_999_999_999_999))
        given, bounds = draw.choice(
            (
                (f"bytes={first}-{last}", (first, last + 1)),
                (f"bytes={first}-", (first, None)),
                (f"bytes=-{first}", (-first, None)),
            )
        )
        expected = {RIGHTS[login]}
        if RIGHTS[login] == 200:
            expected = {206, 404, 416} if path.startswith(("commitlog", "consume")) else {206, 416}
        if bounds[1] is not None and last < first:
            expected = {400} if RIGHTS[login] == 200 else {400, RIGHTS[login]}
        return self._asked_for(path, login, given, frozenset(expected), bounds, draw.randrange(10) == 0)

    def _asked_for(
        self,
        path: str,
        login: str,
        given: str,
        expected: frozenset[int],
        bounds: tuple[int, int | None] = (0, None),
        is_head: bool = False,
    ) -> Asked:
        method = "HEAD" if is_head else "GET"
        asked = self._request(method, f"/api/store/file?path={path}", login, (f"Range: {given}",), expected)
        return Asked(asked.octets, expected, path, *bounds, is_head)

    def _of_reader(self, drawn: Drawn, login: str) -> Asked:
        expected = drawn.expected if RIGHTS[login] == 200 else frozenset((RIGHTS[login],))
        more = ("Content-Type: application/json", f"Content-Length: {len(drawn.body)}")
        asked = self._request(drawn.method, drawn.path, login, more, expected)
        return Asked(asked.octets + drawn.body, asked.expected)

    def _request(self, method: str, path: str, login: str, more: tuple[str, ...], expected: frozenset[int]) -> Asked:
        headers = ["Host: localhost", *more]
        if login:
            headers += [f"{name}: {value}" for name, value in basic(login, "secret").items()]
        head = "\r\n".join((f"{method} {path} HTTP/1.1", *headers, "", ""))
        is_sound = head.isascii() and " " not in path and len(head) < 8_000  # otherwise no request of HTTP
        return Asked(head.encode(), expected if is_sound else frozenset(), is_head=method == "HEAD")

    # -- the laws

    def _is_judged(self, asked: Asked, answer: Answer) -> bool:
        """Return whether the connection goes on.  Raises: Violation."""
        self.counts[answer.status] = self.counts.get(answer.status, 0) + 1
        told = f"{asked.octets[:200]!r} is answered {answer.status}: {answer.body[:200]!r}"
        if asked.expected and answer.status not in asked.expected:
            raise Violation(f"{told}, which is none of {sorted(asked.expected)}")
        if answer.status >= 400:
            if SECRET in answer.body:
                raise Violation(f"an error tells of the log: {told}")
            if not asked.is_head:
                self._check_problem(answer, told)
        elif answer.headers.get("content-type") == "application/octet-stream":
            self._check_octets(asked, answer, told)
        elif SECRET in answer.body:
            raise Violation(f"the log is no part of this answer: {told}")
        elif answer.status == 201:
            self.readers.tokens.append(json.loads(answer.body)["lease"])
        return answer.headers.get("connection", "") != "close"

    def _check_problem(self, answer: Answer, told: str) -> None:
        try:
            problem = json.loads(answer.body)
        except ValueError:
            raise Violation(f"the error is no problem document: {told}") from None
        is_right = problem["condition"] in WORDS.get(answer.status, (problem["condition"],))
        if problem["status"] != answer.status or not is_right or not problem["detail"]:
            raise Violation(f"the error has the wrong words: {told}")
        if answer.status == 500:
            raise Violation(f"the gateway has a defect: {told}")

    def _check_octets(self, asked: Asked, answer: Answer, told: str) -> None:
        states = self._files.states.get(asked.path or "store.json", set())
        length = int(answer.headers["content-length"])
        if length > RANGE_BYTES_MAX:
            raise Violation(f"{length} octets at once: {told}")
        for tag, octets in states:
            first = max(0, len(octets) + asked.first) if asked.first < 0 else asked.first
            stop = len(octets) if asked.stop is None else min(asked.stop, len(octets))
            wanted = octets[first : min(stop, first + RANGE_BYTES_MAX)]
            described = f"bytes {first}-{first + len(wanted) - 1}/{len(octets)}"
            is_part = answer.headers.get("content-range", described) == described
            if not asked.path:  # only the headers were of interest
                wanted, is_part = answer.body if answer.body in octets else b"", True
            is_this = tag == answer.headers.get("etag") and is_part and len(wanted) == length
            if is_this and (asked.is_head or wanted == answer.body):
                return
        raise Violation(f"these octets are of no state of {asked.path!r}: {told}")
