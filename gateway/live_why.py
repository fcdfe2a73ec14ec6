"""The running gateway's answers to "why"."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from config.matching import AddressMatcher, Setting
from config.policies import RedeliveryPolicy
from engine.broker import Broker
from engine.store.biography import Biography, biography, entry_of
from engine.store.reader import StoreReader
from engine.views import Whereabouts, locate, view_consumer, view_producer
from gateway.web.why import Answer, WhySource
from gateway.why import consumer_lines, message_lines, producer_lines


class LiveWhy(WhySource):
    def __init__(self, broker: Broker, addresses: AddressMatcher, directory: str) -> None:
        self._broker = broker
        self._addresses = addresses
        self._directory = directory

    def consumer(self, consumer_id: int) -> Answer | None:
        view = view_consumer(self._broker, consumer_id)
        return None if view is None else Answer(consumer_lines(view, self._broker.clock.wall_ms()), asdict(view))

    def producer(self, connection_id: int) -> Answer | None:
        view = view_producer(self._broker, connection_id)
        return None if view is None else Answer(producer_lines(view), asdict(view))

    async def message(self, message_id: str) -> Answer:
        life = await asyncio.to_thread(_read, self._directory, message_id)
        where = self._locate(life)
        policy, settings = policy_of(self._addresses, life)
        lines = message_lines(life, where, policy, settings, self._broker.clock.wall_ms())
        return Answer(lines, {**asdict(life), "where": None if where is None else asdict(where)})

    def _locate(self, life: Biography) -> Whereabouts | None:
        kind, name, priority, queue_offset = entry_of(life)
        queue = self._broker.destinations.queues.get(name) if kind == "queue" else None
        return None if queue is None else locate(self._broker, queue, priority, queue_offset)


def policy_of(addresses: AddressMatcher, life: Biography) -> tuple[RedeliveryPolicy, dict[str, Setting]]:
    """Return the redelivery policy of a message's destination as configured now, and where its values stand."""
    kind, name, _, _ = entry_of(life)
    number = 1 if kind == "queue" else 2
    return addresses.settings_for(number, name).redelivery, addresses.explain(number, name)


def _read(directory: str, message_id: str) -> Biography:
    return biography(StoreReader(directory), message_id)
