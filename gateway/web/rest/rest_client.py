"""A client of the engine behind requests over HTTP: it takes or browses messages, and waits for confirmations."""

from __future__ import annotations

import asyncio
from typing import Final

from engine.api import EngineApi
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.values.delivery import Delivery
from engine.values.errors import EngineError, StoreError
from engine.values.message import Message
from gateway.loop.engine_loop import EngineLoop

PAGE_BYTES: Final = 4 * 1024 * 1024  # of the messages in one answer
CONFIRMATION_S: Final = 30.0  # after that a request is answered without one


class RestClient(Client):
    """deliveries: handed over and not settled yet.  shown: messages of a browser that no page has shown yet.

    has_ended: a browser has shown everything.  is_gone: it has left.  failure: why the engine has ended it, None
    while it has not.
    arrived: set whenever one of these changes.
    """

    def __init__(
        self, engine: EngineApi, engine_loop: EngineLoop, user: str, groups: frozenset[str], address: str
    ) -> None:
        super().__init__()
        self.user = user
        self.groups = groups
        self.address = address
        self.deliveries: list[Delivery] = []
        self._page_bytes = 0
        self.has_ended = False
        self.is_gone = False
        self.failure: EngineError | None = None
        self.arrived = asyncio.Event()
        self._engine = engine
        self._engine_loop = engine_loop
        self._asked: list[asyncio.Future[None]] = []  # confirmations of this turn
        self._owed: list[tuple[int, asyncio.Future[None]]] = []  # with the offsets that they wait for

    def connect(self) -> None:
        """Enter the engine.  Raises: LimitReached."""
        self._engine.connect(self)
        try:
            self._engine.introduce(self, self.address, "", False)
        except EngineError:
            self._engine.disconnect(self, is_lost=False)
            raise

    def leave(self, is_lost: bool) -> None:
        """Return what it holds, and be gone.  is_lost: an attempt counts, as for a lost connection."""
        if not self.is_gone:
            self.is_gone = True
            self._engine.disconnect(self, is_lost)
            self.arrived.set()

    async def confirmed(self, what: str) -> None:
        """Wait until what was done in this turn is durable.

        what: was done, as in "the message was sent".  Raises: StoreError if that takes too long.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked.append(future)
        self._touch()
        done, _ = await asyncio.wait([future], timeout=CONFIRMATION_S)
        if not done:
            future.cancel()
            raise StoreError(
                f"{what}, but that is not durable after {CONFIRMATION_S:g} s, so it may be undone by a crash"
            )

    def take_deliveries(self) -> list[Delivery]:
        """Return what a browser has handed over since the last call."""
        page = self.deliveries
        self.deliveries = []
        self._page_bytes = 0
        return page

    # -- the end of a turn

    def _turn_ended(self, offset: int, confirmed_offset: int) -> None:
        """Owe the confirmations of this turn, which wait for ``offset``, and give those that are there."""
        if not self.is_refusing:
            self._owed += [(offset, future) for future in self._asked]
            self._asked.clear()
            if self._owed:
                self._engine.store_events.await_confirmation(self)
        self.release_confirmations(confirmed_offset)

    def _touch(self) -> None:
        self._engine_loop.at_turn_end(self._turn_ended)

    # -- the engine's side

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        self._page_bytes += delivery.message.size
        if self._page_bytes > PAGE_BYTES:
            self.is_output_full = True
        self.arrived.set()

    def deliver_settled(self, consumer: Consumer, message: Message, is_redelivered: bool, delivery_count: int) -> None:
        raise AssertionError("a request settles each message individually")

    def browse_ended(self, consumer: Consumer) -> None:
        self.has_ended = True
        self.arrived.set()

    def release_confirmations(self, offset: int) -> bool:
        left: list[tuple[int, asyncio.Future[None]]] = []
        for awaited, future in self._owed:
            if awaited > offset:
                left.append((awaited, future))
            elif not future.done():
                future.set_result(None)
        self._owed = left
        return bool(left)

    def refused(self) -> None:
        super().refused()
        self._touch()

    def admit(self) -> None:
        raise AssertionError("a request waits at no gate")

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        raise AssertionError("a request waits at no gate")

    def expel(self, consumer: Consumer, error: EngineError, with_connection: bool) -> None:
        self.give_up(error)

    def give_up(self, error: EngineError) -> None:
        self.failure = error
        self.leave(is_lost=False)

    def describe(self) -> dict[str, str]:
        return {"address": self.address, "client_id": "", "login": self.user}
