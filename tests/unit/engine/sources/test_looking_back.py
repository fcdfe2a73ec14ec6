"""A durable subscription that looks back to what compaction has taken out of the log."""

from __future__ import annotations

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.consumers.consumer import INDIVIDUAL
from engine.store.log.segment import load_segment
from engine.store.verify.store_check import verify
from engine.values.destination import TOPIC
from engine.values.options import SubscribeOptions
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from tests.support.engine.broker_view import BrokerView
from tests.support.engine.engine_world import MIB
from tests.support.fakes import FakeClient
from tests.support.store.store_home import THINNING, FileHome

SENT = 300
ALIVE = 7


def _thinned() -> FileHome:
    """Return a store with a topic of which one message is left in its sparse segments."""
    home = FileHome(THINNING)
    topic = home.store.open_destination(TOPIC, "news")
    early = home.store.open_subscription(topic, "early", {"client_id": "c", "name": "early"})
    sizes: list[int] = []
    for _ in range(SENT // 10):
        sizes += [each.size for each in home.send(topic, 10)]
        home.flush()
    for first, end in ((0, ALIVE), (ALIVE + 1, SENT)):
        home.store.settle(early, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, first, end - first, 0, 0, sizes[first:end])])
    home.flush()
    home.pass_by(4_000)
    names = [path.rpartition("/")[2] for path in home.files.paths(".log")]
    assert load_segment(home.files, "data/commitlog", names[0])[0].is_sparse
    home.stop()
    home.begin()
    return home


def test_it_waits_for_nothing_that_has_gone() -> None:
    home = _thinned()
    broker = Broker(home.store, home.clock, home.timers, AddressMatcher(()), 64 * MIB)
    client = FakeClient("late", "late")
    broker.connect(client)
    options = SubscribeOptions(INDIVIDUAL, SENT, "sub", subscription="late", is_durable=True, is_retroactive=True)
    consumer = broker.subscribe(client, BrokerView(broker).topic("news"), options)
    consumer.start()
    for _ in range(4):
        broker.end_turn()
        home.workers.run_all()
        broker.begin_turn()
    broker.sync()
    home.workers.run_all()
    assert consumer.queue.depth == 0
    (lane,) = home.store.state_of(consumer.queue.destination_id).lanes
    assert (lane.cursor, lane.settled) == (SENT, [])
    home.stop()
    assert verify(home.files, "data").findings == []
