"""Turns of AMQP sessions with many links or unsettled deliveries."""

from __future__ import annotations

from functools import partial
from typing import Final

from engine.values.message import AMQP_1_0, PERSISTENT, Message
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted, Modified, Rejected, Released, State
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Detach, End, Flow
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, text
from tests.support.turns.turn_scenarios import (
    CREDIT,
    Input,
    scenario,
)

QUEUES: Final = 50  # queues that AMQP links share


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


def _disposition(count: int, outcome: State, is_settled: bool) -> Input:
    gateway, peer = _links(count // CREDIT, count)

    def dispose() -> None:
        peer.dispose(0, outcome, count - 1, is_settled)
        gateway.advance(0)

    return dispose


for _verb, _outcome in (
    ("releases", Released()),
    ("modifies", Modified(delivery_failed=True)),
    ("rejects", Rejected()),
):
    scenario(f"one AMQP disposition {_verb} many")(
        partial(_disposition, outcome=_outcome, is_settled=_verb == "releases")
    )


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


@scenario("AMQP values of many items go to a STOMP connection")
def _(count: int) -> Input:
    gateway = AmqpGateway()
    gateway.amqp_sender("q").publish(*[list(range(count))] * 100)
    receiver = gateway.connect()

    def receive() -> None:
        receiver.subscribe("/queue/q", "auto")
        assert len(receiver.messages()) == 100

    return receive


_STOMP_MESSAGES: Final[dict[str, tuple[int, bytes, dict[str, str]]]] = {
    "messages": (3, b"x", {}),
    "messages of many headers": (1, b"x", {f"h{number}": "x" for number in range(100)}),
    "JSON of many items": (1, b"[" + b"1," * 500 + b"1]", {"amqp-body": "value"}),
    "maps of many items": (
        1,
        b"<map>" + b"<entry><string>a</string><int>1</int></entry>" * 100 + b"</map>",
        {"transformation": "jms-map-xml"},
    ),
}


def _to_amqp(kind: str) -> None:
    factor, body, headers = _STOMP_MESSAGES[kind]

    @scenario(f"STOMP {kind} go to an AMQP link")
    def _(count: int) -> Input:
        gateway = AmqpGateway()
        publisher = gateway.connect()
        for _ in range(factor * count // 100):
            with gateway.one_turn():
                publisher.publish("/queue/q", *[body] * 100, **headers)
        peer = gateway.amqp_session()
        peer.attach_receiver("q", 0)

        def receive() -> None:
            peer.send(Flow(0, 1_000_000, 0, 1_000_000, 0, 0, factor * count))
            gateway.advance(1_000)
            assert gateway.queue("q").delivered_count == factor * count

        return receive


for _kind in _STOMP_MESSAGES:
    _to_amqp(_kind)


@scenario("STOMP maps of many items go to a STOMP connection in another form")
def _(count: int) -> Input:
    gateway = AmqpGateway()
    publisher = gateway.connect()
    _, body, headers = _STOMP_MESSAGES["maps of many items"]
    for _ in range(count // 100):
        with gateway.one_turn():
            publisher.publish("/queue/q", *[body] * 100, **headers)
    receiver = gateway.connect()

    def receive() -> None:
        receiver.subscribe("/queue/q", "auto", transformation="jms-map-json")
        gateway.advance(1_000)
        assert gateway.queue("q").delivered_count == count

    return receive


@scenario("AMQP messages go to a STOMP connection")
def _(count: int) -> Input:
    gateway = AmqpGateway()
    sender = gateway.amqp_sender("q")
    for _ in range(3 * count):
        sender.transfer(text("x"))
        sender.take()
    receiver = gateway.connect()

    def receive() -> None:
        receiver.subscribe("/queue/q", "auto")
        gateway.advance(1_000)
        assert gateway.queue("q").delivered_count == 3 * count

    return receive


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
