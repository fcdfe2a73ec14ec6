"""The engine's clients behind requests over HTTP: made, let into the engine, and out of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from config.matching import QUEUE
from engine.consumers.consumer import Consumer
from engine.consumers.user_quota import holder_at
from engine.sources.queue import Queue
from engine.values import gates
from engine.values.errors import EngineError, PenstockError
from engine.values.message import Message
from engine.values.options import SubscribeOptions
from gateway.answers.message_document import document_text
from gateway.loop.engine_loop import EngineLoop
from gateway.loop.faults import is_engine_whole
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.rest.requests import Asking, NotNow
from gateway.web.rest.rest_client import RestClient

TOKEN_BYTES: Final = 16
LOOK_S: Final = 0.01  # between two looks whether anything can come
SEARCH_MOST_MS: Final = 1_000
COMPANY_LOOKS: Final = 10
SENDER_S: Final = 60.0  # the client of a sender stays so long after its last message
_IDLE: Final = frozenset(
    (
        gates.NOTHING_WAITING,
        gates.SELECTOR,
        gates.GROUP_OWNER,
        gates.EXCLUSIVE_OWNER,
        gates.DELAYED,
        gates.EXCLUDED,
        gates.PAUSED,
    )
)


class RestClients:
    """engine: of the engine.  groups: of users, by login.  is_login_required: otherwise a user is an address.

    memory: where answers are made.
    """

    def __init__(
        self,
        engine_loop: EngineLoop,
        groups: Callable[[str], frozenset[str]],
        is_login_required: bool,
        memory: RequestMemory,
    ) -> None:
        self.engine = engine_loop.broker
        self._engine_loop = engine_loop
        self._groups = groups
        self._is_login_required = is_login_required
        self.memory = memory
        self._senders: dict[Asking, tuple[RestClient, asyncio.TimerHandle]] = {}

    def client(self, asking: Asking) -> RestClient:
        """Return a new client, not in the engine yet."""
        user = asking.login if self._is_login_required else ""
        groups = self._groups(user) if asking.groups is None else asking.groups
        client = RestClient(self.engine, self._engine_loop, user, groups, asking.address)
        client.holder = holder_at(user, asking.address)
        client.is_external = asking.groups is not None
        return client

    def sender(self, asking: Asking) -> RestClient:
        """Return the connected client that sends for a user; it stays for a while.  Raises: EngineError."""
        if not self._is_login_required:
            asking = Asking("", asking.address)  # a login that nobody checks would make one more client
        known = self._senders.pop(asking, None)
        if known is not None:
            known[1].cancel()
        client = known[0] if known is not None and not known[0].is_gone else self.client(asking)
        if not client.client_number:
            with self.turn():
                client.connect()
        timer = asyncio.get_running_loop().call_later(SENDER_S, self._forget_sender, asking)
        self._senders[asking] = client, timer
        return client

    def _forget_sender(self, asking: Asking) -> None:
        known = self._senders.pop(asking, None)
        if known is not None:
            self.leave(known[0], False)

    def subscribed(self, client: RestClient, queue: str, options: SubscribeOptions, is_own: bool = False) -> Consumer:
        """Enter the engine with one started consumer.  is_own: it needs no permission.  Raises: EngineError."""
        with self.turn():
            client.connect()
            try:
                if is_own:
                    consumer = self.engine.subscribing.subscribe_own(
                        client, self.engine.destinations.queues[queue], options
                    )
                else:
                    consumer = self.engine.subscribe(client, self._source(client, queue), options)
            except EngineError:
                client.leave(is_lost=False)
                raise
            consumer.start()
            return consumer

    async def arrival(
        self, client: RestClient, consumer: Consumer, wait_ms: int, search_ms: int = SEARCH_MOST_MS
    ) -> None:
        """Wait until a message has come, nothing can come, or the time is over.

        search_ms: after the wait, for a search on the disk that is still going on.
        """
        clock = asyncio.get_running_loop().time
        end_s = clock() + wait_ms / 1000
        while not (client.deliveries or client.has_ended or client.is_gone):
            client.arrived.clear()
            left_s = end_s - clock()
            await wait_for(client.arrived, max(left_s, LOOK_S))  # at least the end of this turn
            if left_s <= 0 and (consumer.gate() in _IDLE or left_s < -search_ms / 1000):
                return

    async def company(self, client: RestClient, consumer: Consumer, count: int) -> None:
        """After the first message, wait a little for those that are being read from the disk."""
        for _ in range(COMPANY_LOOKS):
            if len(client.deliveries) >= count or client.is_gone or consumer.gate() not in (gates.OPEN, gates.PAGING):
                return
            await asyncio.sleep(LOOK_S)

    def id_of(self, message: Message) -> str | None:
        """Return the id of a message that was sent; a scheduled one gets its id when it is due."""
        return self.engine.message_id(message) if message.log_offset >= 0 or message.serial > 0 else None

    def _source(self, client: RestClient, queue: str) -> Queue:
        source = self.engine.source(client, QUEUE, queue)
        assert isinstance(source, Queue), "a destination without a wildcard is a queue"
        return source

    def leave(self, client: RestClient, is_lost: bool) -> None:
        """Let a client go, unless it has gone.  is_lost: what it held counts as after a lost connection."""
        if not client.is_gone and not self._engine_loop.is_shut:
            with self.turn():
                client.leave(is_lost)

    async def documents(
        self, address: str, shown: Iterable[tuple[Message, Mapping[str, Any]]], body_form: str
    ) -> list[bytes]:
        """Return messages that stay in flight meanwhile, with more members of their own, as JSON."""
        uri_of, name = self.engine.destinations.uri_of, self.engine.message_id
        named = [(one, name(one), uri_of(one.destination_id), more) for one, more in shown]
        return await self.memory.made(
            address,
            lambda: [document_text(one, message_id, uri, body_form, more) for one, message_id, uri, more in named],
        )

    @contextmanager
    def turn(self, client: RestClient | None = None) -> Iterator[None]:
        """Let something of a client enter the engine.  A defect in there stops the process."""
        engine_loop = self._engine_loop
        if engine_loop.is_shut:
            raise NotNow("the gateway stops")
        engine_loop.open_turn()
        self.engine.context.sender = 0 if client is None else client.client_number
        try:
            yield
        except PenstockError:
            raise
        except Exception as error:
            if not is_engine_whole(error):
                engine_loop.fail()
            raise

    def stop(self) -> None:
        for asking in list(self._senders):
            self._forget_sender(asking)


async def wait_for(event: asyncio.Event, time_s: float) -> None:
    try:
        async with asyncio.timeout(time_s):
            await event.wait()
    except TimeoutError:
        pass


def new_token() -> str:
    """Return a name that nobody can guess."""
    return os.urandom(TOKEN_BYTES).hex()
