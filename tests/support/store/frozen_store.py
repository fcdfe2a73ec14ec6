"""Makes a sample store that tests keep for ever: ``python -m tests.support.store.frozen_store VERSION FILE``.

Each file was made once, when its version of the format began.  An existing file is never made again, because it
represents the stores of users.
"""

from __future__ import annotations

import io
import sys
import tarfile

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.consumers.consumer import CLIENT
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import FOREVER, Plan
from engine.open_transaction import TransactionLimits
from engine.sources.composite import Destination
from engine.sources.identified import identified
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE, TOPIC
from engine.values.message import AMQP_1_0, DEAD_LETTER, KEYED, PERSISTENT, PLAIN, STOMP, TEXT, Message
from engine.values.options import SubscribeOptions
from engine.values.outcomes import (
    ACKNOWLEDGED,
    CAUSE_ADMIN,
    CAUSE_EXHAUSTED,
    CAUSE_NACK,
    CAUSE_NONE,
    DEAD_LETTERED,
    DROPPED,
)
from engine.values.stored import Range
from engine.values.xid import Xid
from tests.support.engine.broker_view import BrokerView
from tests.support.fakes import FakeClient
from tests.support.store.store_home import FileHome


def frozen() -> FileHome:
    """Return a stopped store that has every kind of record, in several segments."""
    home = FileHome(StoreSettings(segment_bytes=8192, index_slots=16, index_entries=10))
    store = home.store
    orders = store.open_destination(QUEUE, "orders.eu")
    dead = store.open_destination(QUEUE, "ActiveMQ.DLQ")
    gone = store.open_destination(QUEUE, "gone")
    news = store.open_destination(TOPIC, "news")
    worker = store.open_consumer(orders, {"client_id": "worker", "address": "192.0.2.7:1234"})
    mail = store.open_subscription(news, "mail", {"client_id": "m"})
    sent: list[Message] = []
    for number in range(40):
        headers = f"keys:k{number % 4}\ncontent-type:text/plain\n".encode()
        flags = PERSISTENT | PLAIN | TEXT | KEYED
        priority = 7 if number % 10 == 0 else 4
        body = f"order {number} ".ljust(300, ".").encode()
        sent.append(Message(orders, STOMP, flags, priority, 1, 2, 0, b"", headers, body))
        store.append(sent[-1])
        if number % 8 == 0:
            store.append(Message(news, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", b"news %d" % number))
        home.clock.now_ms += 1_000
        store.set_time(home.clock.wall_ms())
        home.flush()
    store.append(Message(gone, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", b"nobody's"))
    store.append(
        Message(orders, AMQP_1_0, PERSISTENT, 4, 0, 0, 9_999_999_999_999, b"", b"\x00Ss\x45", b"\x00Su\xa0\x02hi")
    )
    normal = [message for message in sent if message.priority == 4]
    store.settle(orders, worker, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, 10, 0, sum(each.size for each in normal[:10]))])
    store.settle(orders, worker, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 15, 1, 0, normal[15].size, (normal[15].size,))])
    store.fail_attempts(orders, worker, CAUSE_NACK, 0, [Range(4, 12, 1, 3)])
    letter = Message(
        dead, STOMP, PERSISTENT | DEAD_LETTER, 4, 0, 0, 0, b"dlqDeliveryFailureCause:tired\n", b"", b"dead"
    )
    store.begin()
    store.settle(orders, worker, DEAD_LETTERED, CAUSE_EXHAUSTED, [Range(4, 11, 1, 0, normal[11].size)])
    store.append(letter)
    store.commit()
    store.settle(mail, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, 1, 0, 0, [len(b"news 0")])])
    store.settle(gone, 0, DROPPED, CAUSE_ADMIN, [Range(4, 0, 1, 0, 8)])
    store.close_destination(gone)
    store.close_consumer(worker)
    home.flush()
    home.pass_time(1_000)
    home.stop()
    return home


def frozen_sparse() -> FileHome:
    """Return a stopped store whose full segments are sparse: three messages are left, one of a transaction."""
    home = FileHome(
        StoreSettings(
            segment_bytes=8192,
            retention_bytes=0,
            compaction_live_percent=60,
            compaction_min_age_ms=0,
            compaction_interval_ms=1_000,
            index_slots=16,
            index_entries=100,
        )
    )
    store = home.store
    orders = store.open_destination(QUEUE, "orders.eu")
    news = store.open_destination(TOPIC, "news")
    store.open_subscription(news, "mail", {"client_id": "m"})
    sent: list[Message] = []
    for number in range(60):
        headers = f"keys:k{number % 4}\n".encode()
        body = f"order {number} ".ljust(300, ".").encode()
        sent.append(Message(orders, STOMP, PERSISTENT | PLAIN | TEXT | KEYED, 4, 0, 0, 0, b"", headers, body))
        if number % 10 == 1:  # together with the one before
            store.begin()
            store.append(sent[-2])
            store.append(sent[-1])
            store.commit()
        elif number % 10:
            store.append(sent[-1])
        home.flush()
    store.append(Message(news, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", b"news"))
    store.fail_attempts(orders, 0, CAUSE_NACK, 0, [Range(4, 3, 1, 2)])
    for entry, each in enumerate(sent):
        if entry not in (3, 31):
            store.settle(orders, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, entry, 1, 0, each.size, (each.size,))])
    home.flush()
    for _ in range(60):  # so that none of this is in the last segments
        store.append(Message(orders, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", bytes(300)))
        home.flush()
    store.settle(orders, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 60, 60, 0, 60 * 300)])
    home.flush()
    for _ in range(50):
        home.pass_time(100)
    home.stop()
    return home


def frozen_schedule() -> FileHome:
    """Return a stopped store with scheduled messages of every kind; one has fired, and so has a repeating one."""
    home = FileHome(StoreSettings(segment_bytes=8192, index_slots=16, index_entries=10))
    broker = Broker(home.store, home.clock, home.timers, AddressMatcher(()), 1 << 20)
    orders = BrokerView(broker).queue("orders.eu")
    plans = (
        Plan(delay_ms=500),
        Plan(period_ms=1_000, repeat=FOREVER),
        Plan(delay_ms=86_400_000),
        Plan(time_ms=home.clock.wall_ms() + 3_600_000, renews_expiry=False),
        Plan(delay_ms=1_000, period_ms=2_000, repeat=3, cron="0 0 1 1 *"),
    )
    for number, plan in enumerate(plans):
        target = delayed(orders, plan)
        body = f"order {number} ".ljust(1_500, ".").encode()
        broker.send(target, Message(0, STOMP, PERSISTENT | PLAIN | TEXT, number, 0, 0, 0, b"", b"keys:k\n", body))
    home.live_on(broker, 30, 100)
    home.stop()
    return home


def frozen_branches() -> FileHome:
    """Return a stopped store with a prepared transaction of every kind of work, and one that was committed."""
    home = FileHome(StoreSettings(segment_bytes=8192, index_slots=16, index_entries=10))
    broker = Broker(home.store, home.clock, home.timers, AddressMatcher(()), 1 << 20)
    view = BrokerView(broker)
    client = FakeClient("192.0.2.7:1234")
    broker.connect(client)
    orders, out, news = view.queue("orders.eu"), view.queue("out"), view.topic("news")
    broker.subscribe(client, orders, SubscribeOptions(CLIENT, 5, "s")).start()
    for number in range(8):
        body = f"order {number} ".ljust(1_500, ".").encode()
        broker.send(orders, Message(orders.destination_id, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"keys:k\n", body))
    home.live_on(broker, 3, 100)
    held = client.take()
    client.user = "alice"
    for number in range(2):
        xid = Xid(1, b"order", b"%d" % number)
        view.branches.begin(client, xid, TransactionLimits())
        transaction = view.branches.active(client, xid).transaction
        transaction.add_accepted(held[2 * number : 2 * number + 2])
        targets: list[Destination] = [out, news, identified(out, "once"), delayed(out, Plan(delay_ms=3_600_000))]
        for priority, target in enumerate(targets if number else targets[:1]):
            sent = Message(
                out.destination_id, STOMP, PERSISTENT, priority, 1, 0, 0, b"", b"a:b\n", b"sent %d" % priority
            )
            broker.send_in(transaction, target, sent)
        view.branches.prepare(view.branches.active(client, xid))
        home.live_on(broker, 3, 100)
    view.branches.commit(view.branches.require_prepared(client, Xid(1, b"order", b"0")))
    home.live_on(broker, 3, 100)
    home.stop()
    return home


SAMPLES = {"1": frozen, "2": frozen_sparse, "3": frozen_schedule, "4": frozen_branches}


def main(version: str, path: str) -> None:
    home = SAMPLES[version]()
    with tarfile.open(path, "x:gz") as archive:
        for name in home.files.paths():
            octets = bytes(home.files.octets(name))
            member = tarfile.TarInfo(name)
            member.size = len(octets)
            archive.addfile(member, io.BytesIO(octets))


if __name__ == "__main__":
    main(*sys.argv[1:])
