"""``ReaderWorld`` with many subscriptions to topics and wildcards, most with selectors, and transactions."""

from __future__ import annotations

from typing import Final

import pytest

from engine.broker import Broker
from engine.consumers import turn_steps
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.topics import topic, topic_offers
from engine.values import gates
from engine.values.destination import TOPIC
from engine.values.message import Message
from engine.values.wildcard import Wildcard
from tests.support.engine.engine_world import address
from tests.support.fakes import FakeClient, Handed
from tests.support.histories.reader_world import SELECTORS, Reader, ReaderWorld, Sent, uid_of
from tests.support.world.bodies import Violation
from tests.support.world.seeds import telling


class TopicWorld(ReaderWorld):
    readers_max = 25
    names: Final = ("t.a", "t.b", "t.c", "u")
    sources: Final = (*names, "t.>", "t.*", ">")

    def __init__(self, seed: int, broker_class: type[Broker] = Broker) -> None:
        super().__init__(
            seed,
            address(">", dead_letter_address=None),
            memory_limits_bytes=(1 << 28, 60_000, 20_000),
            broker_class=broker_class,
        )

    def run(self) -> None:
        """The compiled build keeps its limits: there most publications are for few enough readers for one turn."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(topic, "AT_ONCE_MOST", self.chance.choice((0, 1, 2)))
            patch.setattr(topic_offers, "FEW_CONDITIONS", self.chance.choice((0, 1, 2)))
            patch.setattr(turn_steps, "POSTPONED_QUEUES", self.chance.choice((1, 2)))
            super().run()

    def _publication(self) -> tuple[Sent, Message]:
        sent = self._draw(self.chance.choice(self.names), is_persistent=self.chance.random() < 0.5)
        return sent, self._make(self.topic(sent.place), sent)

    def _send(self) -> None:
        sender = self.chance.choice(self.clients)
        self.let_send(sender)
        sent, message = self._publication()
        if self.broker.send(self.topic(sent.place), message) == gates.OPEN:
            self._published(sender, sent)

    def _act(self) -> None:
        """Commit a transaction of publications."""
        sender = self.clients[0]
        transaction = Transaction(sender, "tx", TransactionLimits())
        publications = [self._publication() for _ in range(self.chance.randint(1, 5))]
        for sent, message in publications:
            transaction.add_send(self.topic(sent.place), message)
        self.let_send(sender)
        if self.broker.commit_refusal(transaction)[0] != gates.OPEN:
            self.broker.abort(transaction)
            return
        self.broker.commit(transaction)
        for sent, _ in publications:
            self._published(sender, sent)

    def _published(self, sender: FakeClient, sent: Sent) -> None:
        for reader in self.readers.values():
            if self._is_for(reader, sent) and not (reader.is_no_local and reader.client is sender):
                reader.expected.append(sent.uid)

    def _open(self) -> None:
        client, place, selector, mode, prefetch = self._asked(self.sources)
        is_no_local = self.chance.random() < 0.2
        consumer = self.consumer(
            client, self.source(TOPIC, place), mode, prefetch, selector=selector, is_no_local=is_no_local
        )
        since = len(self.sent)
        self.readers[consumer] = Reader(client, consumer, "subscription", place, selector, since, is_no_local)

    def _is_for(self, reader: Reader, sent: Sent) -> bool:
        return Wildcard(TOPIC, reader.place).matches(sent.place) and SELECTORS[reader.selector](sent)

    def _delivered(self, reader: Reader, one: Handed) -> None:
        if uid_of(one.message) not in reader.expected:
            raise Violation(f"message {uid_of(one.message)} was not published for the {reader.describe()}")
        super()._delivered(reader, one)

    def _due_to(self, reader: Reader) -> list[int]:
        return [] if reader.consumer.queue.dropped_count else reader.expected


def run_seed(seed: int) -> TopicWorld:
    world = TopicWorld(seed)
    with telling("topic", seed):
        world.run()
    return world
