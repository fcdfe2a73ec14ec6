"""Queues whose consumers have selectors: who gets what, and that what nobody wants keeps nobody waiting."""

from __future__ import annotations

import pytest

from engine.backlog.lane_entries import AHEAD_BYTES, LANE_MESSAGES, PAGE_MESSAGES
from engine.consumers.consumer import AUTO, CLIENT, INDIVIDUAL
from engine.dispatch.message_selection import selection_of
from engine.dispatch.selector_index import SCAN_STEPS
from engine.dispatch.selector_view import VIEW_MESSAGES
from engine.fate.expiry import EXPIRE_MESSAGES_PERIOD_MS
from engine.open_transaction import Transaction, TransactionLimits
from engine.selector.evaluate import compile_selector
from engine.selector.properties import Properties, PropertyReader, StompProperties
from engine.selector.table import SelectorTable
from engine.values import gates
from engine.values.delivery import READY
from engine.values.errors import InvalidSelector
from engine.values.message import STOMP, Message
from engine.values.stored import Attempts, LaneState
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer
from tests.support.fakes import FakeClient
from tests.support.store.scripted_store import ScriptedStore, recovered_queue, stored_message


def numbers(*values: int) -> list[bytes]:
    return [b"%d" % value for value in values]


def consume_all(world: EngineWorld, client: FakeClient) -> list[bytes]:
    """Take and acknowledge until nothing comes any more."""
    bodies: list[bytes] = []
    while held := client.take():
        bodies += [one.message.body for one in held]
        world.acknowledge(*held)
        world.advance(0)  # what a turn does not come to goes on in the next
    return bodies


def send_colours(world: EngineWorld, *colours: str, first: int = 0, **values: bool | int) -> None:
    for number, colour in enumerate(colours, first):
        world.send(b"%d" % number, headers=f"colour:{colour}", **values)  # type: ignore[arg-type]


def coloured_world(
    colours: list[str], settled: list[tuple[int, int]] | None = None
) -> tuple[EngineWorld, ScriptedStore]:
    """Return a world whose queue ``q`` has an entry on disk for each colour, named by its number."""
    messages = [stored_message(1, offset, b"%d" % offset) for offset in range(len(colours))]
    for message, colour in zip(messages, colours, strict=True):
        message.headers = f"colour:{colour}\n".encode()
    lane = LaneState(4, len(colours), 0, settled or [], {})
    store = ScriptedStore([recovered_queue(1, "q", [lane])], messages)
    return EngineWorld(store=store), store


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("ack_mode", [AUTO, CLIENT, INDIVIDUAL])
def test_a_consumer_gets_what_its_selector_matches(persistent: bool, ack_mode: int) -> None:
    world = EngineWorld()
    red, blue = world.client("red"), world.client("blue")
    world.consumer(red, ack_mode=ack_mode, selector="colour = 'red'")
    world.consumer(blue, ack_mode=ack_mode, selector="colour = 'blue'")
    send_colours(world, "red", "blue", "green", "blue", "red", persistent=persistent)
    assert (red.bodies(), blue.bodies()) == (numbers(0, 4), numbers(1, 3))
    assert world.stats().depth == (1 if ack_mode == AUTO else 5)


def test_what_waited_before_the_consumer_came_is_found() -> None:
    world = EngineWorld()
    send_colours(world, "red", "blue", "red")
    assert world.subscriber(selector="colour = 'red'").bodies() == numbers(0, 2)


def test_a_consumer_without_a_selector_takes_the_rest_in_order() -> None:
    world = EngineWorld()
    send_colours(world, "red", "blue", "red", "blue")
    red, every = world.client("red"), world.client("every")
    world.consumer(red, prefetch=1, selector="colour = 'red'")
    world.subscribe(every)
    assert (red.bodies(), every.bodies()) == (numbers(0), numbers(1, 2, 3))


def test_consumers_of_one_selector_take_turns() -> None:
    world = EngineWorld()
    clients = [world.client("a"), world.client("b")]
    for client in clients:
        world.consumer(client, selector="colour = 'red'")
    send_colours(world, *["red"] * 5)
    assert [client.bodies() for client in clients] == [numbers(0, 2, 4), numbers(1, 3)]


def test_higher_priorities_go_first() -> None:
    world = EngineWorld()
    for priority in (1, 9, 5):
        world.send(b"%d" % priority, priority=priority, headers="colour:red")
    client = world.subscriber(prefetch=1, selector="colour = 'red'")
    assert consume_all(world, client) == numbers(9, 5, 1)


def test_a_window_is_kept_and_topped_up() -> None:
    world, client = world_with_consumer(prefetch=4, selector="colour = 'red'")
    send_colours(world, *["red", "blue"] * 8)
    held = client.take()
    assert [one.message.body for one in held] == numbers(0, 2, 4, 6)
    world.acknowledge(held[0])
    assert client.take() == []
    world.acknowledge(held[1])
    assert client.bodies() == numbers(8, 10)


def test_what_one_lets_go_goes_to_another_whose_selector_matches() -> None:
    world = EngineWorld()
    first, second = world.client("first"), world.client("second")
    world.consumer(first, selector="colour = 'red'")
    world.consumer(second, prefetch=1, selector="colour IN ('red', 'green')")
    send_colours(world, "red", "green", "red", "red")
    assert first.bodies() == numbers(0, 2, 3)
    world.lose(first)
    assert consume_all(world, second) == numbers(1, 0, 2, 3)
    assert world.stats().depth == 0


def test_returned_messages_are_seen_by_consumers_that_come_later() -> None:
    world = EngineWorld()
    first = world.client("first")
    world.consumer(first, selector="colour = 'red'")
    send_colours(world, "blue", "red", "red")
    world.lose(first)
    second = world.client("second")
    world.subscribe(second, selector="colour = 'red' AND JMSRedelivered = TRUE")
    assert second.bodies() == numbers(1, 2)


def test_a_refused_message_waits_and_others_overtake_it() -> None:
    world, client = world_with_consumer(
        address("q", redelivery__initial_redelivery_delay_ms=500), selector="colour = 'red'", prefetch=1
    )
    send_colours(world, "blue", "red", "red")
    (held,) = client.take()
    world.refuse(held)
    (other,) = client.take()
    assert other.message.body == b"2"
    world.acknowledge(other)
    world.advance(500)
    (again,) = client.take()
    assert (again.message.body, again.failed_attempts) == (b"1", 1)


def test_the_count_of_deliveries_may_be_asked_for() -> None:
    world = EngineWorld(address("q", redelivery__initial_redelivery_delay_ms=0))
    fresh, failed = world.client("fresh"), world.client("failed")
    world.consumer(fresh, selector="JMSXDeliveryCount = 1")
    world.consumer(failed, selector="JMSXDeliveryCount > 1")
    world.send(b"1")
    (held,) = fresh.take()
    world.refuse(held)
    world.advance(0)
    assert (fresh.bodies(), failed.bodies()) == ([], [b"1"])


def test_plain_dispatch_comes_back_when_the_last_selector_goes() -> None:
    world = EngineWorld()
    red, every = world.client("red"), world.client("every")
    world.consumer(red, selector="colour = 'red'", prefetch=1)
    send_colours(world, "blue", "red", "blue", "red")
    world.subscribe(every, prefetch=2)
    assert red.bodies() == numbers(1)
    queue = world.queue("q")
    assert queue.is_choosy
    world.leave(red)
    assert queue.selection is None
    assert not queue.is_choosy
    assert consume_all(world, every) == numbers(0, 2, 1, 3)
    assert queue.lane(4).ready_bytes == 0


def test_what_is_not_a_selector_is_refused() -> None:
    world = EngineWorld()
    with pytest.raises(InvalidSelector):
        world.consumer(world.client(), selector="colour == 'red'")
    assert world.queue("q").consumers == {}


def test_a_blank_selector_is_none() -> None:
    world = EngineWorld()
    world.consumer(world.client(), selector=" ")
    assert world.queue("q").selection is None


def test_expired_messages_are_not_handed_over() -> None:
    world, client = world_with_client()
    client.is_output_full = True
    world.consumer(client, selector="colour = 'red'")
    soon = world.clock.wall_ms() + 100
    send_colours(world, "blue", "red", expires_ms=soon)
    send_colours(world, "red", first=2)
    world.advance(100)
    world.drain_output(client)
    assert client.bodies() == [b"2"]
    assert world.stats().expired == 1
    world.advance(30_000)
    assert (world.stats().expired, world.stats().depth) == (2, 1)


def test_expired_messages_found_ahead_are_settled_by_the_scan() -> None:
    world, _ = coloured_world(["blue"] * (LANE_MESSAGES + PAGE_MESSAGES) + ["red"] * 3)
    world.subscriber(selector="colour = 'red'", prefetch=1)
    queue = world.queue("q")
    for delivery in queue.lane(4).ahead.by_offset.values():
        delivery.message.expires_ms = world.clock.wall_ms() + 10
    queue.has_expiring = True
    world.advance(30_000)
    assert (world.stats().expired, queue.lane(4).ahead.ready_bytes) == (2, 0)


@pytest.mark.parametrize("steps", range(1, 16))
def test_a_scan_with_few_steps_goes_on_behind_what_was_found_ahead(steps: int) -> None:
    """What is found ahead takes steps as well; a scan that they leave none once ended the process."""
    blue = LANE_MESSAGES + PAGE_MESSAGES
    world, _ = coloured_world(["blue"] * blue + ["red"] * 40)
    world.subscriber(selector="colour = 'red'", prefetch=1)
    queue = world.queue("q")
    lane = queue.lane(4)
    wanted = [one for one in lane.ahead.by_offset.values() if one.state == READY]
    for delivery in (*wanted, lane.ready[0], lane.ready[-1]):
        delivery.message.expires_ms = world.clock.wall_ms() + 10
    queue.has_expiring = True
    world.clock.now_ms += EXPIRE_MESSAGES_PERIOD_MS
    world.broker.begin_turn()
    world.leave_steps(steps)
    world.look_for_expired()
    world.broker.end_turn()
    assert world.stats().expired <= 2 * steps  # those of its end are as many
    world.advance(0)
    assert (world.stats().expired, lane.ahead.ready_bytes) == (len(wanted) + 2, 0)


def test_a_transaction_holds_what_a_selector_matched() -> None:
    world, client = world_with_client()
    consumer = world.consumer(client, selector="colour = 'red'", prefetch=2)
    send_colours(world, "blue", *["red"] * 4)
    first = client.take()
    transaction = Transaction(client, "t", TransactionLimits())
    transaction.add_accepted(first)
    world.turn()
    assert client.bodies() == numbers(3, 4)
    world.broker.abort(transaction)
    world.turn()
    assert (client.bodies(), consumer.window.in_flight) == ([], 4)
    world.acknowledge(*first)
    assert client.bodies() == []  # 2 of 2 in flight


# -- beyond what memory holds


def test_a_prefix_that_nobody_wants_starves_nobody() -> None:
    world, _ = coloured_world(["blue"] * (3 * PAGE_MESSAGES) + ["red"] * 3)
    client = world.subscriber(selector="colour = 'red'", prefetch=2)
    count = 3 * PAGE_MESSAGES
    assert consume_all(world, client) == numbers(count, count + 1, count + 2)
    assert world.stats().depth == count


def test_what_comes_behind_a_full_lane_is_found_as_it_comes() -> None:
    world, client = world_with_consumer(selector="colour = 'red'")
    send_colours(world, *["blue"] * (LANE_MESSAGES + 5))
    world.store.requests.clear()
    send_colours(world, "red", "red", first=20_000)
    assert client.bodies() == numbers(20_000, 20_001)
    assert isinstance(world.store, ScriptedStore) and world.store.requests == []


def test_the_prefix_is_loaded_in_order_when_somebody_wants_it() -> None:
    colours = ["blue" if number % 3 else "red" for number in range(LANE_MESSAGES + 3 * PAGE_MESSAGES)]
    world, _ = coloured_world(colours)
    red, every = world.client("red"), world.client("every")
    world.subscribe(red, selector="colour = 'red'")
    taken = consume_all(world, red)
    assert taken == [b"%d" % number for number, colour in enumerate(colours) if colour == "red"]
    world.subscribe(every)
    rest = consume_all(world, every)
    assert rest == [b"%d" % number for number, colour in enumerate(colours) if colour == "blue"]
    lane = world.queue("q").lane(4)
    assert (lane.ahead.by_offset, lane.ready_bytes, lane.ahead.ready_bytes, len(lane.settled)) == ({}, 0, 0, 0)


def test_what_was_found_ahead_and_returned_is_handed_over_once() -> None:
    count = LANE_MESSAGES + PAGE_MESSAGES
    world, _ = coloured_world(["blue"] * count + ["red"] * 4)
    red = world.client("red")
    world.subscribe(red, selector="colour = 'red'", prefetch=3)
    held = red.take()
    world.acknowledge(held[1])
    world.lose(red)
    every = world.client("every")
    world.subscribe(every, prefetch=5_000)
    assert consume_all(world, every) == numbers(*range(count), count, count + 2, count + 3)
    assert world.stats().depth == 0


@pytest.mark.parametrize("is_lost", [False, True])
def test_what_was_found_ahead_for_an_owner_that_goes_is_handed_over_once(is_lost: bool) -> None:
    """It was forgotten as nobody's, offered to the others all the same, and then found on the disk again."""
    world = EngineWorld(address("q", full__max_size_messages=1, full__address_full_policy="PAGE"))
    world.send(b"nobody's")
    world.send(b"1", b"2", headers="n:1", group="g")
    world.send(b"3", headers="n:1")
    owner, other, last = world.client("owner"), world.client("other"), world.client("last")
    world.consumer(owner, selector="n = '1'", prefetch=1)
    world.turn()
    world.consumer(other, selector="n = '1' OR n = '2'", prefetch=10)
    world.turn()
    assert (owner.bodies(), [one.body for one in other.handed]) == ([b"1"], [b"3"])
    world.broker.disconnect(owner, is_lost)
    world.advance(0)
    assert sorted(consume_all(world, other)) == numbers(1, 2, 3)
    assert world.stats().depth == 1
    world.consumer(last, ack_mode=AUTO)
    world.advance(0)
    assert (last.bodies(), other.bodies()) == ([b"nobody's"], [])
    assert (world.stats().depth, world.memory_paged()) == (0, 0)


def test_attempts_and_settled_entries_of_a_restart_count_for_pages_read_ahead() -> None:
    count = 3 * PAGE_MESSAGES
    world, _ = coloured_world(["blue"] * count + ["red"] * 4, settled=[(count + 1, 1)])
    lane = world.queue("q").lane(4)
    due_ms = world.clock.wall_ms() + 700
    lane.attempts = {count: Attempts(2, 0, 1, 1, 1, 0), count + 2: Attempts(1, due_ms, 1, 1, 1, 0)}
    client = world.subscriber(selector="colour = 'red'")
    assert [(one.body, one.delivery_count) for one in client.handed] == [(b"%d" % count, 3), (b"%d" % (count + 3), 1)]
    client.handed.clear()
    world.advance(700)
    assert [(one.body, one.delivery_count) for one in client.handed] == [(b"%d" % (count + 2), 2)]
    assert lane.attempts == {}


def test_messages_that_are_not_logged_are_seen_once_the_scan_is_through() -> None:
    world, store = coloured_world(["blue"] * (2 * PAGE_MESSAGES))
    world.send(b"volatile", persistent=False, headers="colour:red")
    world.send(b"logged", headers="colour:red")
    client = world.subscriber(selector="colour = 'red'")
    assert sorted(client.bodies()) == [b"logged", b"volatile"]
    assert store.requests == []


def test_a_page_that_cannot_be_read_ahead_is_asked_for_again() -> None:
    world, store = coloured_world(["blue"] * (2 * PAGE_MESSAGES) + ["red"])
    client = world.client()
    consumer = world.consumer(client, selector="colour = 'red'")
    world.broker.end_turn()
    store.serve_pages()
    world.broker.end_turn()
    store.refuse_pages("torn")
    assert consumer.describe_gate() == "damaged: torn"
    world.advance(1_000)
    assert client.bodies() == numbers(2 * PAGE_MESSAGES)
    assert world.fault() == ""


def test_a_page_that_nobody_waits_for_any_more_is_no_fault() -> None:
    world, store = coloured_world(["blue"] * (2 * PAGE_MESSAGES) + ["red"])
    client = world.consuming(selector="colour = 'red'")
    world.broker.end_turn()
    store.serve_pages()
    world.broker.end_turn()
    store.refuse_pages("torn")
    assert "torn" in world.fault()
    world.leave(client)
    world.advance(1_000)
    assert world.fault() == ""


def test_many_selectors_share_the_pages_that_are_read_ahead() -> None:
    count = 4 * PAGE_MESSAGES
    world, store = coloured_world(["blue"] * count + ["red", "green", "yellow"])
    clients = {colour: world.client(colour) for colour in ("red", "green", "yellow")}
    for colour, client in clients.items():
        world.consumer(client, selector=f"colour = '{colour}'")
    pages = 0
    while True:
        world.broker.end_turn()
        world.broker.begin_turn()
        pages += len(store.requests)
        if not store.serve_pages():
            break
    assert [client.bodies() for client in clients.values()] == [numbers(count), numbers(count + 1), numbers(count + 2)]
    assert pages <= 9  # the backlog once, and a little


def test_no_more_is_read_ahead_than_may_be_kept() -> None:
    world, _ = coloured_world(["blue"] * (LANE_MESSAGES + 2 * PAGE_MESSAGES))
    client = world.client()
    consumer = world.consumer(client, selector="colour = 'red'")
    world.queue("q").lane(4).ahead.ready_bytes = AHEAD_BYTES + 1
    world.turn()
    assert consumer.gate() == gates.LOOK_AHEAD
    assert consumer.describe_gate().startswith(
        "look-ahead: messages found ahead for consumers that do not take them fill their memory (33,554,432 octets"
    )


def test_one_turn_looks_at_a_bounded_number_and_the_next_goes_on() -> None:
    world = EngineWorld()
    send_colours(world, *["blue"] * (SCAN_STEPS + 10), "red")
    client = world.subscriber(selector="colour = 'red'")
    assert client.bodies() == []
    world.advance(0)
    assert client.bodies() == numbers(SCAN_STEPS + 10)


def test_a_selector_whose_consumers_are_full_keeps_a_bounded_number() -> None:
    world, client = world_with_consumer(selector="colour = 'red'", prefetch=1)
    count = 2 * VIEW_MESSAGES
    send_colours(world, *["red"] * count)
    selection = selection_of(world.queue("q"))
    assert selection is not None
    assert len(selection.index.views["colour = 'red'"].waiting) <= VIEW_MESSAGES
    assert consume_all(world, client) == numbers(*range(count))


# -- why


def test_the_gate_says_that_nothing_matched() -> None:
    world, client = world_with_client()
    consumer = world.consumer(client, selector="colour = 'red'")
    assert consumer.gate() == gates.NOTHING_WAITING
    send_colours(world, *["blue"] * 1_204)
    assert consumer.gate() == gates.SELECTOR
    assert consumer.describe_gate() == "selector: 1,204 looked at, none matched"
    send_colours(world, "red")
    world.acknowledge(*client.take())
    assert consumer.describe_gate() == "selector: 1,205 looked at, 1 matched"


def test_the_gate_of_a_search_that_goes_on_says_so() -> None:
    """A drain of an AMQP link was answered before the message that matches was found."""
    world, client = world_with_client()
    send_colours(world, *["blue"] * 3 * SCAN_STEPS, "red", persistent=False)
    consumer = world.consumer(client, selector="colour = 'red'")
    world.broker.end_turn()
    assert consumer.gate() == gates.PAGING
    world.advance(0)
    assert client.bodies() == [b"%d" % (3 * SCAN_STEPS)]


def test_what_was_read_ahead_for_nobody_is_forgotten_without_a_look_at_all_for_each() -> None:
    """It is kept until a part of it is for nobody, and gone at the latest with the last who wanted any of it."""
    selector_count = 40
    world = EngineWorld()
    for number in range(4_000):
        world.send(b"x" * 100, headers=f"n:{number * selector_count // 4_000}")
    clients = []
    for number in range(selector_count):
        client = world.client()
        client.is_output_full = False
        world.consumer(client, "q", INDIVIDUAL, 1, selector=f"n = '{number}'")
        clients.append(client)
    for _ in range(30):
        world.advance(0)
    lane = world.queue("q").lane(4)
    before = sum(1 for one in lane.ahead.by_offset.values() if one.state == READY)
    assert before > selector_count
    for client in clients[: selector_count // 2]:
        world.leave(client)
    left = sum(1 for one in lane.ahead.by_offset.values() if one.state == READY)
    assert left < before
    assert left >= before // 2 - selector_count
    for client in clients[selector_count // 2 :]:
        world.leave(client)
    assert not [one for one in lane.ahead.by_offset.values() if one.state == READY and not one.is_redelivered]


def test_new_consumers_with_selectors_of_their_own_have_each_message_read_a_few_times_and_not_once_for_each() -> None:
    selector_count = 50
    message_count = 3_000
    world = EngineWorld()
    for number in range(message_count):
        world.send(b"x" * 100, headers=f"n:{number * selector_count // message_count}")
    reader = CountingReader()
    world.read_properties_by(STOMP, reader)
    client = world.client()
    for number in range(selector_count):
        world.consumer(client, "q", INDIVIDUAL, 1, selector=f"n = '{number}'")
    world.advance(0)
    assert len(client.take()) == selector_count
    assert reader.read_count < 3 * message_count


def test_the_cost_of_asking_is_that_of_one_value_and_of_the_selectors_without_one() -> None:
    table = SelectorTable()
    table.add(1, compile_selector("colour = 'red'"))
    assert table.cost() == 0
    table.add(2, compile_selector("n > 3 OR NOT n LIKE 'a%'"))
    assert table.cost() == 2
    table.add(3, compile_selector("colour = 'red' AND n > 3"))
    table.add(4, compile_selector("colour = 'blue' AND n > 3 AND n < 5"))
    assert table.cost() == 2 + 3, "no message has both colours"
    table.add(5, compile_selector("XPATH '//a'"))
    assert table.cost() > 10
    for number in (5, 4, 2):
        table.remove(number)
    assert table.cost() == 2
    table.remove(3)
    assert table.cost() == 0


class CountingReader(PropertyReader):
    """Header lines with one blank-free value each; counts how often it is asked for."""

    def __init__(self) -> None:
        self.read_count = 0

    def read(self, message: Message, delivery_count: int, is_redelivered: bool) -> Properties:
        self.read_count += 1
        return StompProperties(message, delivery_count, is_redelivered, "", "")
