"""What MemoryStore has beyond the contract."""

from __future__ import annotations

from engine.values.destination import QUEUE
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from tests.support.fakes import HeldWorkers
from tests.support.store.memory_store import MemoryStore
from tests.support.store.store_home import UNLIMITED, message
from tests.support.store.store_world import RecordingListener


def opened() -> tuple[MemoryStore, HeldWorkers, RecordingListener]:
    workers = HeldWorkers()
    store = MemoryStore(workers)
    listener = RecordingListener()
    store.attach(listener)
    return store, workers, listener


def test_failing_and_healing() -> None:
    store, workers, listener = opened()
    queue = store.open_destination(QUEUE, "orders")
    store.fail("no more memory")
    store.fail("told once")
    store.append(message(queue))
    store.write()
    store.sync()
    workers.run_all()
    assert listener.failures == ["no more memory"]
    assert not store.is_accepting()
    assert (store.written_offset(), store.durable_offset()) == (0, 0)
    store.heal()
    assert listener.healed_count == 1
    assert store.is_accepting()
    assert listener.durable_offset == store.append_offset()


def test_settled_messages_are_let_go_of() -> None:
    store, workers, listener = opened()
    queue = store.open_destination(QUEUE, "orders")
    for _ in range(5):
        store.append(message(queue))
    store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 1, 3)])
    store.write()
    store.request(queue, 4, 0, 5, UNLIMITED)
    workers.run_all()
    (page,) = listener.pages
    assert [each.queue_offset for each in page.messages] == [0, 4]
    assert page.next_offset == 5
    assert sum(len(messages) for messages in store._messages.values()) == 2
    assert store._records == []
