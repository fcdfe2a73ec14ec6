"""What an address does to messages as they come: lanes without priorities, the ingress flag."""

from __future__ import annotations

from engine.consumers.consumer import AUTO
from engine.values.delivery import Refusal
from engine.values.message import DEFAULT_PRIORITY, INGRESS
from tests.support.engine.engine_world import EngineWorld, address, world_with_consumer


def test_priorities_do_not_order_where_the_address_says_so() -> None:
    world = EngineWorld(address("q", queue__prioritized_messages=False))
    for priority in (0, 9, 4):
        world.send(b"%d" % priority, priority=priority)
    client = world.subscriber()
    handed = [one.message for one in client.take()]
    assert [(one.body, one.priority, one.jms_priority()) for one in handed] == [
        (b"0", DEFAULT_PRIORITY, 0),
        (b"9", DEFAULT_PRIORITY, 9),
        (b"4", DEFAULT_PRIORITY, 4),
    ]


def test_selectors_see_the_priority_that_was_sent() -> None:
    world, client = world_with_consumer(address("q", queue__prioritized_messages=False), selector="JMSPriority > 5")
    world.send(b"low", priority=1)
    world.send(b"high", priority=9)
    assert [one.message.body for one in client.take()] == [b"high"]


def test_a_dead_letter_has_the_priority_that_was_sent_and_its_own_address_s_marks() -> None:
    world = EngineWorld(
        address("q", queue__prioritized_messages=False, enable_ingress_timestamp=True, dead_letter_address="dead"),
        address("other", dead_letter_address="plain", enable_ingress_timestamp=True),
        address("plain", queue__prioritized_messages=False),
    )
    for name, target, priority, lane in (("q", "dead", 9, 9), ("other", "plain", 9, DEFAULT_PRIORITY)):
        client = world.consuming(name)
        world.send(b"1", to=name, priority=priority)
        (delivery,) = client.take()
        assert delivery.message.flags & INGRESS
        world.refuse(delivery, refusal=Refusal("dead-letter"))
        operator = world.subscriber(target, AUTO)
        (dead,) = operator.handed
        assert (dead.message.priority, dead.message.jms_priority()) == (lane, priority)
        assert not dead.message.flags & INGRESS


def test_messages_are_not_marked_by_default() -> None:
    world, client = world_with_consumer()
    world.send(b"1", priority=9)
    (delivery,) = client.take()
    assert (delivery.message.flags & INGRESS, delivery.message.priority) == (0, 9)
