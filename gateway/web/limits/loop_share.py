"""The share of HTTP in the time of the event loop: requests go on in slices, and messaging runs between two slices."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from types import coroutine
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

SLICE_S: Final = 0.002  # of all requests together; a step between two awaits is not divided
PART_MAX: Final = 0.5  # of the loop's time that all requests may take together

# One thread for what is computed outside the loop: each further one would take the interpreter from the loop longer.
_thread: Final = ThreadPoolExecutor(1, "penstock-http")


class LoopShare:
    """clock: seconds, None for the loop's.

    _slice_s: taken in this slice.  _waiting: requests that go on in later slices, in their order.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock
        self._slice_s = 0.0
        self._is_resting = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def within(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do the work of a request, in slices; return its result."""
        return await self._driven(work)

    @coroutine
    def _driven(self, work: Coroutine[Any, Any, Result]) -> Generator[Any, None, Result]:
        clock = self._clock or asyncio.get_running_loop().time
        raised: BaseException | None = None
        while True:
            if raised is None and (self._is_resting or self._waiting):
                try:
                    yield from self._next_slice().__await__()
                except BaseException as error:
                    raised = error
            began_s = clock()
            try:
                awaited = work.send(None) if raised is None else work.throw(raised)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            finally:
                self._spent(clock() - began_s)
            raised = None
            try:
                yield awaited
            except BaseException as error:
                raised = error

    async def _next_slice(self) -> None:
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(admitted)
        try:
            await admitted
        except asyncio.CancelledError:
            if not admitted.cancelled():
                self._admit()  # its turn is another's
            raise

    def _spent(self, time_s: float) -> None:
        self._slice_s += time_s
        if self._is_resting:
            return
        if self._slice_s < SLICE_S:
            self._admit()
            return
        self._is_resting = True
        asyncio.get_running_loop().call_later(self._slice_s * (1 - PART_MAX) / PART_MAX, self._begin_slice)

    def _begin_slice(self) -> None:
        self._is_resting = False
        self._slice_s = 0.0
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():
                first.set_result(None)
                return


async def in_thread(compute: Callable[[], Result]) -> Result:
    """Return what is computed outside the loop, one request after the other: megabytes of JSON, thousands of rows."""
    return await asyncio.get_running_loop().run_in_executor(_thread, compute)
