"""One message of a queue, by its id: deleted, moved or copied, on an operator's command."""

from __future__ import annotations

from typing import Final

from config.matching import QUEUE
from engine.backlog.intake import moved
from engine.consumers.consumer import INDIVIDUAL
from engine.open_transaction import Transaction, TransactionLimits
from engine.selector.properties import PropertyReaders
from engine.sources.composite import Target
from engine.sources.queue import Queue
from engine.values import gates
from engine.values.delivery import Delivery
from engine.values.errors import EngineError
from engine.values.message import DEAD_LETTER, Message
from engine.values.options import SubscribeOptions
from gateway.web.rest.client_registry import RestClients
from gateway.web.rest.named_destination import Named, named_destination
from gateway.web.rest.requests import Asking, NotNow
from gateway.web.rest.rest_client import RestClient

FIND_MS: Final = 5_000  # limit of the search; a long backlog is scanned on the disk
LIMITS: Final = TransactionLimits()
_DIGITS_MOST: Final = 19


class SingleMessages:
    """Each command is a client of the engine whose consumer takes, or only sees, exactly this message."""

    def __init__(self, clients: RestClients) -> None:
        self._clients = clients
        self._engine = clients.engine

    async def delete(self, asking: Asking, queue: str, message_id: str) -> None:
        """Drop a message that waits.  Raises: EngineError, StoreError; LookupError if it does not wait there."""
        client = self._clients.client(asking)
        self._engine.access.require(client, "delete", QUEUE, queue)
        delivery = await self._found(client, queue, message_id, is_own=True)
        try:
            with self._clients.turn(client):
                self._engine.acknowledge(delivery)
            await client.confirmed("the message was deleted")
        finally:
            self._clients.leave(client, False)

    async def move(self, asking: Asking, queue: str, message_id: str, to: Named) -> str | None:
        """Move a message that waits, in one transaction; return its new id.  Raises: as ``delete``; NotNow."""
        client = self._clients.client(asking)
        delivery = await self._found(client, queue, message_id)
        try:
            with self._clients.turn(client):
                target = self._engine.target(client, *to)
                copy = _copied(delivery.message, target)
                self._move(client, delivery, target, copy)
            await client.confirmed("the message was moved")
        finally:
            self._clients.leave(client, False)
        return self._clients.id_of(copy)

    async def copy(self, asking: Asking, queue: str, message_id: str, to: Named) -> str | None:
        """Send a copy of a message that waits; return the copy's id.  Raises: as ``delete``; NotNow."""
        client = self._clients.client(asking)
        delivery = await self._found(client, queue, message_id, is_browser=True)
        try:
            with self._clients.turn(client):
                target = self._engine.target(client, *to)
                copy = _copied(delivery.message, target)
                gate = self._engine.send(target, copy)
            if gate != gates.OPEN:
                raise _refused(target, gate)
            await client.confirmed("the message was copied")
        finally:
            self._clients.leave(client, False)
        return self._clients.id_of(copy)

    def _move(self, client: RestClient, delivery: Delivery, target: Target, copy: Message) -> None:
        transaction = Transaction(client, "move", LIMITS)
        transaction.add_accepted([delivery])
        try:
            self._engine.send_in(transaction, target, copy)
            gate, _ = self._engine.commit_refusal(transaction)
        except EngineError:
            self._engine.abort(transaction)
            raise
        if gate != gates.OPEN:
            self._engine.abort(transaction)
            raise _refused(target, gate)
        self._engine.commit(transaction)

    async def _found(
        self, client: RestClient, queue: str, message_id: str, is_browser: bool = False, is_own: bool = False
    ) -> Delivery:
        """Return the delivery of the message.  is_own: the consumer needs no permission."""
        if not is_own:
            self._engine.access.require(client, "browse" if is_browser else "read", QUEUE, queue)
        found = named_destination(self._engine.destinations, (QUEUE, queue))
        assert isinstance(found, Queue)
        options = SubscribeOptions(
            INDIVIDUAL,
            prefetch=1,
            name="http",
            selector=_selector(self._engine.context.readers, message_id),
            is_browser=is_browser,
            is_taking=not is_browser,
        )
        consumer = self._clients.subscribed(client, queue, options, is_own)
        try:
            await self._clients.arrival(client, consumer, 0, FIND_MS)
        except BaseException:
            self._clients.leave(client, False)
            raise
        client.is_output_full = True
        if client.failure is not None:
            raise client.failure
        if client.is_gone or not client.deliveries:
            self._clients.leave(client, False)
            raise LookupError(
                f"{message_id[:200]} does not wait in queue://{queue}: it may be settled, with a consumer or delayed"
            )
        return client.deliveries[0]


def _selector(readers: PropertyReaders, message_id: str) -> str:
    """Return what only this message matches.  Raises: LookupError."""
    for prefix, name in ((readers.serial_prefix, "JMSXSerial"), (readers.id_prefix, "JMSXLogOffset")):
        digits = message_id.removeprefix(prefix)
        if message_id.startswith(prefix) and digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MOST:
            return f"{name} = {int(digits)}"
    raise LookupError(f"{message_id[:200]!r} is not an id of this store, whose ids begin with {readers.id_prefix}")


def _copied(message: Message, target: Target) -> Message:
    """Return the message for another destination, no dead letter any more; the history of one stays readable."""
    return moved(message, target.destination_id, message.annotations, message.expires_ms, 0, DEAD_LETTER)


def _refused(target: Target, gate: int) -> NotNow:
    return NotNow(f"{target.uri()} accepts nothing now, for the gate {gates.GATE_NAMES[gate]}")
