"""Worked values of docs/reference/semantics.md, seen at the engine's interface and not only in the formula."""

from __future__ import annotations

import pytest

from config.loader import merged
from config.matching import AddressMatcher
from config.sources.detect import read
from engine.consumers.consumer import INDIVIDUAL
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.engine.restart_world import RestartWorld
from tests.support.protocols.stomp_gateway import StompGateway

# Redelivery: initial, redeliveryDelay, back-off, multiplier, maximum delay -> ms before the 1st to the 7th redelivery.
REDELIVERY = [
    (1000, 1000, False, 5.0, -1, [1000, 1000, 1000, 1000, 1000, 1000, 1000]),
    (1000, 1000, True, 5.0, -1, [1000, 5000, 25000, 125000, 625000, 3125000, 15625000]),
    (500, 1000, True, 2.0, 5000, [500, 1000, 2000, 4000, 5000, 5000, 5000]),
    (0, 1000, True, 2.0, -1, [0, 1000, 2000, 4000, 8000, 16000, 32000]),
    (100, 2000, True, 1.0, -1, [100, 2000, 2000, 2000, 2000, 2000, 2000]),
    (200, 1000, True, 3.0, 500, [200, 1000, 1000, 1000, 1000, 1000, 1000]),
    (60000, 1000, False, 5.0, 5000, [60000, 1000, 1000, 1000, 1000, 1000, 1000]),
    (1500, 1000, True, 1.5, 10000, [1500, 2250, 3375, 5062, 7593, 10000, 10000]),
]
# 3.1: HornetQ's own formula, by its own file.
HORNETQ = """<configuration xmlns="urn:hornetq"><address-settings><address-setting match="jms.queue.q">
  <redelivery-delay>5000</redelivery-delay><redelivery-delay-multiplier>2</redelivery-delay-multiplier>{cap}
  <max-delivery-attempts>{attempts}</max-delivery-attempts>
</address-setting></address-settings></configuration>"""


def delays(world: EngineWorld, count: int) -> list[int]:
    """Refuse a message ``count`` times; return after how many milliseconds it came again each time."""
    client = world.consuming()
    world.send(b"poison")
    found: list[int] = []
    for _ in range(count):
        refused_ms = world.clock.now_ms
        world.refuse(*client.take())
        while not client.handed:
            next_ms = world.timers.next_ms()
            assert next_ms is not None, "it never comes again"
            world.advance(max(0, next_ms - world.clock.now_ms))
        found.append(world.clock.now_ms - refused_ms)
    return found


@pytest.mark.parametrize(("initial", "delay", "back_off", "multiplier", "maximum", "expected"), REDELIVERY)
def test_2_5_delays(
    initial: int, delay: int, back_off: bool, multiplier: float, maximum: int, expected: list[int]
) -> None:
    world = EngineWorld(
        address(
            "q",
            redelivery__initial_redelivery_delay_ms=initial,
            redelivery__redelivery_delay_ms=delay,
            redelivery__use_exponential_back_off=back_off,
            redelivery__back_off_multiplier=multiplier,
            redelivery__maximum_redelivery_delay_ms=maximum,
            redelivery__maximum_redeliveries=7,
        )
    )
    assert delays(world, 7) == expected


@pytest.mark.parametrize(
    ("cap", "expected"),
    [
        ("<max-redelivery-delay>15000</max-redelivery-delay>", [5000, 10000, 15000, 15000]),
        ("", [5000, 10000, 20000, 40000, 50000, 50000]),
    ],
    ids=["max 15000", "10 times the delay"],
)
def test_3_1_delays(cap: str, expected: list[int]) -> None:
    text = HORNETQ.format(cap=cap, attempts=10)
    matcher = AddressMatcher(merged([read("hornetq-configuration.xml", text.encode())]).addresses)
    settings = matcher.settings_for(1, "q").redelivery
    world = EngineWorld(
        address("q", **{f"redelivery__{name}": getattr(settings, name) for name in settings.__dataclass_fields__})
    )
    assert delays(world, len(expected)) == expected


@pytest.mark.parametrize("attempts", [1, 3, 10])
def test_3_1_max_delivery_attempts_are_deliveries(attempts: int) -> None:
    text = HORNETQ.format(cap="", attempts=attempts)
    matcher = AddressMatcher(merged([read("hornetq-configuration.xml", text.encode())]).addresses)
    maximum = matcher.settings_for(1, "q").redelivery.maximum_redeliveries
    world = EngineWorld(
        address("q", redelivery__maximum_redeliveries=maximum, redelivery__initial_redelivery_delay_ms=0)
    )
    client = world.consuming()
    world.send(b"poison")
    delivered = 0
    while client.handed:
        delivered += 1
        world.refuse(*client.take())
        world.advance(1_000)
    assert delivered == attempts
    assert world.stats("ActiveMQ.DLQ").depth == 1


@pytest.mark.parametrize(
    ("destination", "headers", "prefetch"),
    [
        ("/queue/q", {}, 1_000),
        ("/queue/q", {"activemq.prefetchSize": "1000"}, 1_000),
        ("/queue/q", {"browser": "true"}, 500),
        ("/topic/t", {}, 32_766),
        ("/topic/t", {"activemq.prefetchSize": "32767"}, 32_766),
        ("/topic/t", {"activemq.subscriptionName": "s"}, 100),
    ],
)
@pytest.mark.parametrize("is_set", [False, True], ids=["built in", "address says 5"])
def test_2_1_prefetch_over_stomp(destination: str, headers: dict[str, str], prefetch: int, is_set: bool) -> None:
    kinds = ("queue_prefetch", "queue_browser_prefetch", "topic_prefetch", "durable_topic_prefetch")
    gateway = StompGateway(*([address(">", **{f"prefetch__{kind}": 5 for kind in kinds})] if is_set else []))
    peer = gateway.connect(client_id="me")
    peer.subscribe(destination, **headers)
    (consumer,) = peer.session.consumers.values()
    # An explicit 1000 is explicit here; ActiveMQ cannot tell it from unset.
    assert consumer.window.prefetch == (5 if is_set and "activemq.prefetchSize" not in headers else prefetch)


@pytest.mark.parametrize("limit", ["full__max_size_bytes", "full__max_size_messages"])
def test_3_3_page_with_nothing_in_memory_delivers_all(limit: str) -> None:
    world = RestartWorld(address("q", full__address_full_policy="PAGE", **{limit: 0}))
    client = world.client()
    world.send(*[b"%d" % number for number in range(5)])
    world.subscribe(client, "q", INDIVIDUAL, 2)
    seen: list[bytes] = []
    for _ in range(6):
        held = client.take()
        seen += [delivery.message.body for delivery in held]
        world.acknowledge(*held)
    world.send(b"live")
    world.send(b"not logged", persistent=False)
    seen += [delivery.message.body for delivery in client.take()]
    assert seen == [b"0", b"1", b"2", b"3", b"4", b"live", b"not logged"]
