"""Turns in which a segment of the log begins: its snapshot describes the whole state of the store."""

from __future__ import annotations

from typing import Final

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.consumers.consumer import INDIVIDUAL
from engine.store.settings import StoreSettings
from engine.values.message import PERSISTENT, STOMP, Message
from engine.values.options import SubscribeOptions
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NACK
from engine.values.stored import Range
from tests.support.engine.broker_view import BrokerView
from tests.support.engine.engine_world import MIB
from tests.support.fakes import FakeClient
from tests.support.store.store_home import FileHome
from tests.support.turns.turn_scenarios import Input, scenario

FILLED_BYTES: Final = 4 * MIB  # more than two segments, even with snapshots longer than a MiB


class _Logged(BrokerView):
    """An engine with a store on a disk in memory.  The work of workers belongs to no turn."""

    def __init__(self) -> None:
        self.home = FileHome(StoreSettings(segment_bytes=1 << 20))
        self.broker = Broker(self.home.store, self.home.clock, self.home.timers, AddressMatcher(()), 256 * MIB)
        self.client = FakeClient()
        self.broker.connect(self.client)

    def send(self, name: str, body: bytes) -> int:
        """Send to a queue; return its number."""
        queue = self.queue(name)
        self.broker.send(queue, Message(queue.destination_id, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", body))
        return queue.destination_id

    def fill(self) -> None:
        """Send to one queue, some messages per turn, until several segments have begun."""
        until = self.home.store.append_offset() + FILLED_BYTES
        while self.home.store.append_offset() < until:
            self.broker.begin_turn()
            for _ in range(10):
                self.send("other", b"x" * 2_000)
            self.broker.end_turn()
            self.home.store.write()


@scenario("a segment of the log begins: many queues")
def _(count: int) -> Input:
    world = _Logged()
    for number in range(count):
        world.send(f"q.{number}", b"x")
    return world.fill


@scenario("a segment of the log begins: many runs of settled entries and failed attempts")
def _(count: int) -> Input:
    world = _Logged()
    store = world.home.store
    consumer = store.open_consumer(world.send("q", b"x"), {})
    for number in range(1, 10 * count):
        queue = world.send("q", b"x")
        if number % 2:
            store.settle(queue, consumer, ACKNOWLEDGED, 0, [Range(4, number, 1, 0, 1, (1,))])
        else:
            store.fail_attempts(queue, consumer, CAUSE_NACK, 0, [Range(4, number, 1, 1)])
    store.close_consumer(consumer)
    return world.fill


@scenario("a segment of the log begins: many durable subscriptions")
def _(count: int) -> Input:
    world = _Logged()
    client = FakeClient("c", "c")
    world.broker.connect(client)
    topic = world.topic("t")
    for number in range(count):
        asked = SubscribeOptions(INDIVIDUAL, 1, subscription=f"d{number}", is_durable=True)
        world.broker.subscribe(client, topic, asked).start()
    return world.fill
