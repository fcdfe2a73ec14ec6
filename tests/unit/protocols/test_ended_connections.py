"""A connection that has ended leaves no consumer behind: cycles would wait for a collection that hardly ever comes."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from engine.consumers.consumer import Consumer
from engine.consumers.prefetch_window import Window
from engine.sources.queue import Queue
from tests.support.protocols.amqp_gateway import AmqpGateway

CONSUMERS = 3


@pytest.fixture(autouse=True)
def reference_counts_alone() -> Iterator[None]:
    gc.freeze()  # so that only what a test makes is looked through, not what hundreds of tests have left behind
    gc.disable()
    yield
    gc.enable()


def alive() -> Counter[type]:
    return Counter(type(one) for one in gc.get_objects() if isinstance(one, Consumer | Window | Queue))


@pytest.mark.parametrize("kind", ["queue", "topic"])
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_stomp(version: str, kind: str) -> None:
    gateway = AmqpGateway()
    gateway.connect().publish(f"/{kind}/q", b"x", persistent="true")
    before = alive()
    peer = gateway.connect(version)
    for number in range(CONSUMERS):
        peer.subscribe(f"/{kind}/q", id=str(number))
    assert alive() - before
    peer.session.connection_lost()
    with gateway.one_turn():
        pass
    assert alive() - before == Counter()


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_an_unsubscribed_one(kind: str) -> None:
    gateway = AmqpGateway()
    peer = gateway.connect()
    gateway.connect().publish(f"/{kind}/q", b"x")
    before = alive()
    peer.subscribe(f"/{kind}/q", id="s")
    assert alive() - before
    peer.send("UNSUBSCRIBE", id="s")
    assert alive() - before == Counter()


@pytest.mark.parametrize("address", ["queue://q", "topic://q"])
def test_amqp(address: str) -> None:
    gateway = AmqpGateway()
    gateway.connect().publish("/queue/q", b"x", persistent="true")
    gateway.connect().publish("/topic/q", b"x", persistent="true")
    before = alive()
    peer = gateway.amqp_session()
    for handle in range(CONSUMERS):
        peer.attach_receiver(address, handle)
    peer.credit(0, 10)
    assert alive() - before
    peer.connection.connection_lost()
    with gateway.one_turn():
        pass
    assert alive() - before == Counter()
