"""``ReaderWorld`` with readers of non-destructive queues (also last-value and ring queues), browsers and replays.

Meanwhile queues are purged, messages expire, and consumers take from the queues that are browsed and replayed.
"""

from __future__ import annotations

from typing import Final

from engine.broker import Broker
from engine.consumers.consumer import AUTO, Consumer
from engine.values.options import FIRST, ReplayStart
from tests.support.engine.engine_world import address
from tests.support.engine.rest_law import waiting
from tests.support.histories.reader_world import SELECTORS, Reader, ReaderWorld, uid_of
from tests.support.world.bodies import Violation
from tests.support.world.seeds import telling


class ViewWorld(ReaderWorld):
    readers_max = 15
    kinds: Final = {"kept": "view", "last": "view", "ring": "view", "browsed": "browser", "replayed": "replay"}

    def __init__(self, seed: int, broker_class: type[Broker] = Broker) -> None:
        super().__init__(
            seed,
            address("kept", queue__non_destructive=True),
            address("last", queue__non_destructive=True, queue__last_value=True),
            address("ring", queue__non_destructive=True, queue__ring_size=6),
            address(">", dead_letter_address=None, expiry_address=None),
            memory_limits_bytes=(1 << 28, 200_000, 60_000),
            broker_class=broker_class,
        )
        self.taker: Consumer | None = None
        self.taken = self.client("taker")

    def _send(self) -> None:
        chance = self.chance
        sent = self._draw(
            chance.choice(list(self.kinds)),
            priority=4 if chance.random() < 0.85 else 9,
            is_persistent=chance.random() < 0.7,
        )
        sent.is_persistent = sent.is_persistent or sent.place == "replayed"  # a replay reads the log
        expires_ms = self.broker.wall_ms + chance.choice((20, 200)) if chance.random() < 0.1 else 0
        queue = self.queue(sent.place)
        self.broker.send(queue, self._make(queue, sent, expires_ms=expires_ms))

    def _open(self) -> None:
        client, place, selector, mode, prefetch = self._asked(tuple(self.kinds))
        kind = self.kinds[place]
        replay = ReplayStart(FIRST) if kind == "replay" else None
        consumer = self.consumer(
            client, place, mode, prefetch, selector=selector, is_browser=kind == "browser", replay=replay
        )
        self.readers[consumer] = Reader(client, consumer, kind, place, selector, len(self.sent))

    def _act(self) -> None:
        """Purge a queue, or have a consumer come to one that is browsed or replayed, or go."""
        chance = self.chance
        if chance.random() < 0.3:
            self.purge(self.queue(chance.choice(list(self.kinds))), chance.choice(list(SELECTORS)))
        elif self.taker is None:
            self.taker = self.consumer(self.taken, chance.choice(("browsed", "replayed")), AUTO, 5)
        else:
            self._end_taker()

    def _end_taker(self) -> None:
        if self.taker is not None:
            self.broker.unsubscribe(self.taker, is_lost=False)
            self.taker = None

    def _rest(self) -> None:
        self._end_taker()
        super()._rest()

    def _due_to(self, reader: Reader) -> list[int]:
        queue = self.queue(reader.place)
        found = [
            self.sent[uid_of(message)]
            for lane in queue.used_lanes
            for message, _ in waiting(self, self.memory_store, queue, lane)
        ]
        until = reader.since if reader.kind == "browser" else len(self.sent)
        return [one.uid for one in found if one.uid <= until and self._is_for(reader, one)]

    def _check_complete(self, reader: Reader) -> None:
        super()._check_complete(reader)
        if reader.kind == "browser" and reader.consumer not in reader.client.browses_ended:
            raise Violation(f"the {reader.describe()} has not come to its end")


def run_seed(seed: int) -> ViewWorld:
    world = ViewWorld(seed)
    with telling("view", seed):
        world.run()
    return world
