"""A connection that has ended leaves nothing to the garbage collector, which hardly ever runs.

Thousands may end at once: a collection of what they left would stop everybody.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.values.errors import ConnectionForced
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted, TransactionalState
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Begin, Detach, End
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.openwire.session.requests import BEGIN
from protocols.openwire.wire.commands import ConsumerInfo
from tests.support.protocols.amqp_gateway import AmqpPeer, text
from tests.support.protocols.openwire_gateway import OpenWireGateway, OpenWirePeer, queue, topic
from tests.support.protocols.socket_peer import SocketPeer
from tests.support.protocols.stomp_gateway import Peer
from tests.support.uncollected import uncollected
from tests.unit.protocols.amqp.v1_0.endpoints.test_transactions import declare

CONSUMERS = 3
ROOMS = ("protocols.", "engine.consumers.", "engine.sources.", "engine.open_transaction")  # messages stay

Life = Callable[[OpenWireGateway], SocketPeer]


@pytest.fixture(autouse=True)
def reference_counts_alone() -> Iterator[None]:
    with uncollected():
        yield


def alive() -> Counter[str]:
    """Return the present objects of adapters, consumers and what they read from, by class."""
    return Counter(type(one).__qualname__ for one in gc.get_objects() if type(one).__module__.startswith(ROOMS))


def stomp(gateway: OpenWireGateway) -> Peer:
    """Return a client that has subscribed, sent and acknowledged, also in transactions, and holds messages."""
    peer = gateway.connect()
    for number in range(CONSUMERS):
        peer.subscribe("/queue/q", id=f"q{number}", selector="a = 1" if number else "")
        peer.subscribe("/topic/t", id=f"t{number}", ack="auto")
    peer.subscribe("/queue/w.>", id="w", receipt="r")
    for name in ("/queue/q", "/topic/t", "/queue/w.a"):
        peer.publish(name, b"x", b"y", persistent="true", a="1")
    taken = [one["ack"] for one in peer.take() if "ack" in one.headers]
    peer.send("ACK", id=taken[0])
    peer.send("BEGIN", transaction="t")
    peer.send("ACK", id=taken[1], transaction="t")
    peer.publish("/queue/q", b"x", transaction="t")
    peer.send("UNSUBSCRIBE", id="q0")
    peer.send_octets(b"SEND\ndestination:/queue/q\n\nhalf")
    return peer


def amqp(gateway: OpenWireGateway) -> AmqpPeer:
    peer = gateway.connect_amqp()
    for channel in range(CONSUMERS):
        peer.begin(channel)
        peer.attach_coordinator(9, channel)
        peer.attach_sender("queue://q", 1, channel)
        peer.attach_sender("topic://t", 2, channel)
        peer.attach_receiver("queue://q", 3, 0, channel)
        peer.attach_receiver("topic://w.>", 4, 0, channel)
    for channel in range(CONSUMERS):
        peer.credit(3, 10, channel=channel)
        peer.credit(4, 10, channel=channel)
    first, second = (declare(peer) for _ in range(2))
    peer.transfer(text("x", durable=True), 1, state=TransactionalState(first))
    for body in ("x", "y", "z"):
        peer.transfer(text(body, durable=True), 1)
        peer.transfer(text(body), 2)
    peer.dispose(0, TransactionalState(second, Accepted()))
    peer.transfer(text("half"), 2, more=True)
    peer.send(Detach(1, True), channel=1)
    peer.send(End(), channel=2)
    return peer


def openwire(gateway: OpenWireGateway) -> OpenWirePeer:
    peer = gateway.connect_openwire()
    peer.add_producer(queue("q"))
    peer.ask(peer.transact(BEGIN))
    for number in range(CONSUMERS):
        peer.consume(queue("q"), number)
        peer.consume(topic("t"), 10 + number)
    peer.consume(topic("ActiveMQ.Advisory.TempQueue"), 20)
    for destination in (queue("q"), topic("t")):
        peer.send(peer.message(destination, "x", persistent=True))
    dispatch, *_ = peer.dispatches()
    peer.acknowledge(dispatch)
    peer.send(peer.message(queue("q"), "z", transaction_id=peer.transaction()))
    return peer


def stomp_owed(peer: Peer) -> None:
    peer.publish("/queue/q", b"x", persistent="true", receipt="1")
    peer.subscribe("/queue/q", id="late", receipt="2")


def amqp_owed(peer: AmqpPeer) -> None:
    """End a session with an outcome that waits for the disk; what comes next waits for the end."""
    peer.transfer(text("x", durable=True), 1)
    peer.send(End())
    peer.send(Begin(None, 0, 1_000, 1_000))
    peer.send(Attach("late", 0, True, source=Source("q"), target=Target()))


def openwire_owed(peer: OpenWirePeer) -> None:
    peer.send(peer.message(queue("q"), "x", persistent=True, command_id=80, response_required=True))
    peer.send(ConsumerInfo(81, True, consumer_id=peer.consumer_id(30), destination=queue("q"), prefetch_size=10))


LIVES: dict[str, Life] = {"stomp": stomp, "amqp": amqp, "openwire": openwire}
OWED: dict[str, Callable[[Any], None]] = {"stomp": stomp_owed, "amqp": amqp_owed, "openwire": openwire_owed}


@pytest.mark.parametrize("is_informed", [False, True], ids=["lost", "informed"])
@pytest.mark.parametrize("is_owed", [False, True], ids=["confirmed", "owed"])
@pytest.mark.parametrize("protocol", LIVES)
def test_an_ended_connection_leaves_nothing(protocol: str, is_owed: bool, is_informed: bool) -> None:
    gateway = OpenWireGateway()

    def live() -> None:
        peer: Any = LIVES[protocol](gateway)
        gateway.syncs = not is_owed
        if is_owed:
            OWED[protocol](peer)
            gateway.settle()
        if is_informed:
            peer._connection.give_up(ConnectionForced("gone"))
            gateway.settle()
        peer.vanish()
        gateway.syncs = True
        gateway.sync()
        gateway.advance(1_000)
        gateway.peers.clear()

    live()  # the first one makes destinations and tables, which stay
    gc.collect()
    before = alive()
    live()
    assert alive() - before == Counter()
