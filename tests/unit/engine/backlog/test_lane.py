"""Lanes: order per producer with persistent and non-persistent messages mixed, in memory and from disk."""

from __future__ import annotations

from collections import deque
from typing import Any

from engine.backlog.delivery_row import DELAYED_BYTES
from engine.backlog.lane_entries import IDLE_LANE_BYTES, LANE_MESSAGES, PAGE_BYTES, PAGE_MESSAGES
from engine.consumers.consumer import INDIVIDUAL
from engine.dispatch.delays import KEPT_DELAYED_BYTES, LONG_DELAY_MS, RELOAD_READER
from engine.values import gates
from engine.values.delivery import GONE, IN_FLIGHT, Delivery
from engine.values.outcomes import CAUSE_DAMAGED, CAUSE_NACK, DROPPED
from engine.values.stored import Attempts, LaneState
from tests.support.engine.engine_world import MIB, EngineWorld, address
from tests.support.fakes import FakeClient
from tests.support.store.scripted_store import ScriptedStore, Settled, recovered_queue, stored_message


def consume_all(world: EngineWorld, client: FakeClient) -> list[bytes]:
    """Take and acknowledge until nothing comes any more."""
    bodies: list[bytes] = []
    while held := client.take():
        bodies += [one.message.body for one in held]
        world.acknowledge(*held)
    return bodies


def recovered_world(lane: LaneState, count: int, *, page_limit: int = 1_000_000) -> tuple[EngineWorld, ScriptedStore]:
    """Return a world whose queue ``q`` has ``count`` entries on disk, named by their number."""
    messages = [stored_message(1, offset, b"%d" % offset, lane.priority) for offset in range(count)]
    store = ScriptedStore([recovered_queue(1, "q", [lane])], messages)
    store.page_limit = page_limit
    return EngineWorld(store=store), store


def numbers(*values: int) -> list[bytes]:
    return [b"%d" % value for value in values]


def test_what_one_producer_sent_stays_in_order_persistent_or_not() -> None:
    world = EngineWorld()
    bodies = numbers(*range(20))
    for number, body in enumerate(bodies):
        world.send(body, persistent=number % 3 == 0)
    client = world.subscriber()
    assert consume_all(world, client) == bodies
    assert world.memory_used() == 0


def test_the_first_message_of_a_queue_may_be_one_that_is_not_logged() -> None:
    world = EngineWorld()
    world.send(b"volatile", persistent=False)
    world.send(b"logged")
    assert world.subscriber().bodies() == [b"volatile", b"logged"]


def test_a_backlog_beyond_memory_is_paged_in_order() -> None:
    world = EngineWorld()
    count = LANE_MESSAGES + 3 * PAGE_MESSAGES // 2
    bodies = numbers(*range(count))
    world.send(*bodies)
    assert world.queue("q").has_backlog()
    client = world.subscriber(prefetch=500)
    assert consume_all(world, client) == bodies
    assert not world.queue("q").has_backlog()
    world.send(b"after")  # in memory again
    assert client.bodies() == [b"after"]


def test_messages_that_are_not_logged_wait_behind_the_entries_on_disk_before_them() -> None:
    world, store = recovered_world(LaneState(4, 4, 0, [], {}), 4, page_limit=3)
    world.send(b"a", persistent=False)
    world.send(b"b", persistent=False)
    world.send(b"4")
    world.send(b"c", persistent=False)
    assert world.subscriber().bodies() == [b"0", b"1", b"2", b"3", b"a", b"b", b"4", b"c"]
    assert store.requests == []


def test_returned_messages_go_back_to_their_place() -> None:
    world = EngineWorld()
    first, second = world.client("first"), world.client("second")
    world.consumer(first)
    for number in range(6):
        world.send(b"%d" % number, persistent=number % 2 == 0)
    held = first.take()
    world.acknowledge(held[1], held[4])
    world.send(b"6")
    world.lose(first)
    world.subscribe(second)
    assert second.bodies() == numbers(0, 2, 3, 5, 6)


def test_recovery_takes_up_cursor_settled_ranges_and_attempts() -> None:
    lane = LaneState(4, 10, 2, [(4, 2), (8, 1)], {3: Attempts(2, 0, 5, 6, CAUSE_NACK, 0)})
    world, _ = recovered_world(lane, 10)
    assert world.stats().depth == 5
    client = world.subscriber()
    handed = client.handed
    assert [one.body for one in handed] == numbers(2, 3, 6, 7, 9)
    assert [(one.is_redelivered, one.delivery_count) for one in handed] == [
        (False, 1),
        (True, 3),
        (False, 1),
        (False, 1),
        (False, 1),
    ]
    held = client.take()
    history = held[1].history
    assert history is not None
    assert (history.first_ms, history.last_ms, history.cause) == (5, 6, CAUSE_NACK)
    assert held[0].history is None
    world.acknowledge(*held)
    assert world.stats().depth == 0


def test_an_attempt_that_waits_goes_on_waiting_after_a_restart() -> None:
    lane = LaneState(4, 3, 0, [], {1: Attempts(1, 1_700_000_000_700, 1, 1, CAUSE_NACK, 0)})
    world, _ = recovered_world(lane, 3)
    client = world.subscriber()
    assert client.bodies() == numbers(0, 2)
    assert world.stats().delayed == 1
    world.advance(699)
    assert client.bodies() == []
    world.advance(1)
    assert client.bodies() == numbers(1)
    assert world.stats().delayed == 0


def test_recovered_priorities_are_lanes_of_their_own() -> None:
    messages = [stored_message(1, 0, b"low", 1), stored_message(1, 0, b"high", 8)]
    lanes = [LaneState(1, 1, 0, [], {}), LaneState(8, 1, 0, [], {})]
    client = EngineWorld(store=ScriptedStore([recovered_queue(1, "q", lanes)], messages)).subscriber(prefetch=2)
    assert sorted(client.bodies()) == [b"high", b"low"]


def test_entries_whose_record_is_gone_are_passed() -> None:
    store = ScriptedStore([recovered_queue(1, "q", [LaneState(4, 3, 0, [], {})])], [stored_message(1, 2, b"2")])
    assert EngineWorld(store=store).subscriber().bodies() == [b"2"]


def test_what_was_found_ahead_is_forgotten_when_it_is_gone_and_its_record_too() -> None:
    store = ScriptedStore([recovered_queue(1, "q", [LaneState(4, 5, 0, [], {})])])
    lane = EngineWorld(store=store).queue("q").lane(4)
    gone, held = [lane.keep_ahead(stored_message(1, offset, b"found")) for offset in (1, 2)]
    gone.state, held.state = GONE, IN_FLIGHT
    loaded = lane.load(4, [stored_message(1, offset, b"read") for offset in (0, 3)])
    assert [one.message.queue_offset for one in loaded] == [0, 3]
    assert lane.ahead.by_offset == {2: held}


def test_nothing_is_read_from_disk_before_somebody_wants_it() -> None:
    world, store = recovered_world(LaneState(4, 5, 0, [], {}), 5)
    world.broker.end_turn()
    assert store.requests == []
    client = world.client()
    consumer = world.consumer(client)
    assert consumer.gate() == gates.PAGING
    world.broker.end_turn()
    assert [request[:3] for request in store.requests] == [(1, 4, 0)]
    world.broker.end_turn()
    assert len(store.requests) == 1, "one page at a time"


def test_a_page_the_disk_refuses_is_asked_for_again_a_little_later() -> None:
    world, store = recovered_world(LaneState(4, 2, 0, [], {}), 2)
    client = world.client()
    consumer = world.consumer(client)
    world.broker.end_turn()
    store.refuse_pages("read error at 4711")
    assert world.broker.inspect().store.reason == "queue://q: read error at 4711"
    assert consumer.gate() == gates.STORE_DAMAGED
    assert consumer.describe_gate() == "damaged: read error at 4711"
    world.broker.end_turn()
    assert store.requests == [], "not at once: that would keep a processor busy for nothing"
    consumer.queue.mark_dirty()
    world.broker.end_turn()
    assert store.requests == [], "nor because somebody asks for more meanwhile"
    world.advance(1_000)
    assert client.bodies() == numbers(0, 1)
    assert world.broker.inspect().store.reason == ""


def test_an_empty_page_is_asked_for_again_a_little_later() -> None:
    world, store = recovered_world(LaneState(4, 2, 0, [], {}), 2)
    client = world.consuming()
    world.broker.end_turn()
    assert len(store.requests) == 1
    store.forget_requests()
    world.store.listener.page_loaded(1, 4, 0, 0, [])
    world.broker.end_turn()
    assert store.requests == []
    world.queue("q").mark_dirty()
    world.broker.end_turn()
    assert store.requests == []
    world.advance(1_000)
    assert client.bodies() == numbers(0, 1)


def test_a_disk_that_takes_messages_again_is_asked_for_pages_at_once() -> None:
    world, store = recovered_world(LaneState(4, 2, 0, [], {}), 2)
    client = world.consuming()
    world.broker.end_turn()
    store.refuse_pages("read error at 4711")
    store.fail("no space left")
    store.heal()
    world.turn()
    assert client.bodies() == numbers(0, 1)


def test_paged_messages_that_expired_are_not_handed_over() -> None:
    late = stored_message(1, 0, b"late")
    late.expires_ms = 1
    messages = [late, stored_message(1, 1, b"good")]
    world = EngineWorld(store=ScriptedStore([recovered_queue(1, "q", [LaneState(4, 2, 0, [], {})])], messages))
    assert world.subscriber(ack_mode=INDIVIDUAL).bodies() == [b"good"]
    assert world.stats().expired == 1


def test_a_damaged_queue_stays_said_while_others_are_read() -> None:
    lanes = [LaneState(4, 2, 0, [], {})]
    messages = [stored_message(number, offset, b"m") for number in (1, 2) for offset in range(2)]
    store = ScriptedStore([recovered_queue(1, "bad", lanes), recovered_queue(2, "good", lanes)], messages)
    world = EngineWorld(store=store)
    client = world.consuming("bad")
    world.broker.end_turn()
    store.refuse_pages("its checksum does not match")
    world.subscribe(client, "good")
    assert len(client.bodies()) == 2
    assert world.broker.inspect().store.reason == "queue://bad: its checksum does not match"


def test_while_too_much_waits_for_its_redelivery_the_rest_stays_on_disk() -> None:
    world = EngineWorld(address("q", redelivery__initial_redelivery_delay_ms=LONG_DELAY_MS - 1))
    world.store.page_limit = PAGE_BYTES // MIB
    body = b"x" * MIB
    count = 2 * DELAYED_BYTES // MIB
    client = world.client()
    consumer = world.consumer(client, prefetch=4)
    world.send(*[body] * count)
    taken = 0
    while held := client.take():
        taken += len(held)
        world.refuse(*held)
    assert DELAYED_BYTES < taken * MIB <= DELAYED_BYTES + 2 * PAGE_BYTES + 4 * MIB
    assert world.stats().delayed == taken
    assert consumer.gate() == gates.DELAYED
    world.send(b"later")
    assert client.bodies() == [], "it stays in its place behind them"
    assert world.stats().memory_bytes == 0, "all that was loaded is delayed"
    world.advance(LONG_DELAY_MS - 1)
    offsets: list[int] = []
    while held := client.take():
        offsets += [one.message.queue_offset for one in held]
        world.acknowledge(*held)
    assert offsets == list(range(count + 1))
    assert world.stats().depth == 0


def refused_world(count: int) -> tuple[EngineWorld, FakeClient]:
    """Return a world in which ``count`` messages of a MiB each were refused and wait a minute."""
    world = EngineWorld(address("q", redelivery__initial_redelivery_delay_ms=60_000))
    world.store.page_limit = PAGE_BYTES // MIB
    client = world.consuming(prefetch=4)
    world.send(*[b"%07d" % number * (MIB // 7) for number in range(count)])
    while held := client.take():
        world.refuse(*held)
    return world, client


def test_what_waits_long_keeps_its_content_on_disk_and_holds_nothing_back() -> None:
    count = 2 * DELAYED_BYTES // MIB
    world, client = refused_world(count)
    lane = world.queue("q").lane(4)
    assert world.stats().delayed == count
    assert lane.delayed_bytes < KEPT_DELAYED_BYTES + 2 * MIB
    world.advance(60_000)
    bodies = consume_all(world, client)
    assert sorted(bodies) == [b"%07d" % number * (MIB // 7) for number in range(count)]
    assert (world.stats().depth, world.stats().delayed, lane.delayed_bytes, lane.ready_bytes) == (0, 0, 0, 0)
    assert world.reloading_count() == 0


def test_content_that_cannot_be_read_is_asked_for_again() -> None:
    count = KEPT_DELAYED_BYTES // MIB + 2
    world, client = refused_world(count)
    world.begin_later(60_000)
    world.broker.end_turn()
    assert len(world.store.requests) > 0
    world.store.refuse_pages("torn")
    assert world.stats().delayed > 0
    world.advance(1_000)
    assert len(consume_all(world, client)) == count


def test_content_whose_record_is_left_out_is_dropped_once() -> None:
    count = KEPT_DELAYED_BYTES // MIB + 2
    world, _ = refused_world(count)
    world.begin_later(60_000)
    _, priority, first, *_ = world.store.requests[0]
    for _ in range(2):
        world.store.listener.record_skipped(1, priority, first, MIB, "crc", RELOAD_READER)
    assert world.stats().depth == count - 1
    assert [one.ranges for one in world.store.settled] == [[(4, first, 1)]]
    world.turn()
    assert world.stats().delayed == 0


def test_an_entry_whose_record_is_skipped_is_settled_as_dropped() -> None:
    world, store = recovered_world(LaneState(4, 3, 0, [], {}), 3)
    queue = world.queue("q")
    assert queue.depth == 3
    world.store.listener.record_skipped(1, 4, 1, 5, "segment x at position 4711: crc")
    assert queue.depth == 2
    assert world.skipped_records() == ["queue://q: segment x at position 4711: crc"]
    assert store.settled == [Settled(1, 0, DROPPED, CAUSE_DAMAGED, [(4, 1, 1)])]


def test_a_queue_without_consumers_keeps_little_in_memory() -> None:
    world = EngineWorld()
    for number in range(200):
        world.send(b"%4d" % number * 256)
    lane = world.queue("q").lane(4)
    assert 0 < lane.ready_bytes <= IDLE_LANE_BYTES + 1024
    assert lane.next_load < lane.tail == 200
    client = world.subscriber()
    assert consume_all(world, client) == [b"%4d" % number * 256 for number in range(200)]


class Watched(deque[Delivery]):
    """Counts the looks into its middle, each of which costs the more the longer it is."""

    looks = 0

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return super().__getitem__(index)


def test_the_first_that_came_back_is_taken_without_a_search() -> None:
    world = EngineWorld()
    owner = world.consuming("q", INDIVIDUAL, 1_000)
    for _ in range(1_000):
        world.broker.send(world.queue("q"), world.message(world.queue("q"), b"x", persistent=False))
    world.turn()
    world.lose(owner)
    world.advance(0)
    lane = world.queue("q").lane(4)
    returned = lane.returned = Watched(lane.returned)
    for delivery in list(returned)[:100]:
        lane.take(delivery)
    assert len(returned) == 900
    assert returned.looks <= 200
