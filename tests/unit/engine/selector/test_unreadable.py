"""A message whose properties cannot be read stops nobody: it goes to who asks for nothing of it."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.selector.properties import Properties, PropertyReader, Value
from engine.values.destination import TOPIC
from engine.values.message import Message
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient

STRANGE = 77  # an encoding
FAULTS = [KeyError("x"), TypeError("x"), RecursionError("x"), OverflowError("x"), AssertionError("x")]


class Faulty(Properties):
    converts_strings = False

    def __init__(self, fault: Exception) -> None:
        self.fault = fault

    def get(self, name: str) -> Value:
        raise self.fault


class FaultyReader(PropertyReader):
    """is_lazy: it fails only once something is asked for."""

    def __init__(self, fault: Exception, is_lazy: bool) -> None:
        self.fault = fault
        self.is_lazy = is_lazy

    def read(self, message: Message, delivery_count: int, is_redelivered: bool) -> Properties:
        if self.is_lazy:
            return Faulty(self.fault)
        raise self.fault


def send_strange(world: EngineWorld, to: object, group_hash: int = 0) -> None:
    target = world.queue(to) if isinstance(to, str) else to
    number = target.destination_id  # type: ignore[attr-defined]
    message = Message(number, STRANGE, 0, 4, 0, group_hash, 0, b"", b"", b"strange")
    world.broker.send(target, message)  # type: ignore[arg-type]
    world.turn()


@pytest.mark.parametrize("is_lazy", [True, False])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: type(one).__name__)
def test_it_goes_to_who_asks_for_nothing(fault: Exception, is_lazy: bool) -> None:
    limits = {"strategy": "constant", "limit": 1, "eviction": "unique-property", "eviction_property": "p"}
    world = EngineWorld(address("t", **{f"pending__{name}": value for name, value in limits.items()}))
    world.read_properties_by(STRANGE, FaultyReader(fault, is_lazy))
    client = world.client()
    for selector in ("n = 'a'", "n LIKE 'a%'", "n IS NOT NULL", "n = 'a' OR m > 1", "XPATH '//a'", "JMSType = 'x'"):
        world.consumer(client, "q", INDIVIDUAL, 10, selector=selector)
        world.consumer(client, world.source(TOPIC, "t"), AUTO, selector=selector)
    send_strange(world, "q")
    send_strange(world, "q", group_hash=9)
    topic = world.topic("t")
    send_strange(world, topic)
    assert client.take() == []
    assert world.stats().depth == 2
    plain = FakeClient("plain")
    world.broker.connect(plain)
    world.consumer(plain, "q", INDIVIDUAL, 10)
    world.subscribe(plain, topic, AUTO)
    send_strange(world, topic)
    assert plain.bodies() == [b"strange"] * 3
    plain.is_output_full = True
    for _ in range(3):
        send_strange(world, topic)
    plain.is_output_full = False
    world.broker.disconnect(plain, is_lost=False)
