"""Turns beside many unconcerned objects: wildcards of other names, durable subscriptions, clients at a gate."""

from __future__ import annotations

from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.values.destination import TEMP_TOPIC, TOPIC
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Detach
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient
from tests.support.protocols.amqp_gateway import AmqpGateway, text
from tests.support.turns.turn_scenarios import Input, consumers, scenario


@scenario("temporary topics end beside many durable subscriptions")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client("c", "c")
    for number in range(3 * count):
        world.consumer(client, world.topic("t"), INDIVIDUAL, is_durable=True, subscription=f"d{number}")
    other = world.client("other")
    for _ in range(100):
        world.broker.open_temporary(other, TEMP_TOPIC)
    world.turn()
    return lambda: world.lose(other)


@scenario("topics are made, and consumers come, beside many wildcards of other names")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.consuming(world.topic("ActiveMQ.Advisory.Connection"), AUTO)
    for number in range(3 * count):
        world.consumer(client, world.source(TOPIC, f"a{number}.>"), AUTO)
    world.turn()
    other = world.client("other")

    def come() -> None:
        for number in range(3):
            world.consumer(other, world.topic(f"b.{number}"), AUTO)
        world.turn()

    return come


@scenario("it is time to look whether many consumers are slow")
def _(count: int) -> Input:
    world = EngineWorld(address("q", slow_consumers__abort="slow", slow_consumers__abort_check_period_ms=30_000))
    consumers(world, 5 * count, "q", INDIVIDUAL, 1)
    world.send(*[b"x"] * (5 * count + 1))
    return lambda: world.advance(31_000)


@scenario("it is time to delete many queues that nobody uses")
def _(count: int) -> Input:
    world = EngineWorld(address("q.>", queue__auto_delete=True, queue__auto_delete_delay_ms=10_000))
    client = consumers(world, 3 * count, "q.{}", INDIVIDUAL)
    world.lose(client)
    world.advance(1_000)
    return lambda: world.advance(20_000)


@scenario("clients vanish that wait at a gate for a limited time beside many others")
def _(count: int) -> Input:
    world = EngineWorld(
        address("q", full__max_size_messages=1, full__address_full_policy="BLOCK", full__block_timeout_ms=60_000)
    )
    queue = world.queue("q")
    world.send(b"x")
    clients = [FakeClient(f"c{number}") for number in range(3 * count)]
    for client in clients:
        world.broker.connect(client)
        world.park(client, world.broker.send(queue, world.message(queue, b"x")), queue)
    world.turn()

    def vanish() -> None:
        for client in clients[:30]:
            world.broker.disconnect(client, is_lost=True)
        world.turn()

    return vanish


@scenario("AMQP links are detached whose messages wait at a gate beside many others")
def _(count: int) -> Input:
    gateway = AmqpGateway(memory_limit_bytes=10_000)
    peer = gateway.connect_amqp()
    peer.begin()
    with gateway.one_turn():
        for number in range(count // 2):
            peer.send(
                Attach(f"s{number}", number, False, source=Source(), target=Target("q"), initial_delivery_count=0)
            )
    with gateway.one_turn():
        for number in range(count // 2):
            peer.transfer(text("x" * 100), number)
    assert len(peer.connection.producers.blocked.waiting) > count // 4

    def detach() -> None:
        with gateway.one_turn():
            for handle in range(100):
                peer.send(Detach(handle, True))

    return detach


@scenario("messages are acknowledged by their message-id in STOMP 1.2 beside many others")
def _(count: int) -> Input:
    gateway = AmqpGateway()
    peer = gateway.connect("1.2")
    peer.subscribe("/queue/q", **{"activemq.prefetchSize": str(count)})
    with gateway.one_turn():
        for _ in range(count):
            peer.publish("/queue/q", b"x")
    names = [message["message-id"] for message in peer.messages()]

    def acknowledge() -> None:
        with gateway.one_turn():
            for name in names[-80:]:
                peer.send("ACK", id=name)

    return acknowledge
