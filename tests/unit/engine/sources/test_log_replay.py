"""Replays: what a queue or topic was sent is read again from the log, in its order, and nobody else notices."""

from __future__ import annotations

from typing import Any

import pytest

from config.matching import BOTH, Pattern
from config.permissions import Permission, PermissionMap
from engine.consumers.consumer import AUTO, INDIVIDUAL, Consumer
from engine.sources.replay_pages import PAGE_MESSAGES
from engine.values.delivery import Refusal
from engine.values.destination import QUEUE, TEMP_QUEUE
from engine.values.errors import AccessDenied, InvalidDestination, InvalidOption, ReplayGone
from engine.values.options import FIRST, LAST, NEXT, ReplayStart, SubscribeOptions
from tests.support.engine.engine_world import EngineWorld, address, world_with_client
from tests.support.fakes import FakeClient

ALL = ReplayStart(FIRST)


def _settled_queue(world: EngineWorld, count: int = 4) -> None:
    """Send, and have all of it consumed: only the log still has it."""
    taker = world.client("taker")
    consumer = world.consumer(taker, "q", AUTO)
    world.send(*(b"%d" % number for number in range(count)))
    assert len(taker.bodies()) == count
    world.unsubscribe(consumer)


def _replay(
    world: EngineWorld, start: ReplayStart, to: Any = "q", ack_mode: int = AUTO, **options: Any
) -> tuple[FakeClient, Consumer]:
    client = world.client("reader")
    consumer = world.subscribe(client, to, ack_mode, replay=start, **options)
    return client, consumer


def test_settled_messages_of_a_queue_come_again_and_then_what_is_sent() -> None:
    world = EngineWorld()
    _settled_queue(world)
    settled = list(world.store.settled)
    client, _ = _replay(world, ALL)
    assert client.bodies() == [b"0", b"1", b"2", b"3"]
    world.send(b"4")
    assert client.bodies() == [b"4"]
    assert world.stats().depth == 1 and world.store.settled == settled, "it took nothing"
    taker = world.subscriber("q", AUTO)
    assert taker.bodies() == [b"4"]
    world.send(b"5")
    assert (taker.bodies(), client.bodies()) == ([b"5"], [b"5"]), "each has it"


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (ReplayStart(entry=2), [b"2", b"3"]),
        (ReplayStart(entry=0), [b"0", b"1", b"2", b"3"]),
        (ReplayStart(entry=4), []),
        (ReplayStart(LAST), [b"3"]),
        (ReplayStart(NEXT), []),
    ],
)
def test_where_a_replay_begins(start: ReplayStart, expected: list[bytes]) -> None:
    world = EngineWorld()
    _settled_queue(world)
    client, _ = _replay(world, start)
    assert client.bodies() == expected
    world.send(b"new")
    assert client.bodies() == [b"new"]


def test_a_replay_that_begins_beyond_the_end_waits_for_its_entry() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    _settled_queue(world)
    queue_client, _ = _replay(world, ReplayStart(entry=6))
    topic_client, _ = _replay(world, ReplayStart(entry=2), topic)
    world.send(b"4", b"5", b"6", b"7")
    world.send(b"a", b"b", b"c", b"d", to=topic)
    assert queue_client.bodies() == [b"6", b"7"]
    assert topic_client.bodies() == [b"c", b"d"]


def test_an_offset_counts_in_a_priority_too_that_had_nothing_in_the_log() -> None:
    world = EngineWorld()
    _settled_queue(world)
    world.send(b"in memory only", priority=2, persistent=False)
    client, _ = _replay(world, ReplayStart(entry=2))
    assert client.bodies() == [b"2", b"3"]
    world.send(b"0", b"1", b"2", priority=2)
    assert client.bodies() == [b"2"]


def test_from_a_time_and_from_an_id() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    world.send(b"old", to=topic)
    world.advance(60_000)
    since_ms = world.broker.wall_ms
    world.send(b"new", to=topic)
    world.send(b"newer", to=topic)
    message_id = world.broker.message_id(world.store.messages[-1])
    assert _replay(world, ReplayStart(time_ms=since_ms), topic)[0].bodies() == [b"new", b"newer"]
    assert _replay(world, ReplayStart(message_id=message_id), topic)[0].bodies() == [b"newer"]
    later, _ = _replay(world, ReplayStart(time_ms=world.broker.wall_ms + 5_000), topic)
    world.send(b"too early", to=topic)
    world.advance(5_000)
    world.send(b"in time", to=topic)
    assert later.bodies() == [b"in time"], "a time to come is waited for"


def test_a_topics_past_and_present_without_a_gap_or_a_double() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    world.send(*(b"%d" % number for number in range(50)), to=topic)
    world.store.page_limit = 7
    client = world.consuming(topic, AUTO, replay=ALL)
    for number in range(50, 90):  # while it reads what came before
        world.broker.send(topic, world.message(topic, b"%d" % number))
        world.broker.end_turn()
        world.broker.begin_turn()
        world.store.serve_pages()
    world.turn()
    world.send(b"90", to=topic)
    assert client.bodies() == [b"%d" % number for number in range(91)]


def test_all_priorities_come_in_the_order_of_the_log() -> None:
    world = EngineWorld()
    world.store.page_limit = 2
    bodies = [b"%d" % number for number in range(30)]
    for number, body in enumerate(bodies):
        world.send(body, priority=(0, 9, 4)[number % 3])
    client, _ = _replay(world, ALL)
    assert client.bodies() == bodies
    world.send(b"x", priority=2)
    world.send(b"y", priority=9)
    assert client.bodies() == [b"x", b"y"]


def test_its_window_and_its_memory_are_bounded() -> None:
    world = EngineWorld()
    count = 3 * PAGE_MESSAGES
    _settled_queue(world, count)
    client, consumer = _replay(world, ALL, ack_mode=INDIVIDUAL, prefetch=10)
    seen = []
    while deliveries := client.take():
        assert len(deliveries) <= 10
        assert consumer.queue.depth <= 10 + PAGE_MESSAGES
        seen += [one.message.body for one in deliveries]
        world.acknowledge(*deliveries)
    assert seen == [b"%d" % number for number in range(count)]
    assert world.memory_used() == 0 and world.store.failed == []


def test_a_slow_replay_of_a_topic_holds_nothing_up() -> None:
    world = EngineWorld(address("t", full__address_full_policy="BLOCK", full__max_size_bytes=20_000))
    topic = world.topic("t")
    client, _ = _replay(world, ALL, topic, INDIVIDUAL, prefetch=1)
    for number in range(2 * PAGE_MESSAGES):
        world.send(b"%04d" % number + b"x" * 100, to=topic)  # each must be accepted
    seen = 0
    while deliveries := client.take():
        assert deliveries[0].message.body.startswith(b"%04d" % seen)
        seen += 1
        world.acknowledge(*deliveries)
    assert seen == 2 * PAGE_MESSAGES


def test_what_only_memory_has_comes_while_the_replay_is_up_to_date() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    world.send(b"not kept", to=topic, persistent=False)
    world.send(b"kept", to=topic)
    client, _ = _replay(world, ALL, topic)
    world.send(b"live", to=topic, persistent=False)
    assert client.bodies() == [b"kept", b"live"]


def test_a_browser_ends_where_the_log_ended() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    _settled_queue(world)
    world.send(b"a", to=topic)
    for to, expected in (("q", [b"0", b"1", b"2", b"3"]), (topic, [b"a"])):
        client, consumer = _replay(world, ALL, to, is_browser=True)
        assert client.bodies() == expected and client.browses_ended == [consumer]
    world.send(b"b", to=topic)
    assert client.bodies() == []
    empty, consumer = _replay(world, ALL, "nothing", is_browser=True)
    assert empty.browses_ended == [consumer]


def test_selector_and_expiry() -> None:
    world = EngineWorld(address("e", expiry_address="gone"))
    queue = world.queue("e")
    for number in range(6):
        world.send(b"%d" % number, to=queue, headers=f"n:{number}")
    world.send(b"mortal", to=queue, headers="n:4", expires_ms=world.broker.wall_ms + 1_000)
    client, _ = _replay(world, ALL, queue, INDIVIDUAL, selector="n >= 4", prefetch=2)
    assert [one.message.body for one in client.take()] == [b"4", b"5"]
    world.advance(40_000)
    assert world.stats("gone").depth == 1, "it has expired once: on the queue"
    client, _ = _replay(world, ALL, queue, selector="n >= 4")
    assert client.bodies() == [b"4", b"5"]


def test_no_local_leaves_out_what_the_client_sends_from_now_on() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    client, _ = _replay(world, ALL, topic, is_no_local=True)
    world.send(b"mine", to=topic, sender=client)
    world.send(b"mine too", to=topic, sender=client, persistent=False)
    world.send(b"theirs", to=topic)
    assert client.bodies() == [b"theirs"]


def test_answers_change_nothing() -> None:
    world = EngineWorld()
    _settled_queue(world, 3)
    settled = list(world.store.settled)
    client, _ = _replay(world, ALL, ack_mode=INDIVIDUAL)
    first, second, third = client.take()
    world.refuse(first, refusal=Refusal("dead-letter"))
    world.refuse(second, refusal=Refusal("requeue"))
    assert [one.message.body for one in client.take()] == [b"1"], "released, it is shown again"
    world.lose(client)
    assert world.store.settled == settled and world.store.failed == []
    assert not world.has_queue("ActiveMQ.DLQ")
    assert world.memory_used() == 0 and world.replay_count() == 0
    assert third.message.body == b"2"


def test_a_message_that_its_reader_cannot_take_is_not_shown_again() -> None:
    world = EngineWorld()
    _settled_queue(world, 2)
    client, consumer = _replay(world, ALL, ack_mode=INDIVIDUAL)
    first, _ = client.take()
    world.refuse(first, refusal=Refusal("requeue", is_excluding=True))
    assert client.take() == [] and consumer.queue.selection is None
    assert world.memory_used() > 0
    world.leave(client)
    assert world.memory_used() == 0


def test_what_the_turn_itself_moves_to_a_queue_is_seen_in_that_turn() -> None:
    world = EngineWorld(address("q", expiry_address="expired"))
    expired = world.queue("expired")
    client, _ = _replay(world, ReplayStart(NEXT), expired)
    world.send(b"mortal", expires_ms=world.broker.wall_ms + 1_000)
    world.clock.now_ms += 2_000
    world.broker.begin_turn()
    world.consumer(world.client(), "q", AUTO)
    world.broker.end_turn()
    assert [request[0] for request in world.store.requests] == [expired.destination_id], "and read without another turn"
    world.turn()
    assert client.bodies() == [b"mortal"]


def test_what_is_gone_is_named() -> None:
    world = EngineWorld()
    _settled_queue(world)
    queue = world.queue("q")
    world.store.drop(queue.destination_id, 4, 3, log_start=10_000_000)
    old_id = f"{world.id_prefix()}4096"
    for start, words in (
        (ReplayStart(entry=1), "the queue offsets 1 to 2 of priority 4 are gone"),
        (ReplayStart(message_id=old_id), f"from {old_id} on are gone as far as log offset 10000000"),
    ):
        client, consumer = _replay(world, start, is_browser=True)
        [(expelled, error, _)] = client.expelled
        assert expelled is consumer and isinstance(error, ReplayGone)
        assert words in str(error) and "from-offset first begins with the oldest that is kept" in str(error)
        assert client.bodies() == [] and client.browses_ended == []
    lenient = ReplayStart(entry=1, is_lenient=True)
    for start in (ALL, lenient, ReplayStart(time_ms=1)):
        assert _replay(world, start)[0].bodies() == [b"3"], "a time, and first, begin with the oldest that is kept"


@pytest.mark.parametrize(
    ("start", "options", "words"),
    [
        (ReplayStart(message_id="ID:other-17"), {}, "it must be the id of a persistent message of this store"),
        (ALL, {"is_durable": True, "subscription": "s"}, "cannot be durable or shared"),
        (ALL, {"is_shared": True, "subscription": "s"}, "cannot be durable or shared"),
    ],
)
def test_what_a_replay_cannot_be(start: ReplayStart, options: dict[str, Any], words: str) -> None:
    world = EngineWorld()
    with pytest.raises(InvalidOption, match=words):
        _replay(world, start, world.topic("t"), **options)
    assert world.replay_count() == 0


def test_an_id_that_is_not_in_the_log_yet_is_refused() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    world.send(b"1", to=topic)
    prefix, end = world.id_prefix(), world.store.append_offset()
    assert _replay(world, ReplayStart(message_id=f"{prefix}{end - 1}"), topic)[0].expelled == []
    with pytest.raises(InvalidOption, match=f"'{prefix}{end}' is not in the log yet, which ends at {end}"):
        _replay(world, ReplayStart(message_id=f"{prefix}{end}"), topic)


def test_several_destinations_and_what_is_in_memory_only_are_refused() -> None:
    world, client = world_with_client()
    for source, words in (
        (world.source(QUEUE, "a.*"), "several destinations"),
        (world.broker.open_temporary(client, TEMP_QUEUE), "in memory only"),
    ):
        with pytest.raises(InvalidOption, match=words):
            world.broker.subscribe(client, source, SubscribeOptions(AUTO, replay=ALL))


def test_a_replay_needs_the_permission_to_read() -> None:
    entry = Permission(Pattern.parse("q"), BOTH, {"browse": frozenset({"look"}), "read": frozenset({"read"})})
    world = EngineWorld(permissions=PermissionMap([entry]))
    queue = world.queue("q")
    client = world.client()
    client.groups = frozenset({"look"})
    for is_browser in (True, False):
        options = SubscribeOptions(AUTO, replay=ALL, is_browser=is_browser)
        with pytest.raises(AccessDenied, match="no permission to read"):
            world.broker.subscribe(client, queue, options)
    client.groups = frozenset({"read"})
    world.broker.subscribe(client, queue, SubscribeOptions(AUTO, replay=ALL))


def test_why_tells_how_far_it_is() -> None:
    world = EngineWorld()
    _settled_queue(world)
    client = world.client()
    consumer = world.consumer(client, "q", INDIVIDUAL, prefetch=1, replay=ReplayStart(entry=1))
    view = world.why.consumer(consumer.consumer_id)
    assert view is not None and view.replay == "searching for its beginning"
    assert consumer.describe_gate() == "paging"
    world.turn()
    view = world.why.consumer(consumer.consumer_id)
    assert view is not None and view.replay == "from queue offset 1; at entry 4 of 4 (priority 4)"
    assert consumer.describe_gate().startswith("window-full")
    assert [one.consumers for one in world.broker.inspect().destinations if one.name == "q"] == [0]


def test_a_disk_that_refuses_is_asked_again() -> None:
    world = EngineWorld()
    _settled_queue(world)
    client = world.client()
    consumer = world.consumer(client, "q", AUTO, replay=ALL)
    world.broker.end_turn()
    world.store.refuse_pages("the disk says no")
    view = world.why.consumer(consumer.consumer_id)
    assert view is not None and view.replay == "waits for the disk: the disk says no"
    world.advance(1_000)
    assert client.bodies() == [b"0", b"1", b"2", b"3"]
    world.send(b"4")
    world.broker.end_turn()
    client.bodies()
    world.broker.send(world.queue("q"), world.message(world.queue("q"), b"5"))
    world.broker.end_turn()
    world.store.refuse_pages("the disk says no")
    assert consumer.describe_gate() == "damaged: the disk says no"
    world.advance(1_000)
    assert client.bodies() == [b"5"]


def test_a_destination_that_is_deleted_ends_its_replays() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    _settled_queue(world)
    for destination in (topic, world.queue("q")):
        client, consumer = _replay(world, ALL, destination)
        world.delete(destination, is_forced=True)
        [(expelled, error, _)] = client.expelled
        assert expelled is consumer and isinstance(error, InvalidDestination)
        world.lose(client)
    assert world.replay_count() == 0


@pytest.mark.parametrize("event", ["dispatched", "consumed"])
def test_a_topic_whose_messages_are_told_of_goes_on(event: str) -> None:
    world = EngineWorld(address("t", **{f"advisories__{event}": True}))
    topic = world.topic("t")
    world.send(b"0", to=topic)
    client, _ = _replay(world, ALL, topic)
    world.send(b"1", b"2", to=topic)
    assert client.bodies() == [b"0", b"1", b"2"]


@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_selector_that_finds_no_steps_left_goes_on_in_order_in_later_turns(every: int) -> None:
    """every: how many of so many messages are persistent; the others are only in memory."""
    world = EngineWorld()
    topic = world.topic("t")
    body = b"<r>" + b"<a/>" * 40 + b"</r>"
    for number in range(20):
        world.broker.send(topic, world.message(topic, body, headers=f"n:{number}"))
    client, consumer = _replay(world, ALL, topic, selector="XPATH '//*[//*]' AND n <> 4")
    assert 0 < len(client.handed) < 20
    world.advance(0)
    for number in range(20, 50):
        world.broker.send(topic, world.message(topic, body, headers=f"n:{number}", persistent=number % every == 0))
    world.broker.end_turn()
    assert len(client.handed) < 40
    world.advance(0)
    expected = [b"n:%d\n" % number for number in range(50) if number != 4]
    assert [one.message.headers for one in client.handed] == expected
    world.broker.send(topic, world.message(topic, body))
    world.unsubscribe(consumer)
    assert world.memory_used() == 0
