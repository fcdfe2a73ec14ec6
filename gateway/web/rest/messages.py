"""Messages over HTTP: sent, browsed, found in the log, and taken.

Each request that takes or browses is a client of the engine with one consumer, so every rule is the engine's:
permissions, selectors, redelivery, dead letters, limits per user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from config.matching import QUEUE, TOPIC
from engine.store.read.found_message import FoundMessage
from engine.store.read.query import StoreQuery
from engine.store.read.reader import StoreReader
from engine.store.read.records import no_message_at
from engine.values import gates
from engine.values.destination import KINDS_BY_NAME
from engine.values.errors import InvalidDestination
from gateway.answers.message_document import document_text, found_message
from gateway.loop.engine_loop import EngineLoop
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.limits.thread_turns import to_the_end
from gateway.web.rest.browsing import Browsing
from gateway.web.rest.client_registry import RestClients
from gateway.web.rest.leases import Leases
from gateway.web.rest.named_destination import Named
from gateway.web.rest.requests import Asking, NotNow, Outgoing
from gateway.web.rest.send import message_of
from gateway.web.rest.single_messages import SingleMessages
from protocols.blocked_sends import send_paced


class LiveMessages:
    """All may raise EngineError and StoreError.

    groups: of users, by login.  is_login_required: otherwise a user is an address.  memory: of answers.
    """

    def __init__(
        self,
        engine_loop: EngineLoop,
        directory: str,
        groups: Callable[[str], frozenset[str]],
        is_login_required: bool,
        memory: RequestMemory,
    ) -> None:
        self._directory = Path(directory)
        self._reading = asyncio.Lock()  # one reader of the store at a time
        self._clients = RestClients(engine_loop, groups, is_login_required, memory)
        self.browsing = Browsing(self._clients)
        self.leases = Leases(self._clients)
        self.single = SingleMessages(self._clients)

    def require_target(self, asking: Asking, destination: Named) -> None:
        """Raises: AccessDenied for a destination that the user may not send to."""
        self._clients.engine.naming.require(self._clients.client(asking), "write", *destination)

    async def send(self, asking: Asking, destination: Named, outgoing: Outgoing) -> str | None:
        """Return the message's id once it is durable, None if it has none yet.  Raises: NotNow."""
        client = self._clients.sender(asking)
        with self._clients.turn(client):
            target, message = message_of(self._clients.engine, client, destination, outgoing)
            engine = self._clients.engine
            if target.paced is None:
                gate = engine.send(target.destination, message)
            else:
                gate = send_paced(engine, client, target.paced, target.destination, message)
        if gate != gates.OPEN:
            raise NotNow(f"{target.destination.uri()} accepts nothing now, for the gate {gates.GATE_NAMES[gate]}")
        await client.confirmed("the message was sent")
        return self._clients.id_of(message)

    async def message(self, asking: Asking, message_id: str, body_form: str) -> bytes:
        """Return a message of the log, as JSON."""
        async with self._reading:  # it holds the whole message, which may be large
            found = await to_the_end(partial(_find, self._directory, message_id))
            kind, _, name = found.destination.partition("://")
            client = self._clients.client(asking)
            number = KINDS_BY_NAME.get(kind, 0)
            is_temporary = number not in (QUEUE, TOPIC)
            access = self._clients.engine.access
            if not access.is_open and (is_temporary or not access.allows(client, "read", number, name)):
                raise no_message_at(found.log_offset)  # offsets can be guessed: who may not read learns no names
            if is_temporary:
                raise InvalidDestination(f"{found.destination} is temporary; allowed are messages of queues and topics")
            return await self._clients.memory.made(
                asking.address,
                lambda: document_text(found_message(found), found.message_id, found.destination, body_form),
            )

    def stop(self) -> None:
        """Return all messages, and end all requests that wait."""
        self.leases.stop()
        self.browsing.stop()
        self._clients.stop()


def _find(directory: Path, message_id: str) -> FoundMessage:
    with StoreQuery(StoreReader(directory)) as query:
        return query.by_id(message_id)
