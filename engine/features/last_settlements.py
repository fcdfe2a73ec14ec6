"""The last settlements before the gateway stops: it hands over nothing more, and consumers settle what they hold.

A connection that holds messages may still send, because what it sends is usually their result; a service that waited
with its answer could never settle the request.  All other producers wait at the gate ``stopping``.  Connections,
subscriptions and settlements are accepted as ever.  There is no way back: the process ends.

Source: Artemis, ``graceful-shutdown-enabled``.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest
from typing import Final

from engine.backlog.context import Context
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.limits.producer_gates import ProducerGates, StopBase
from engine.sources.queue import DirtyQueues
from engine.values.delivery import consumer_words

HOLDERS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Held:
    """What consumers have not settled.  largest: those that hold most, in words."""

    messages: int = 0
    consumers: int = 0
    largest: tuple[str, ...] = ()


class LastSettlements(StopBase):
    """Pauses the engine for the stop, and counts what is still to be settled.

    _holders: consumers that held something when it began, without most of those that hold nothing any more.
    """

    __slots__ = ("_context", "_dirty_queues", "_clients", "_producer_gates", "_holders")

    def __init__(
        self, context: Context, dirty_queues: DirtyQueues, clients: dict[int, Client], producer_gates: ProducerGates
    ) -> None:
        self._context = context
        self._dirty_queues = dirty_queues
        self._clients = clients
        self._producer_gates = producer_gates
        self._holders: list[Consumer] = []

    def begin(self) -> None:
        """Hand over nothing more, and accept nothing from clients that hold no message."""
        self._dirty_queues.is_stopping = True
        for client in self._clients.values():
            self._holders += [consumer for consumer in client.consumers.values() if _counts(consumer)]
        self._producer_gates.stop = self
        self._producer_gates.block()

    def holds_back(self) -> bool:
        client = self._clients.get(self._context.sender)  # None: the broker itself
        return client is not None and not any(consumer.ledger for consumer in client.consumers.values())

    def is_held(self) -> bool:
        """Say whether there is anything to wait for; asked again and again, it looks at the holders that are left."""
        holders = self._holders
        while holders and not self._is_holding(holders[-1]):
            holders.pop()  # it gets nothing more
        return bool(holders)

    def held(self) -> Held:
        """Return what consumers hold whose settlements count."""
        holders = self._holders = [consumer for consumer in self._holders if self._is_holding(consumer)]
        largest = nlargest(HOLDERS_SHOWN, holders, key=_held_count)
        messages = sum([_held_count(consumer) for consumer in holders])
        return Held(messages, len(holders), tuple(_words(consumer) for consumer in largest))

    def _is_holding(self, consumer: Consumer) -> bool:
        return bool(consumer.ledger) and not consumer.is_closed and consumer.client.client_number in self._clients


def _counts(consumer: Consumer) -> bool:
    """Say whether it holds anything, and is no browser, nor a purge or a retry."""
    return bool(consumer.ledger) and consumer.is_ruled and consumer.lead() is consumer and not consumer.shown_by()


def _held_count(consumer: Consumer) -> int:
    return len(consumer.ledger)


def _words(consumer: Consumer) -> str:
    source = consumer.name if consumer.siblings is not None else consumer.queue.uri()
    who = consumer_words(consumer.description())
    return f"consumer {consumer.consumer_id} ({who}) holds {len(consumer.ledger)} of {source}"
