"""A store that a broker has written, with consumers that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.consumers.consumer import INDIVIDUAL
from engine.store.disk.files import RealFiles
from engine.store.file_store import FileStore
from engine.store.offline import NoTimers, WorkersInTurn
from engine.store.settings import StoreSettings
from engine.values.delivery import AS_THE_ADDRESS_SAYS
from engine.values.message import PERSISTENT, STOMP, Message
from engine.values.options import SubscribeOptions
from tests.support.engine.broker_view import BrokerView
from tests.support.fakes import FakeClient, VirtualClock, VirtualTimers

MESSAGES: Final = 60


def write_store(directory: Path) -> None:
    """Write one in which two consumers had 60 messages of a queue; each sixth failed once, and two always."""
    clock = VirtualClock()
    timers = VirtualTimers(clock)
    workers = WorkersInTurn()
    store = FileStore(str(directory), RealFiles(), workers, clock, NoTimers(), StoreSettings())
    broker = Broker(store, clock, timers, AddressMatcher(()), 1 << 28)
    queue = BrokerView(broker).own_queue("orders.eu")
    clients = [FakeClient(f"192.0.2.{number}:40000") for number in range(2)]
    for client in clients:
        broker.connect(client)
        broker.subscribe(client, queue, SubscribeOptions(INDIVIDUAL, 10)).start()
    for now_ms in range(20_000):
        clock.now_ms += 1
        broker.begin_turn()
        timers.fire_due()
        for client in clients:
            for delivery in client.take():
                number = int(delivery.message.body)
                if number in (10, 20) or (number % 6 == 0 and not delivery.failed_attempts):
                    broker.refuse(delivery, AS_THE_ADDRESS_SAYS)
                else:
                    broker.acknowledge(delivery)
        if now_ms % 4 == 0 and now_ms // 4 < MESSAGES:
            body = b"%d" % (now_ms // 4)
            broker.send(queue, Message(queue.destination_id, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", body))
        broker.end_turn()
        broker.sync()
        workers.run_all()
    store.close()
