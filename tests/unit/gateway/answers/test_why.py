"""Gates and biographies in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from config.matching import Setting
from config.redelivery_policy import RedeliveryPolicy
from engine.consumers.consumer import CLIENT
from engine.features.why import Whereabouts
from engine.sources.composite import CompositeSource
from engine.store.read.message_history import FAILED, SENT, SETTLED, Biography, Event
from engine.values.destination import TOPIC
from engine.values.wildcard import Wildcard
from gateway.answers.why import consumer_lines, delay_words, message_lines, producer_lines
from tests.support.engine.engine_world import EngineWorld, world_with_client

DAY_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z


def life(*events: Event) -> Biography:
    return Biography(
        "ID:s-4096", "queue://orders", True, False, False, 4, 17, 0, 1_024, [], list(events), DAY_MS + 60_000
    )


SENT_THEN = Event(SENT, DAY_MS, 4_096, "queue://orders")


def test_a_new_idle_consumer_is_told_who_holds_what() -> None:
    world = EngineWorld()
    hoarder, idle = world.client("hoarder"), world.client("idle")
    world.consumer(hoarder, ack_mode=CLIENT, prefetch=1_000)
    world.advance(1_000)
    world.send(*[b"x"] * 45)
    world.advance(5_000)
    consumer = world.subscribe(idle, prefetch=10)
    view = world.why.consumer(consumer.consumer_id)
    assert view is not None
    text = "\n".join(consumer_lines(view, world.clock.wall_ms()))
    assert "queue://q: 45 there, 45 in flight, 0 delayed" in text
    assert "0 of 10 in flight, a full one resumes at 5" in text
    assert "gate         nothing-waiting" in text
    assert "messages that others hold cannot be taken back:" in text
    assert "consumer 1 (hoarder, subscription sub): 45 of 1,000, the oldest for 5 s" in text


def test_of_a_link_it_is_told_what_credit_its_client_has_granted() -> None:
    world, client = world_with_client()
    consumer = world.consumer(client, is_credited=True)
    consumer.grant(3)
    world.send(b"x")
    client.take()
    view = world.why.consumer(consumer.consumer_id)
    assert view is not None
    lines = consumer_lines(view, world.clock.wall_ms())
    assert (
        "  window       1 of 3 in flight, link credit for 2 more, which only the client renews, the oldest for 0 s"
        in lines
    )


def test_a_consumer_whose_queue_only_delays_is_told_where_to_look() -> None:
    world = EngineWorld()
    client = world.client()
    consumer = world.consumer(client, ack_mode=CLIENT)
    world.send(b"fails")
    world.refuse(*client.take())
    view = world.why.consumer(consumer.consumer_id)
    assert view is not None
    expected = "  gate         delayed: 1 message until redelivery; penstock why message ID says until when"
    assert expected in consumer_lines(view, world.clock.wall_ms())


def test_what_a_consumer_asked_for_in_vain_is_told() -> None:
    world = EngineWorld()
    consumer = world.consumer(world.client(), remarks=("SUBSCRIBE has a header x that has no effect here",))
    view = world.why.consumer(consumer.consumer_id)
    assert view is not None
    assert "  remark       SUBSCRIBE has a header x that has no effect here" in consumer_lines(view, 0)


def test_names_of_clients_add_no_lines_and_give_the_terminal_no_orders() -> None:
    world = EngineWorld()
    consumer = world.consumer(world.client("c\n  gate         open\x1b[2J"), remarks=("a header \r\u202e",))
    view = world.why.consumer(consumer.consumer_id)
    assert view is not None
    lines = consumer_lines(view, 0)
    assert lines[0] == "consumer 1 of connection 1: c\\n  gate         open\\x1b[2J, subscription sub"
    assert lines[-1] == "  remark       a header \\r\\u202e"


def test_who_owns_a_group_is_told_to_consumers_and_of_messages() -> None:
    world = EngineWorld()
    client = world.client("owner")
    owner = world.consumer(client, prefetch=1)
    world.send(b"1", b"2", group="a")
    world.subscribe(world.client("idle"))
    view = world.why.consumer(owner.consumer_id)
    assert view is not None
    assert "  groups       owns 'a'" in consumer_lines(view, 0)
    queue = world.queue("q")
    assert world.why.locate(queue, 4, 1).group == f"its group 'a' belongs to consumer {owner.consumer_id}"
    world.broker.unsubscribe(owner, is_lost=False)
    assert world.why.locate(queue, 4, 1).group == ""


def test_a_full_consumer_is_told_its_window() -> None:
    world = EngineWorld()
    client = world.client()
    consumer = world.consumer(client, prefetch=10)
    world.send(*[b"x"] * 20)
    view = world.why.consumer(consumer.consumer_id)
    assert view is not None
    assert "window-full: 10 of 10 in flight, resumes at 5" in "\n".join(consumer_lines(view, world.clock.wall_ms()))


def test_what_is_not_there_has_no_view() -> None:
    world = EngineWorld()
    assert world.why.consumer(1) is None
    assert world.why.producer(1) is None


def test_a_producer_that_waits_is_told_at_which_gate() -> None:
    world = EngineWorld()
    client = world.client("sender")
    world.park(client, 6, world.queue("q"))
    view = world.why.producer(client.client_number)
    assert view is not None
    assert producer_lines(view) == ["connection 1: sender", "  gate         store: queue://q; for 0.0 s"]


def test_a_producer_that_does_not_wait() -> None:
    world = EngineWorld()
    client = world.client("sender")
    view = world.why.producer(client.client_number)
    assert view is not None
    assert producer_lines(view)[1] == "  gate         open: its messages are accepted"


def test_the_life_of_a_redelivered_message_names_formula_and_line() -> None:
    policy = RedeliveryPolicy(
        initial_redelivery_delay_ms=500, use_exponential_back_off=True, back_off_multiplier=2.0, maximum_redeliveries=2
    )
    settings = {
        "redelivery.back_off_multiplier": Setting(2.0, "penstock.yaml:12"),
        "redelivery.maximum_redeliveries": Setting(2, "penstock.yaml:14"),
    }
    worker = {"client_id": "worker", "address": "10.0.0.1:5"}
    events = (
        SENT_THEN,
        Event(FAILED, DAY_MS + 10, 5_000, "queue://orders", "", "nack", 1, DAY_MS + 510, worker),
        Event(FAILED, DAY_MS + 600, 6_000, "queue://orders", "", "nack", 2, DAY_MS + 1_600, worker),
        Event(FAILED, DAY_MS + 1_700, 7_000, "queue://orders", "", "connection-lost", 3, 0, worker),
        Event(
            SETTLED, DAY_MS + 2_000, 8_000, "queue://orders", "dead-lettered", "exhausted", 3, 0, worker, "ID:s-7900"
        ),
    )
    lines = message_lines(life(*events), None, policy, settings, DAY_MS + 9_000)
    assert lines == [
        "message ID:s-4096: persistent, priority 4, 1,024 octets",
        "  2023-11-14T22:13:20.000Z  sent to queue://orders, log offset 4096",
        "  2023-11-14T22:13:20.010Z  attempt 1 failed (nack) by worker at 10.0.0.1:5; waits until "
        "2023-11-14T22:13:20.510Z: initialRedeliveryDelay 500 ms (built-in default)",
        "  2023-11-14T22:13:20.600Z  attempt 2 failed (nack) by worker at 10.0.0.1:5; waits until "
        "2023-11-14T22:13:21.600Z: 500 ms x backOffMultiplier 2 = 1,000 ms (penstock.yaml:12)",
        "  2023-11-14T22:13:21.700Z  attempt 3 failed (connection-lost) by worker at 10.0.0.1:5; returned to its place "
        "at once",
        "  2023-11-14T22:13:22.000Z  dead-lettered by worker at 10.0.0.1:5 (exhausted) after 3 failed attempts: "
        "maximumRedeliveries 2 (penstock.yaml:14); it is ID:s-7900 now",
    ]


@pytest.mark.parametrize(
    ("policy", "redelivery", "expected"),
    [
        (RedeliveryPolicy(redelivery_delay_ms=250), 3, "redeliveryDelay 250 ms (built-in default)"),
        (
            RedeliveryPolicy(
                use_exponential_back_off=True, back_off_multiplier=5.0, maximum_redelivery_delay_ms=20_000
            ),
            3,
            "5,000 ms x backOffMultiplier 5 = 25,000 ms, limited to 20,000 ms (built-in default)",
        ),
        (
            RedeliveryPolicy(use_collision_avoidance=True),
            1,
            "initialRedeliveryDelay 1,000 ms, plus or minus 15 % (built-in default)",
        ),
    ],
)
def test_formulas(policy: RedeliveryPolicy, redelivery: int, expected: str) -> None:
    assert delay_words(policy, redelivery, {}) == expected


def test_without_a_gateway_nobody_knows_who_holds_it() -> None:
    lines = message_lines(life(SENT_THEN), None, None, {}, DAY_MS)
    assert lines[-2:] == [
        "  until 2023-11-14T22:14:20.000Z, where the log ends: not settled",
        "  only the running gateway knows who holds it: deliveries are not logged",
    ]


def test_where_a_message_is_now() -> None:
    world = EngineWorld()
    client = world.client("worker")
    consumer = world.consumer(client, prefetch=2)
    world.send(b"held", b"fails", b"waits")
    queue = world.queue("q")
    assert world.why.locate(queue, 4, 0).state == "in-flight"
    assert world.why.locate(queue, 4, 2).state == "waiting"
    assert world.why.locate(queue, 4, 9).state == "gone"
    assert world.why.locate(queue, 7, 0).state == "gone"
    held, fails = client.take()
    world.refuse(fails)
    delayed = world.why.locate(queue, 4, 1)
    assert (delayed.state, delayed.wait_ms) == ("delayed", 1_000)
    now_ms = world.clock.wall_ms()
    where = world.why.locate(queue, 4, 0)
    (line,) = message_lines(life(SENT_THEN), where, None, {}, now_ms)[2:]
    assert line.startswith("  now: with consumer 1 (worker, subscription sub): 2 of 2, the oldest for 0 s")
    world.acknowledge(held)
    assert consumer.window.in_flight <= 1


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (Whereabouts("delayed", None, 0, 1_500), "waits 1,500 ms more for its redelivery"),
        (Whereabouts("on-disk"), "waits on disk behind others"),
        (Whereabouts("prepared", held="1-aa-"), "acknowledged in the prepared transaction 1-aa-, which is not decided"),
        (Whereabouts("scheduled", wait_ms=1_500), "waits 1,500 ms more for its time"),
        (Whereabouts("scheduled"), "is due and waits for its turn"),
        (Whereabouts("scheduled", held="memory: queue://q"), "is due and held back: memory: queue://q"),
        (Whereabouts("waiting"), "waits in memory for a consumer"),
        (
            Whereabouts("waiting", group="its group 'a' belongs to consumer 1"),
            "waits in memory: its group 'a' belongs to consumer 1",
        ),
    ],
)
def test_places(where: Whereabouts, expected: str) -> None:
    assert message_lines(life(SENT_THEN), where, None, {}, DAY_MS)[-1] == f"  now: {expected}"


def test_a_message_of_a_topic_is_where_each_subscription_has_it() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    holding, done = world.client("holding", "h"), world.client("done", "d")
    for client, name in ((holding, "held"), (done, "settled"), (world.client("away", "a"), "waiting")):
        world.consumer(client, topic, subscription=name, is_durable=True, prefetch=1)
        if name == "waiting":
            world.leave(client)
    world.send(b"1", b"2", to=topic)
    world.acknowledge(*done.take())
    now_ms = world.clock.wall_ms()
    settled = Event(SETTLED, DAY_MS, 8_000, "d:settled", "acknowledged")
    lines = message_lines(
        life(SENT_THEN, settled), None, None, {}, now_ms, world.why.locate_by_subscription(topic, 4, 0)
    )[3:]
    assert [line.split(": ")[0] for line in lines] == ["  now, for h:held", "  now, for a:waiting"]
    assert "with consumer" in lines[0] and lines[1].endswith("waits on disk behind others")
    lines = message_lines(life(SENT_THEN), None, None, {}, now_ms, {})
    assert lines[-1] == "  now: no subscription waits for it"


def test_a_message_of_a_topic_waits_for_wildcards_in_memory_too() -> None:
    world = EngineWorld()
    first, second = world.topic("t.a"), world.topic("t.b")
    client = world.client("watcher")
    consumer = world.consumer(client, Wildcard(TOPIC, "t.*"), prefetch=1)
    several = world.consumer(world.client("list"), CompositeSource([first, Wildcard(TOPIC, "t.b")]), prefetch=1)
    world.send(b"1", to=first)
    world.send(b"2", to=second)
    held = world.why.locate_by_subscription(first, 4, 0)
    assert {name: where.state for name, where in held.items()} == {
        f"consumer {consumer.consumer_id}": "in-flight",
        f"consumer {several.consumer_id}": "in-flight",
    }
    waiting = world.why.locate_by_subscription(second, 4, 0)
    assert [where.state for where in waiting.values()] == ["waiting", "waiting"]
    world.acknowledge(*client.take())
    assert list(world.why.locate_by_subscription(first, 4, 0)) == [f"consumer {several.consumer_id}"]


def test_a_message_of_another_queue_of_a_list_is_not_taken_for_this_one() -> None:
    world = EngineWorld()
    one, other = world.queue("a"), world.queue("b")
    world.consumer(world.client(), CompositeSource([one, other]), prefetch=1)
    world.send(b"1", to=one)
    world.send(b"2", to=other)
    assert [world.why.locate(queue, 4, 0).state for queue in (one, other)] == ["in-flight", "waiting"]


def test_a_delay_by_hornetq_s_formula_shows_its_power_and_its_limit() -> None:
    policy = RedeliveryPolicy(redelivery_delay_ms=1_000, back_off_multiplier=1.1, back_off_from_base=True)
    assert delay_words(policy, 5, {}).startswith("1,000 ms x multiplier 1.1 ^ 4: 1,464 ms")
    limited = replace(policy, maximum_redelivery_delay_ms=1_400)
    assert delay_words(limited, 5, {}).startswith("1,000 ms x multiplier 1.1 ^ 4, limited to 1,400 ms: 1,400 ms")


def test_a_schedule_tells_its_firings_and_a_delivered_message_its_schedule() -> None:
    fired = Event(FAILED, DAY_MS, 8_000, "queue://Penstock.Schedule", "", "fired", 2, DAY_MS + 5_000, {}, "ID:s-7900")
    done = Event(SETTLED, DAY_MS, 9_000, "queue://Penstock.Schedule", "acknowledged", "fired", 0, 0, {}, "ID:s-8900")
    ticket = [("schedule-queue", "a:b\u2028c"), ("other", "x")]
    waiting = replace(life(fired, done), is_scheduled=True, expires_ms=DAY_MS, annotations=ticket)
    lines = message_lines(waiting, None, None, {}, DAY_MS)
    assert lines[1:] == [
        "  scheduled, first for 2023-11-14T22:13:20.000Z",
        "  schedule-queue: a:b\\u2028c",
        "  2023-11-14T22:13:20.000Z  fired for the 2. time as ID:s-7900; due again at 2023-11-14T22:13:25.000Z",
        "  2023-11-14T22:13:20.000Z  fired as ID:s-8900; it is done",
    ]
    delivered = replace(life(), annotations=[("scheduledJobId", "ID:s-4096")])
    assert message_lines(delivered, None, None, {}, DAY_MS)[1] == "  delivered by schedule ID:s-4096"
