"""Scenarios for the law of turns: each has one costly input beside a given number of other objects.

A scenario prepares its world and returns that input; its caller runs the input and counts the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from engine.consumers.consumer import INDIVIDUAL
from engine.sources.composite import Source
from engine.sources.topics.topic import Topic
from engine.values.message import DEFAULT_PRIORITY
from tests.support.engine.engine_world import EngineWorld
from tests.support.fakes import FakeClient
from tests.support.protocols.socket_peer import SocketPeer
from tests.support.protocols.stomp_gateway import StompGateway

Input = Callable[[], object]

SCENARIOS: Final[dict[str, Callable[[int], Input]]] = {}

BODY: Final = b"<r>" + b"<a><b>x</b></a>" * 10 + b"</r>"
BODY_SELECTOR: Final = "XPATH '//*[//*]' AND n LIKE '{}'"
CREDIT: Final = 20  # deliveries of each AMQP link


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


def in_one_turn(gateway: StompGateway, peers: Sequence[SocketPeer], reads: Sequence[bytes]) -> Input:
    """Return an input of several peers: a read of each, all in one turn."""

    def run() -> None:
        with gateway.one_turn():
            for peer, read in zip(peers, reads, strict=True):
                peer.send_octets(read)

    return run


def consumers(
    world: EngineWorld, count: int, to: str | Source, *given: Any, selector: str = "", **asked: Any
) -> FakeClient:
    """Return a client with so many consumers; ``{}`` in a name or selector is the number of each."""
    client = world.client()
    for number in range(count):
        name = to.format(number) if isinstance(to, str) else to
        world.consumer(client, name, *given, selector=selector.format(number), **asked)
    return client


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


def selecting_comes_and_goes(world: EngineWorld) -> Input:
    """Return what lets one more consumer with a selector come to a queue and go, each in a turn of its own."""
    last = world.client("last")

    def come_and_go() -> None:
        consumer = world.subscribe(last, "q", INDIVIDUAL, 1, selector="n = 1")
        world.unsubscribe(consumer)

    return come_and_go
