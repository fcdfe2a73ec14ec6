"""Scenarios for the law of turns: each has one costly input beside a given number of other objects.

A scenario prepares its world and returns that input; its caller runs the input and counts the lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from config.matching import AddressEntry
from engine.consumers.consumer import AUTO, CLIENT, INDIVIDUAL
from engine.sources.registry import TEMPORARY_DESTINATIONS_MAX
from engine.sources.topics.topic import Topic
from engine.transaction import Transaction, TransactionLimits
from engine.values.destination import QUEUE, TEMP_QUEUE, TOPIC
from engine.values.message import AMQP_1_0, DEFAULT_PRIORITY, PERSISTENT, Message
from engine.values.options import FIRST, ReplayStart
from engine.values.refusal import AS_THE_ADDRESS_SAYS, Refusal
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.delivery_states import Accepted, Modified, Rejected, Released, State
from protocols.amqp.v1_0.wire.performatives import Attach, Detach, End, Flow
from protocols.amqp.v1_0.wire.termini import Source, Target
from tests.support.engine.broker_view import covered_by
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, text

Input = Callable[[], object]

SCENARIOS: Final[dict[str, Callable[[int], Input]]] = {}

LARGE: Final = TransactionLimits(16, 1_000_000, 1 << 30)
CREDIT: Final = 20  # deliveries of each AMQP link
QUEUES: Final = 50  # queues that AMQP links share


def scenario(name: str) -> Callable[[Callable[[int], Input]], Callable[[int], Input]]:
    def add(prepare: Callable[[int], Input]) -> Callable[[int], Input]:
        SCENARIOS[name] = prepare
        return prepare

    return add


def in_a_turn(world: EngineWorld, action: Input) -> Input:
    """Return a function that gives the input and ends the turn."""

    def run() -> None:
        action()
        world.turn()

    return run


def published(
    world: EngineWorld,
    topic: Topic,
    count: int,
    priority: int = DEFAULT_PRIORITY,
    body: bytes = b"x",
    persistent: bool = False,
) -> None:
    """Publish without a turn in between; every message is accepted."""
    for number in range(count):
        message = world.message(topic, body, persistent=persistent, priority=priority, headers=f"s:{number % 7}")
        world.broker.send(topic, message)
    world.turn()


# -- consumers that come and go


@scenario("a connection is lost: consumers")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client()
    for number in range(count):
        world.consumer(client, f"q.{number}", INDIVIDUAL)
    world.turn()
    return lambda: world.lose(client)


@scenario("a connection is lost: consumers of one queue")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client()
    for _ in range(count):
        world.consumer(client, "q", INDIVIDUAL, 1)
    world.send(*[b"x"] * (count // 2))
    return lambda: world.lose(client)


@scenario("a connection is lost: temporary queues")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client()
    for _ in range(min(count, TEMPORARY_DESTINATIONS_MAX)):
        world.consumer(client, world.broker.open_temporary(client, TEMP_QUEUE), AUTO)
    world.turn()
    return lambda: world.lose(client)


@scenario("a connection is lost: subscriptions of one topic")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client()
    topic = world.topic("t")
    for _ in range(count):
        world.consumer(client, topic, AUTO)
    world.turn()
    return lambda: world.lose(client)


@scenario("a connection is lost: messages in flight")
def _(count: int) -> Input:
    world = EngineWorld(address("q", blame="all"))
    client = world.client()
    world.consumer(client, "q", CLIENT, 10 * count)
    world.send(*[b"x"] * (10 * count))
    world.acknowledge(client.take()[count // 2])
    return lambda: world.lose(client)


@scenario("a connection is lost: messages of many queues in flight")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client()
    world.consumer(client, world.source(QUEUE, "a.>"), CLIENT, 5 * count)
    for number in range(5 * count):
        world.send(b"x", to=f"a.{number % count}")
    return lambda: world.lose(client)


@scenario("a connection is lost: durable subscriptions")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client("c", "c")
    topic = world.topic("t")
    for number in range(count):
        world.consumer(client, topic, INDIVIDUAL, is_durable=True, subscription=f"d{number}")
    published(world, topic, 1)
    return lambda: world.lose(client)


@scenario("a consumer unsubscribes: messages in flight")
def _(count: int) -> Input:
    world = EngineWorld()
    consumer = world.consumer(world.client(), "q", CLIENT, 10 * count)
    world.send(*[b"x"] * (10 * count))
    return in_a_turn(world, lambda: world.broker.unsubscribe(consumer, is_lost=False))


@scenario("a subscription of a topic ends: messages in flight and waiting")
def _(count: int) -> Input:
    world = EngineWorld()
    topic = world.topic("t")
    consumer = world.consumer(world.client(), topic, CLIENT, 10 * count)
    published(world, topic, 30 * count)
    return in_a_turn(world, lambda: world.broker.unsubscribe(consumer, is_lost=False))


def selecting_comes_and_goes(world: EngineWorld) -> Input:
    """Return what lets one more consumer with a selector come to a queue and go, each in a turn of its own."""
    last = world.client("last")

    def come_and_go() -> None:
        consumer = world.consumer(last, "q", INDIVIDUAL, 1, selector="n = 1")
        world.turn()
        world.broker.unsubscribe(consumer, is_lost=False)
        world.turn()

    return come_and_go


@scenario("consumers with selectors come and go")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client()
    for number in range(count):
        world.consumer(client, "q", INDIVIDUAL, 1, selector=f"n = {number}")
    world.turn()
    return selecting_comes_and_goes(world)


@scenario("many selectors look for their messages on disk: found by value")
def _(count: int) -> Input:
    _, run, _ = _selectors(count // 2, "n = '{}'", 3 * count)
    return run


@scenario("many selectors look for their messages on disk: asked one by one")
def _(count: int) -> Input:
    _, run, _ = _selectors(count // 4, "n LIKE '{}'", 3 * count // 4)
    return run


@scenario("a connection is lost: selectors that found messages ahead")
def _(count: int) -> Input:
    world, run, client = _selectors(count // 2, "n = '{}'", 3 * count)
    run()
    return lambda: world.lose(client)


def _selectors(count: int, selector: str, message_count: int) -> tuple[EngineWorld, Input, FakeClient]:
    """Return a world, a function that starts the selectors of one client, and the client."""
    world = EngineWorld()
    for number in range(message_count):
        world.send(b"x" * 100, headers=f"n:{number * count // message_count}")
    client = world.client()
    for number in range(count):
        world.consumer(client, "q", INDIVIDUAL, 1, selector=selector.format(number))
    return world, lambda: world.advance(0), client


@scenario("a message comes to a topic with many selectors")
def _(count: int) -> Input:
    world, topic = _topic_selectors(5 * count, "n LIKE '{}'")
    return lambda: published(world, topic, 3)


@scenario("messages come to a topic with selectors that look into bodies")
def _(count: int) -> Input:
    world, topic = _topic_selectors(count // 20, BODY_SELECTOR)
    return lambda: published(world, topic, 5, body=BODY)


@scenario("a message comes to a queue with selectors that look into bodies")
def _(count: int) -> Input:
    world, _ = _body_selectors(count // 20)
    return lambda: world.send(BODY)


@scenario("selectors that look into bodies look for their messages on disk")
def _(count: int) -> Input:
    world, subscribe = _body_selectors(0)
    world.send(*[BODY] * 5)
    subscribe(count // 20)
    return lambda: world.advance(0)


@scenario("messages come to durable subscriptions that look into bodies")
def _(count: int) -> Input:
    world, topic, _ = _durables(count // 40)
    return lambda: published(world, topic, 3, body=BODY, persistent=True)


@scenario("durable subscriptions that look into bodies read what came while they were away")
def _(count: int) -> Input:
    world, topic, client = _durables(count // 100)
    world.leave(client)
    for _ in range(10):
        published(world, topic, 1, body=BODY, persistent=True)
    return in_a_turn(world, lambda: _come(world, topic, count // 100))


def _durables(count: int) -> tuple[EngineWorld, Topic, FakeClient]:
    world = EngineWorld()
    topic = world.topic("t")
    client = _come(world, topic, count)
    world.turn()
    return world, topic, client


def _come(world: EngineWorld, topic: Topic, count: int) -> FakeClient:
    """Have a client take durable subscriptions that look into bodies and want all messages."""
    client = world.client("c", "c")
    for number in range(count):
        selector = f"XPATH '//*[//*]' AND m{number} IS NULL"
        world.consumer(client, topic, INDIVIDUAL, 1, is_durable=True, subscription=f"d{number}", selector=selector)
    return client


BODY: Final = b"<r>" + b"<a><b>x</b></a>" * 10 + b"</r>"
BODY_SELECTOR: Final = "XPATH '//*[//*]' AND n LIKE '{}'"


def _topic_selectors(count: int, selector: str) -> tuple[EngineWorld, Topic]:
    world = EngineWorld()
    client = world.client()
    topic = world.topic("t")
    for number in range(count):
        world.consumer(client, topic, AUTO, selector=selector.format(number))
    world.turn()
    world.advance(0)
    return world, topic


def _body_selectors(count: int) -> tuple[EngineWorld, Callable[[int], None]]:
    """Return a world with consumers whose selectors look into bodies, and a function that adds more of them."""
    world = EngineWorld()
    client = world.client()

    def subscribe(count: int) -> None:
        for number in range(count):
            world.consumer(client, "q", INDIVIDUAL, 1, selector=BODY_SELECTOR.format(number))

    subscribe(count)
    world.turn()
    return world, subscribe


@scenario("a browser looks for something in the bodies of many messages")
def _(count: int) -> Input:
    world = EngineWorld()
    for _ in range(count // 10):
        world.send(BODY, headers="n:1")
    world.advance(0)

    def browse() -> None:
        world.consumer(world.client(), "q", AUTO, is_browser=True, selector=BODY_SELECTOR.format("2"))
        world.advance(1_000)

    return browse


@scenario("a consumer comes to a queue with many groups")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client()
    world.consumer(client, "q", INDIVIDUAL, count)
    for number in range(count):
        world.broker.send(
            world.queue("q"),
            world.message(world.queue("q"), b"x", group=f"g{number}"),
        )
    world.advance(0)
    return in_a_turn(world, lambda: world.consumer(world.client("other"), "q", INDIVIDUAL, 1))


@scenario("a consumer comes to a queue that shares its groups out anew")
def _(count: int) -> Input:
    world, _ = _groups(count, address("q", queue__group_rebalance=True))
    return in_a_turn(world, lambda: world.consumer(world.client("other"), "q", INDIVIDUAL, 1))


@scenario("many groups are idle")
def _(count: int) -> Input:
    world, client = _groups(count, address("q", queue__group_idle_timeout_ms=1_000))
    world.acknowledge(*client.take())
    return lambda: world.advance(5_000)


@scenario("consumers beside many groups come and go")
def _(count: int) -> Input:
    world, _ = _groups(count)
    last = world.client("last")

    def come_and_go() -> None:
        for _ in range(20):
            world.broker.unsubscribe(world.consumer(last, "q", INDIVIDUAL, 1), is_lost=False)
        world.turn()

    return come_and_go


def _groups(count: int, *addresses: AddressEntry) -> tuple[EngineWorld, FakeClient]:
    """Return a world with a consumer that owns that many groups, and its client."""
    world = EngineWorld(*addresses)
    client = world.client()
    world.consumer(client, "q", INDIVIDUAL, 2 * count)
    for number in range(count):
        world.send(b"x", group=f"g{number}")
    return world, client


@scenario("messages of an exclusive queue are settled before its heir takes over")
def _(count: int) -> Input:
    world = EngineWorld(address("q", queue__exclusive_consumer=True))
    client = world.client()
    world.consumer(client, "q", INDIVIDUAL, count)
    world.send(*[b"x"] * 50)
    for _ in range(count):
        world.consumer(client, "q", INDIVIDUAL, 1, priority=5)
    world.advance(0)
    deliveries = client.take()
    return lambda: world.acknowledge(*deliveries)


# -- wildcards


@scenario("a wildcard of queues is subscribed to")
def _(count: int) -> Input:
    world = EngineWorld()
    for number in range(count):
        world.queue(f"a.{number}")
    client = world.client()
    source = world.source(QUEUE, "a.>")
    return in_a_turn(world, lambda: world.consumer(client, source, INDIVIDUAL, 1))


@scenario("a wildcard of topics is subscribed to")
def _(count: int) -> Input:
    world, client = _topics(10 * count)
    source = world.source(TOPIC, "a.>")
    return in_a_turn(world, lambda: world.consumer(client, source, AUTO))


@scenario("a durable subscription to a wildcard of topics begins")
def _(count: int) -> Input:
    world, client = _topics(count)
    source = world.source(TOPIC, "a.>")
    return in_a_turn(
        world, lambda: world.consumer(client, source, INDIVIDUAL, 1, is_durable=True, subscription="wildcard")
    )


@scenario("a subscription to a wildcard of topics ends")
def _(count: int) -> Input:
    world, client = _topics(10 * count)
    consumer = world.consumer(client, world.source(TOPIC, "a.>"), AUTO)
    world.turn()
    world.advance(0)
    return in_a_turn(world, lambda: world.broker.unsubscribe(consumer, is_lost=False))


def _topics(count: int) -> tuple[EngineWorld, FakeClient]:
    world = EngineWorld()
    for number in range(count):
        world.topic(f"a.{number}")
    return world, world.client("c", "c")


@scenario("a queue is made that many wildcards match")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client()
    source = world.source(QUEUE, "a.>")
    for _ in range(count):
        world.consumer(client, source, INDIVIDUAL, 1)
    world.turn()
    return lambda: world.send(b"x", to="a.new")


@scenario("a topic is made that many wildcards match")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client()
    source = world.source(TOPIC, "a.>")
    for _ in range(count):
        world.consumer(client, source, INDIVIDUAL, 1)
    world.turn()
    return in_a_turn(world, lambda: world.topic("a.new"))


@scenario("a message meets a wildcard consumer of many queues whose window is one")
def _(count: int) -> Input:
    world = EngineWorld()
    for number in range(count):
        world.queue(f"a.{number}")
    client = world.client()
    world.consumer(client, world.source(QUEUE, "a.>"), INDIVIDUAL, 1)
    world.advance(1_000)
    world.send(b"1", to="a.1")
    world.send(b"2", to="a.2")
    return lambda: world.acknowledge(*client.take())


# -- questions, expiry, upkeep


@scenario("statistics of all queues are asked for")
def _(count: int) -> Input:
    world = EngineWorld()
    for number in range(count):
        world.queue(f"a.{number}")
    world.consumer(world.client(), "answers", AUTO)
    world.turn()
    return lambda: world.send(b"", to="ActiveMQ.Statistics.Destination.>", headers="reply-to:/queue/answers")


@scenario("many messages expire")
def _(count: int) -> Input:
    world = EngineWorld()
    for kind in range(20):
        world.send(*[b"x"] * count, persistent=False, expires_ms=world.clock.wall_ms() + 1_000 + 120_000 * (kind % 2))
    return lambda: world.advance(120_000)


@scenario("the queues of many messages that expire are many")
def _(count: int) -> Input:
    world = EngineWorld()
    for number in range(count):
        world.send(b"x", to=f"q.{number}", expires_ms=world.clock.wall_ms() + 1_000)
    return lambda: world.advance(120_000)


@scenario("a queue is purged")
def _(count: int) -> Input:
    world = EngineWorld()
    world.send(*[b"x"] * count)

    def purge() -> None:
        world.purge(world.queue("q"))
        world.advance(60_000)

    return purge


@scenario("a queue is deleted")
def _(count: int) -> Input:
    world = EngineWorld()
    queue = world.queue("q")
    for _ in range(20):
        world.send(*[b"x"] * count, persistent=False)
    return in_a_turn(world, lambda: world.delete(queue, is_forced=True))


@scenario("a replay of a queue is read")
def _(count: int) -> Input:
    world = EngineWorld()
    world.send(*[b"x"] * count)
    reader = world.client("reader")
    return in_a_turn(world, lambda: world.consumer(reader, "q", AUTO, 1, replay=ReplayStart(FIRST)))


# -- messages


@scenario("a group begins beside many others")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client()
    world.consumer(client, "q", INDIVIDUAL, 2 * count)
    for number in range(count):
        world.send(b"x", group=f"g{number}")

    def begin() -> None:
        for number in range(3):
            world.send(b"x", group=f"new{number}")

    return begin


@scenario("a message of a group is refused before many others of it")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client()
    world.consumer(client, "q", INDIVIDUAL, 10)
    world.send(*[b"x"] * count, group="g")
    delivery = client.take()[0]
    return lambda: world.refuse(delivery, refusal=Refusal(delay_ms=60_000))


@scenario("the pending limit of a slow subscriber lets one go: oldest")
def _(count: int) -> Input:
    return _slow_subscriber(count, "oldest")


@scenario("the pending limit of a slow subscriber lets one go: oldest-lowest-priority")
def _(count: int) -> Input:
    return _slow_subscriber(count, "oldest-lowest-priority")


@scenario("the pending limit of a slow subscriber lets one go: unique-property")
def _(count: int) -> Input:
    return _slow_subscriber(count, "unique-property")


def _slow_subscriber(count: int, eviction: str) -> Input:
    limits = {"pending__strategy": "constant", "pending__limit": 20, "pending__eviction": eviction}
    world = EngineWorld(address("t", **limits, pending__eviction_property="s"))
    client = world.client()
    topic = world.topic("t")
    world.consumer(client, topic, AUTO, count)
    world.turn()
    client.is_output_full = True
    published(world, topic, count, priority=2)
    published(world, topic, 40)

    def publish() -> None:
        for _ in range(5):
            published(world, topic, 1)

    return publish


@scenario("one cumulative acknowledgement")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client()
    world.consumer(client, "q", CLIENT, count)
    world.send(*[b"x"] * count)
    last = client.take()[-1]

    def acknowledge() -> None:
        world.broker.acknowledge_all(covered_by(last))
        world.turn()

    return acknowledge


@scenario("one cumulative NACK: they wait for their redelivery")
def _(count: int) -> Input:
    return _nack(count, AS_THE_ADDRESS_SAYS)


@scenario("one cumulative NACK: they go back")
def _(count: int) -> Input:
    return _nack(count, Refusal("requeue"))


@scenario("one cumulative NACK: they are dead letters")
def _(count: int) -> Input:
    return _nack(count, Refusal("dead-letter"))


def _nack(count: int, refusal: Refusal) -> Input:
    world = EngineWorld()
    client = world.client()
    world.consumer(client, "q", CLIENT, count)
    world.send(*[b"x"] * count)
    last = client.take()[-1]

    def refuse() -> None:
        world.broker.refuse_all(covered_by(last), refusal)
        client.is_output_full = True
        world.advance(0)

    return refuse


@scenario("a transaction of acknowledgements is rolled back for a client that has forgotten them")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client()
    world.consumer(client, "q", INDIVIDUAL, count)
    world.send(*[b"x"] * count)
    deliveries = client.take()

    def roll_back() -> None:
        world.broker.roll_back(deliveries)
        client.is_output_full = True
        world.advance(0)

    return roll_back


@scenario("many messages are due for their redelivery")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client()
    world.consumer(client, "q", CLIENT, 5 * count)
    world.send(*[b"x"] * (5 * count))
    world.broker.refuse_all(client.take(), AS_THE_ADDRESS_SAYS)
    world.advance(0)
    client.is_output_full = True
    return lambda: world.advance(10_000)


@scenario("a cumulative acknowledgement of one message beside many held by a transaction")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client()
    world.consumer(client, "q", CLIENT, count)
    world.send(*[b"x"] * count)
    deliveries = client.take()
    transaction = Transaction(client, "t", LARGE)
    transaction.add_accepted(deliveries[:-5])

    def acknowledge() -> None:
        for one in deliveries[-5:]:
            transaction.add_accepted(covered_by(one))

    return acknowledge


@scenario("a transaction of sends commits")
def _(count: int) -> Input:
    world, transaction = _sends(count)
    return in_a_turn(world, lambda: world.broker.commit(transaction))


@scenario("a transaction of sends is aborted")
def _(count: int) -> Input:
    world, transaction = _sends(count)
    return in_a_turn(world, lambda: world.broker.abort(transaction))


@scenario("a transaction of acknowledgements commits")
def _(count: int) -> Input:
    world, transaction = _acknowledgements(count)
    return in_a_turn(world, lambda: world.broker.commit(transaction))


@scenario("a transaction of acknowledgements is aborted")
def _(count: int) -> Input:
    world, transaction = _acknowledgements(count)
    return in_a_turn(world, lambda: world.broker.abort(transaction))


def _sends(count: int) -> tuple[EngineWorld, Transaction]:
    world = EngineWorld()
    transaction = Transaction(world.client(), "t", LARGE)
    queue = world.queue("q")
    for _ in range(count):
        world.broker.send_in(transaction, queue, world.message(queue, b"x"))
    return world, transaction


def _acknowledgements(count: int) -> tuple[EngineWorld, Transaction]:
    world = EngineWorld()
    client = world.client()
    world.consumer(client, "q", INDIVIDUAL, count)
    world.send(*[b"x"] * count)
    transaction = Transaction(client, "t", LARGE)
    transaction.add_accepted(client.take())
    return world, transaction


# -- AMQP sessions


@scenario("an AMQP session ends: links")
def _(count: int) -> Input:
    _, peer = _links(count, 0)
    return lambda: peer.send(End())


@scenario("an AMQP connection is lost: links")
def _(count: int) -> Input:
    _, peer = _links(count, 0)
    return peer.vanish


@scenario("an AMQP session ends: unsettled deliveries")
def _(count: int) -> Input:
    _, peer = _links(count // CREDIT, count)
    return lambda: peer.send(End())


@scenario("an AMQP connection is lost: unsettled deliveries")
def _(count: int) -> Input:
    _, peer = _links(count // CREDIT, count)
    return peer.vanish


@scenario("AMQP links are detached beside many unsettled deliveries")
def _(count: int) -> Input:
    gateway, peer = _links(count // CREDIT, count)

    def detach() -> None:
        with gateway.one_turn():
            for handle in range(5):
                peer.send(Detach(handle, True))

    return detach


@scenario("one AMQP disposition accepts many")
def _(count: int) -> Input:
    _, peer = _links(count // CREDIT, count)
    return lambda: peer.dispose(0, Accepted(), count - 1)


@scenario("one AMQP disposition releases many")
def _(count: int) -> Input:
    return _disposition(count, Released(), is_settled=True)


@scenario("one AMQP disposition modifies many")
def _(count: int) -> Input:
    return _disposition(count, Modified(delivery_failed=True), is_settled=False)


@scenario("one AMQP disposition rejects many")
def _(count: int) -> Input:
    return _disposition(count, Rejected(), is_settled=False)


def _disposition(count: int, outcome: State, is_settled: bool) -> Input:
    gateway, peer = _links(count // CREDIT, count)

    def dispose() -> None:
        peer.dispose(0, outcome, count - 1, is_settled)
        gateway.advance(0)

    return dispose


@scenario("the window of an AMQP session shuts and opens: links")
def _(count: int) -> Input:
    gateway, peer = _links(count, 0)

    def shut_and_open() -> None:
        with gateway.one_turn():
            for _ in range(50):
                peer.send(Flow(0, 0, 0, 1_000))
                peer.send(Flow(0, 1_000, 0, 1_000))

    return shut_and_open


@scenario("messages come to many links of an AMQP session whose window is shut, then it opens")
def _(count: int) -> Input:
    gateway, peer = _links(count, 0)
    peer.send(Flow(0, 0, 0, 1_000))

    def come_and_go() -> None:
        with gateway.one_turn():
            _send_to_links(gateway, QUEUES)
        peer.send(Flow(0, 1_000, 0, 1_000))
        gateway.settle()

    return come_and_go


def _links(link_count: int, message_count: int) -> tuple[AmqpGateway, AmqpPeer]:
    """Return a gateway and a peer whose session has links with that many unsettled deliveries."""
    gateway = AmqpGateway(amqp=AmqpSettings())
    peer = gateway.connect_amqp()
    peer.begin()
    queue_count = min(QUEUES, link_count)
    with gateway.one_turn():
        for number in range(link_count):
            source = Source(f"q.{number % queue_count}")
            peer.send(Attach(f"r{number}", number, True, source=source, target=Target()))
            peer.send(Flow(0, 1_000_000, 0, 1_000, number, 0, CREDIT))
    _send_to_links(gateway, message_count)
    assert len(peer.connection.channels.mapped[0].unsettled) == message_count
    return gateway, peer


def _send_to_links(gateway: AmqpGateway, count: int) -> None:
    """Send that many messages to the queues of all links in turn."""
    payload = text("x")
    for number in range(count):
        queue = gateway.queue(f"q.{number % QUEUES}")
        message = Message(queue.destination_id, AMQP_1_0, PERSISTENT, 4, 0, 0, 0, b"", b"", payload)
        gateway.broker.send(queue, message)
        if number % 100 == 0:
            gateway.settle()
    gateway.settle()
