"""Whatever happens beside it, a replay shows the log: in order, from its start on, nothing missing, nothing twice."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.values.options import ReplayStart
from tests.support.engine.broker_view import BrokerView
from tests.support.engine.engine_world import EngineWorld


@dataclass(frozen=True)
class Step:
    """what: send, send one by one (a turn each), acknowledge, page (answered by the disk), turn, subscribe."""

    what: str
    count: int
    priority: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(("send", "send", "send one by one", "acknowledge", "page", "turn", "subscribe")),
        st.integers(1, 12),
        st.sampled_from((4, 4, 0, 9)),
    ),
    max_size=40,
)


@settings(max_examples=150)
@given(
    before=st.integers(0, 40),
    start=st.integers(0, 50),
    steps=STEPS,
    page_limit=st.integers(1, 9),
    prefetch=st.integers(1, 20),
    is_topic=st.booleans(),
    is_of_time=st.booleans(),
)
def test_a_replay_shows_the_log(
    before: int, start: int, steps: list[Step], page_limit: int, prefetch: int, is_topic: bool, is_of_time: bool
) -> None:
    world = EngineWorld()
    broker = world.broker
    destination = world.topic("d") if is_topic else world.queue("d")
    world.store.page_limit = page_limit
    for number in range(before):
        world.send(b"%d" % number, to=destination, priority=9 if number % 5 == 0 else 4)
        world.advance(10)
    begins = broker.wall_ms - 10 * start if is_of_time else 0
    expected_from = [
        message
        for message in world.store.messages
        if (message.store_time_ms >= begins if is_of_time else message.queue_offset >= start)
    ]
    client = world.client()
    beginning = ReplayStart(time_ms=begins) if is_of_time else ReplayStart(entry=start, is_lenient=True)
    known = len(world.store.messages)
    world.consumer(client, destination, INDIVIDUAL, prefetch, replay=beginning)
    seen: list[bytes] = []
    held = []

    def take() -> None:
        for delivery in client.take():
            held.append(delivery)
            seen.append(delivery.message.body)
        assert len(held) <= prefetch

    serial = before
    for step in steps:
        if step.what == "send":
            for _ in range(step.count):
                broker.send(destination, world.message(destination, b"%d" % serial, priority=step.priority))
                serial += 1
        elif step.what == "send one by one":
            for _ in range(step.count):
                broker.send(destination, world.message(destination, b"%d" % serial, priority=step.priority))
                serial += 1
                broker.end_turn()
                broker.begin_turn()
        elif step.what == "acknowledge":
            for delivery in held[: step.count]:
                broker.acknowledge(delivery)
            del held[: step.count]
        elif step.what == "page":
            world.store.serve_pages()
        elif step.what == "subscribe" and not is_topic:
            world.consumer(world.client(), destination, AUTO)  # takes what waits, which changes nothing
        else:
            broker.end_turn()
            broker.begin_turn()
        take()
    while True:
        world.turn()
        take()
        if not held:
            break
        world.acknowledge(*held)
        held.clear()
    came = [message for message in world.store.messages[known:] if is_of_time or message.queue_offset >= start]
    assert seen == [message.body for message in [*expected_from, *came]]
    assert not is_topic or world.store.settled == [], "it settles nothing"
    world.leave(client)
    assert BrokerView(broker).replay_count() == 0
    assert not is_topic or BrokerView(broker).memory_used() == 0
