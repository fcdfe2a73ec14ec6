"""The last settlements before the gateway stops: it hands over nothing more, and consumers settle what they hold.

A connection that holds messages may still send, because what it sends is usually their result; a service that waited
with its answer could never settle the request.  All other producers wait at the gate ``stopping``.  Connections,
subscriptions and settlements are accepted as ever.  There is no way back: the process ends.

Source: Artemis, ``graceful-shutdown-enabled``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.backlog.context import Context
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.limits.producer_gates import ProducerGates, StopBase
from engine.values.delivery import consumer_words

HOLDERS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Held:
    """What consumers have not settled.  largest: those that hold most, in words."""

    messages: int = 0
    consumers: int = 0
    largest: tuple[str, ...] = ()


class LastSettlements(StopBase):
    """Pauses the engine for the stop, and counts what is still to be settled."""

    __slots__ = ("_context", "_clients", "_producer_gates")

    def __init__(self, context: Context, clients: dict[int, Client], producer_gates: ProducerGates) -> None:
        self._context = context
        self._clients = clients
        self._producer_gates = producer_gates

    def begin(self) -> None:
        """Hand over nothing more, and accept nothing from clients that hold no message."""
        self._context.is_stopping = True
        for client in self._clients.values():
            client.is_stopping = True
        self._producer_gates.stop = self
        self._producer_gates.block()

    def holds_back(self) -> bool:
        client = self._clients.get(self._context.sender)  # None: the broker itself
        return client is not None and not any(consumer.ledger for consumer in client.consumers.values())

    def held(self) -> Held:
        """Return what consumers hold whose settlements count: not browsers, nor a purge or a retry."""
        holders = [
            consumer
            for client in self._clients.values()
            for consumer in client.consumers.values()
            if consumer.ledger and consumer.is_ruled and consumer.lead() is consumer and not consumer.shown_by()
        ]
        holders.sort(key=lambda consumer: -len(consumer.ledger))
        messages = sum(len(consumer.ledger) for consumer in holders)
        return Held(messages, len(holders), tuple(_words(consumer) for consumer in holders[:HOLDERS_SHOWN]))


def _words(consumer: Consumer) -> str:
    source = consumer.name if consumer.siblings is not None else consumer.queue.uri()
    who = consumer_words(consumer.description())
    return f"consumer {consumer.consumer_id} ({who}) holds {len(consumer.ledger)} of {source}"
