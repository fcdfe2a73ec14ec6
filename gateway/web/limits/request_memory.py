"""What requests and their answers hold in memory, in the budget of connections; large answers are made here.

One large answer is made at a time, and only while those that are being written leave room.  So a client that reads
slowly holds what it was given, not what others ask for.  Past ``READ_TIME_S`` it makes room: it is cut off.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from aiohttp import web

from engine.backlog.context import TurnAgenda
from engine.limits.connection_memory import REQUESTS_PERCENT, Holdings
from gateway.web.limits.loop_share import in_thread
from gateway.web.limits.turn_order import TurnOrder
from gateway.web.routing.problems import RETRY_AFTER_S, Problem

Result = TypeVar("Result")

ANSWER_BYTES_LEAST: Final = 64 * 1024  # smaller answers do not count
READ_TIME_S: Final = 1.0  # so long the reader of a large answer is safe while others wait for room


LOOK_S: Final = 0.1  # between two looks


def _boundless() -> Holdings:
    return Holdings(sys.maxsize, TurnAgenda())


@dataclass(frozen=True, slots=True, eq=False)
class Writing:
    """A large answer that is being written, since when by the loop's clock.  transport: None once it is lost."""

    size: int
    since_s: float
    transport: asyncio.Transport | None


@dataclass(slots=True, eq=False)
class RequestMemory:
    """_writing: large answers, the oldest first.  _less: set when there are fewer."""

    holdings: Holdings = field(default_factory=_boundless)
    read_time_s: float = READ_TIME_S
    _writing: dict[Writing, None] = field(default_factory=dict)
    _less: asyncio.Event = field(default_factory=asyncio.Event)
    _order: TurnOrder = field(default_factory=TurnOrder)

    @contextmanager
    def request(self, request: web.Request, body_bytes_max: int) -> Iterator[None]:
        """Count the body of a request, before any of it is read, until its handler has ended.  Raises: Problem."""
        size = 0
        if request.can_read_body:
            announced = request.content_length
            size = body_bytes_max if announced is None else min(announced, body_bytes_max)
        holdings = self.holdings
        if not holdings.hold_body(size):
            raise Problem(
                503,
                f"bodies of requests hold {holdings.bodies_bytes} octets, and with connections {holdings.used_bytes}; "
                f"all together may hold {holdings.limit_bytes} (limits.connection-memory), bodies a quarter of it",
                "connection-memory",
                {"Retry-After": str(RETRY_AFTER_S)},
            )
        try:
            yield
        finally:
            holdings.body_done(size)

    @contextmanager
    def answer(self, answer: web.StreamResponse, transport: asyncio.Transport | None) -> Iterator[None]:
        """Count an answer while it is being written."""
        body = answer.body if isinstance(answer, web.Response) else None
        size = len(body) if isinstance(body, bytes) else 0
        if size < ANSWER_BYTES_LEAST:
            yield
            return
        writing = Writing(size, asyncio.get_running_loop().time(), transport)
        self._writing[writing] = None
        self.holdings.count_requests(size)
        try:
            yield
        finally:
            del self._writing[writing]
            self.holdings.count_requests(-size)
            self._less.set()

    async def made(self, address: str, compute: Callable[[], Result]) -> Result:
        """Return what is computed outside the loop, once there is room; addresses take turns."""
        async with self._order.turn(address):
            await self.room()
            return await in_thread(compute)

    async def room(self) -> None:
        """Wait until the answers that are being written take no more than the part of requests.

        The largest one does not count, so that an answer of any size can be given.
        """
        clock = asyncio.get_running_loop().time
        while self._is_crowded():
            self._less.clear()
            largest = max(self._writing, key=lambda one: one.size)
            left_s = largest.since_s + self.read_time_s - clock()
            if left_s <= 0 and largest.transport is not None:
                largest.transport.abort()
            try:
                async with asyncio.timeout(max(left_s, LOOK_S)):
                    await self._less.wait()
            except TimeoutError:
                pass

    def _is_crowded(self) -> bool:
        sizes = [one.size for one in self._writing]
        return bool(sizes) and (sum(sizes) - max(sizes)) * 100 > self.holdings.limit_bytes * REQUESTS_PERCENT
