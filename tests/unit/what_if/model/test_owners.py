"""Simulated durable subscriptions, groups, lost connections and consumers that are too slow."""

from __future__ import annotations

from config.matching import AddressMatcher
from engine.values.destination import QUEUE, TOPIC
from tests.support.engine.engine_world import address
from tests.support.fakes import START_WALL_MS
from tests.support.what_if.rows import QUEUE_ROW, TOPIC_ROW, delivery, made, message
from tests.support.what_if.scenarios import scenario
from what_if.figures import Figures
from what_if.model.simulation import simulate
from what_if.run import really, run
from what_if.trace.read import find_rollbacks
from what_if.trace.trace import Owner


def test_each_durable_subscription_gets_the_messages_of_its_topic() -> None:
    times = [number * 10 for number in range(100)]
    messages = [message(number + 1, at, **TOPIC_ROW) for number, at in enumerate(times)]
    fast = [delivery(n + 1, at + 3, at, 1, subscription="a:fast", **TOPIC_ROW) for n, at in enumerate(times)]
    late = [delivery(n + 1, at + 7, at, 2, subscription="b:late", **TOPIC_ROW) for n, at in enumerate(times) if n >= 40]
    trace = made(messages, fast + late)
    assert really(trace).figures == run(trace, scenario()).figures
    found = simulate(trace, scenario())
    assert [found[Owner(TOPIC, "t", name)].acknowledged for name in ("a:fast", "b:late")] == [100, 60]
    doubled = simulate(trace, scenario(consumers=2))[Owner(TOPIC, "t", "a:fast")]
    assert doubled.acknowledged == 100


def grouped(consumers: int) -> Figures:
    messages = [message(number + 1, number, group_id="g", **QUEUE_ROW) for number in range(50)]
    deliveries = [delivery(number + 1, number * 10 + 10, number, 1, **QUEUE_ROW) for number in range(50)]
    return simulate(made(messages, deliveries), scenario(consumers=consumers))[Owner(QUEUE, "q")]


def test_more_consumers_do_not_help_one_group() -> None:
    assert grouped(1).mean_depth() == grouped(4).mean_depth()


def test_a_connection_is_lost_again_and_comes_back() -> None:
    messages = [message(number + 1, number * 10, **QUEUE_ROW) for number in range(50)]
    before = [delivery(n + 1, n * 10 + 5, n * 10, 1, **QUEUE_ROW) for n in range(10)]
    lost = delivery(11, 105, 100, 1, outcome="failed", cause="connection-lost", **QUEUE_ROW)
    again = delivery(11, 110, 100, 2, attempt=2, **QUEUE_ROW)
    after = [delivery(n + 1, n * 10 + 5, n * 10, 2, **QUEUE_ROW) for n in range(11, 50)]
    trace = made(messages, [*before, lost, again, *after])
    found = simulate(trace, scenario())[Owner(QUEUE, "q")]
    assert (found.acknowledged, found.redelivered) == (50, 1)
    never = address("q", redelivery__maximum_redeliveries=0)
    found = simulate(trace, scenario(never, consumers=1))[Owner(QUEUE, "q")]
    assert (found.acknowledged, found.dead) == (49, 1)


def test_a_consumer_that_is_expelled_comes_again() -> None:
    messages = [message(number + 1, number, **QUEUE_ROW) for number in range(100)]
    deliveries = [delivery(n + 1, n * 100 + 100, n, 1, **QUEUE_ROW) for n in range(100)]
    slow = address(
        "q", slow_consumers__threshold=100, slow_consumers__policy="KILL", slow_consumers__check_period_ms=1_000
    )
    found = simulate(made(messages, deliveries), scenario(slow))[Owner(QUEUE, "q")]
    assert found.acknowledged > 80


def test_a_rollback_is_one_again_where_the_address_has_a_delay() -> None:
    messages = [message(number + 1, number * 10, **QUEUE_ROW) for number in range(50)]
    failed = delivery(1, 5, 0, 1, outcome="failed", cause="nack", **QUEUE_ROW)
    done = [delivery(n + 1, n * 10 + 9, n * 10, 1, attempt=2 if n == 0 else 1, **QUEUE_ROW) for n in range(50)]
    trace = made(messages, [failed, *done])
    find_rollbacks(trace, AddressMatcher(()))
    assert simulate(trace, scenario())[Owner(QUEUE, "q")].longest_ms == 9
    trace = made(messages, [failed, *done])
    delays = {"redelivery__initial_redelivery_delay_ms": 0, "redelivery__redelivery_delay_ms": 0}
    find_rollbacks(trace, AddressMatcher([address("q", **delays)]))
    assert simulate(trace, scenario(address("q", **delays)))[Owner(QUEUE, "q")].longest_ms == 9
    delayed = address("q", redelivery__initial_redelivery_delay_ms=200)
    assert simulate(trace, scenario(delayed))[Owner(QUEUE, "q")].longest_ms in range(205, 215)


def test_what_waited_at_the_beginning_is_part_of_it() -> None:
    messages = [message(number + 100, 500 + number * 10, **QUEUE_ROW) for number in range(30)]
    waited = [delivery(n + 1, 510 + n * 10, n, 1, lane=4, **QUEUE_ROW) for n in range(20)]
    later = [delivery(n + 100, 710 + n * 10, 500 + n * 10, 1, lane=4, **QUEUE_ROW) for n in range(30)]
    trace = made(messages, waited + later, START_WALL_MS + 500)
    found = simulate(trace, scenario())[Owner(QUEUE, "q")]
    assert (found.came, found.acknowledged, found.deepest) == (50, 50, 22)
    assert really(trace).figures == run(trace, scenario()).figures


def test_deliveries_of_messages_that_are_gone_do_not_count() -> None:
    gone = delivery(5, 20, 0, 1, **QUEUE_ROW)
    trace = made([message(10, 30, **QUEUE_ROW)], [gone, delivery(10, 40, 30, 1, **QUEUE_ROW)])
    (found,) = really(trace).figures.values()
    assert (found["messages"], found["acknowledged"], found["waiting_at_end"]) == (1, 1, 0)


def test_a_message_that_is_given_back_without_counting_fails_as_often_as_it_did() -> None:
    messages = [message(number + 1, number * 10, **QUEUE_ROW) for number in range(50)]
    failed = [
        delivery(1, 5, 0, 1, outcome="failed", cause="nack", **QUEUE_ROW),
        delivery(2, 15, 10, 1, outcome="dead-lettered", cause="exhausted", **QUEUE_ROW),
    ]
    done = [
        delivery(n + 1, n * 10 + 9, n * 10, 1, attempt=2 if n == 0 else 1, **QUEUE_ROW) for n in range(50) if n != 1
    ]
    trace = made(messages, [*failed, *done])
    for requeue in (address("q", nack="requeue"), address("q", redelivery__maximum_redeliveries=-1)):
        found = simulate(trace, scenario(requeue))[Owner(QUEUE, "q")]
        assert found.acknowledged >= 40  # the poisonous one is the next again and again
        assert found.dead == 0
