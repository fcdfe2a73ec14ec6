"""Turns with thousands of frames in one read: what they ask for is small, their number is not."""

from __future__ import annotations

from collections.abc import Callable

from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.composite_codec import encode_composite
from protocols.amqp.v1_0.wire.composites.delivery_states import Released
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Begin, Detach, Disposition, End, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.composites.transaction_types import Declare, Discharge
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.frames import COMMANDS
from protocols.stomp.codec.versions import VERSION_1_2
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, text
from tests.support.protocols.stomp_gateway import Peer
from tests.support.turns.turn_scenarios import Input, in_one_turn, scenario

PEERS = 10  # at once
SELECTOR = "colour = 'red' AND weight BETWEEN 10 AND 20 AND name LIKE 'a%'"


def _frame(command: str, **headers: str) -> bytes:
    return encode(COMMANDS[command.encode()], list(headers.items()), b"", VERSION_1_2)


def _stomp(
    count: int,
    frames: Callable[[int], bytes],
    version: str = "1.2",
    prepare: Callable[[AmqpGateway], object] | None = None,
) -> Input:
    """Return an input of ten clients, each with its part of ``frames`` in one read."""
    gateway = AmqpGateway()
    if prepare is not None:
        prepare(gateway)
    peers = [gateway.connect(version) for _ in range(PEERS)]
    reads = [b"".join(frames(number) for number in range(start, count, PEERS)) for start in range(PEERS)]
    return in_one_turn(gateway, peers, reads)


def _amqp(
    count: int, frames: Callable[[int], bytes], prepare: Callable[[AmqpGateway, AmqpPeer], object] | None = None
) -> Input:
    gateway = AmqpGateway()
    peers = [gateway.connect_amqp() for _ in range(PEERS)]
    for peer in peers:
        peer.begin()
        if prepare is not None:
            prepare(gateway, peer)
    reads = [b"".join(frames(number) for number in range(start, count, PEERS)) for start in range(PEERS)]
    return in_one_turn(gateway, peers, reads)


def _performatives(*frames: Composite, channel: int = 0) -> bytes:
    return b"".join(encode_frame(channel, frame) for frame in frames)


@scenario("pipelined: SUBSCRIBE and UNSUBSCRIBE")
def _(count: int) -> Input:
    subscribe = _frame("SUBSCRIBE", id="1", destination="/queue/q", ack="client")
    return _stomp(count, lambda _: subscribe + _frame("UNSUBSCRIBE", id="1"))


@scenario("pipelined: SUBSCRIBE with a selector, to queues of their own")
def _(count: int) -> Input:
    return _stomp(
        count, lambda number: _frame("SUBSCRIBE", id=f"{number}", destination=f"/queue/q.{number}", selector=SELECTOR)
    )


@scenario("pipelined: BEGIN and ABORT")
def _(count: int) -> Input:
    return _stomp(3 * count, lambda _: _frame("BEGIN", transaction="t") + _frame("ABORT", transaction="t"))


@scenario("pipelined: transactions that acknowledge many messages and are aborted")
def _(count: int) -> Input:
    gateway = AmqpGateway()
    sender = gateway.connect("1.2")
    sender.send_octets(_frame("SEND", destination="/queue/q") * count)
    peer = gateway.connect("1.2")
    prefetch = {"activemq.prefetchSize": f"{count}"}
    peer.send_octets(_frame("SUBSCRIBE", id="1", destination="/queue/q", ack="client", **prefetch))
    last = peer.messages()[-1]["ack"]
    one = _frame("BEGIN", transaction="t") + _frame("ACK", id=last, transaction="t") + _frame("ABORT", transaction="t")
    octets = one * 20

    def run() -> None:
        with gateway.one_turn():
            peer.send_octets(octets)

    return run


def _filled(gateway: AmqpGateway, transactions: int, count: int) -> Peer:
    """Return a client with open transactions, each of so many sends."""
    peer = gateway.connect("1.2")
    for number in range(transactions):
        peer.send_octets(_frame("BEGIN", transaction=f"{number}"))
        peer.send_octets(_frame("SEND", destination="/queue/q", transaction=f"{number}") * count)
    return peer


@scenario("pipelined: transactions of many sends commit")
def _(count: int) -> Input:
    gateway = AmqpGateway()
    peer = _filled(gateway, 10, count)
    octets = b"".join(_frame("COMMIT", transaction=f"{number}") for number in range(10))

    def run() -> None:
        with gateway.one_turn():
            peer.send_octets(octets)

    return run


@scenario("transactions of many sends of many clients commit")
def _(count: int) -> Input:
    gateway = AmqpGateway()
    peers = [_filled(gateway, 1, count) for _ in range(PEERS)]

    def run() -> None:
        with gateway.one_turn():
            for peer in peers:
                peer.send_octets(_frame("COMMIT", transaction="0"))

    return run


@scenario("pipelined: ACK of unknown messages in STOMP 1.0, each with an ERROR")
def _(count: int) -> Input:
    return _stomp(3 * count, lambda number: _frame("ACK", **{"message-id": f"ID:{number}"}), "1.0")


@scenario("pipelined: SEND with receipts")
def _(count: int) -> Input:
    return _stomp(5 * count, lambda number: _frame("SEND", destination="/queue/q", receipt=f"{number}"))


@scenario("pipelined: SEND to queues of their own")
def _(count: int) -> Input:
    return _stomp(count, lambda number: _frame("SEND", destination=f"/queue/q.{number}"))


@scenario("pipelined: SEND to many queues at once")
def _(count: int) -> Input:
    many = ",".join(f"/queue/q.{number}" for number in range(50))
    return _stomp(count // 5, lambda _: _frame("SEND", destination=many))


@scenario("pipelined: SEND to a topic with many durable subscriptions without consumers")
def _(count: int) -> Input:
    def subscribe(gateway: AmqpGateway) -> None:
        peer = gateway.connect("1.2", **{"client-id": "away"})
        for number in range(count // 10):
            name = {"activemq.subscriptionName": f"s{number}"}
            peer.send_octets(_frame("SUBSCRIBE", destination="/topic/t", id=f"{number}", **name))
        peer.vanish()
        gateway.settle()

    frame = _frame("SEND", destination="/topic/t", persistent="true")
    return _stomp(count // 4, lambda _: frame, prepare=subscribe)


@scenario("pipelined: SEND to a topic with many subscriptions")
def _(count: int) -> Input:
    def subscribe(gateway: AmqpGateway) -> None:
        peer = gateway.connect("1.2")
        for number in range(count // 10):
            peer.send_octets(_frame("SUBSCRIBE", destination="/topic/t", id=f"{number}"))

    return _stomp(count // 4, lambda _: _frame("SEND", destination="/topic/t"), prepare=subscribe)


@scenario("pipelined: SEND with many headers")
def _(count: int) -> Input:
    def frames(number: int) -> bytes:
        return _frame("SEND", destination="/queue/q", **{f"h{number}.{other}": "x" for other in range(300)})

    return _stomp(count // 5, frames)


@scenario("pipelined: attach and detach")
def _(count: int) -> Input:
    return _amqp(
        count,
        lambda number: _performatives(
            Attach(f"r{number}", 1, True, source=Source("q"), target=Target()), Detach(1, True)
        ),
    )


@scenario("pipelined: attach to queues of their own")
def _(count: int) -> Input:
    return _amqp(
        count,
        lambda number: _performatives(
            Attach(f"s{number}", number, False, source=Source(), target=Target(f"q.{number}"), initial_delivery_count=0)
        ),
    )


@scenario("pipelined: begin and end")
def _(count: int) -> Input:
    return _amqp(2 * count, lambda _: _performatives(Begin(None, 0, 100, 100), End(), channel=1))


@scenario("pipelined: declare and discharge")
def _(count: int) -> Input:
    def frames(number: int) -> bytes:
        at = 2 * (number // PEERS)
        declare = b"\x00\x53\x77" + encode_composite(Declare())
        discharge = b"\x00\x53\x77" + encode_composite(Discharge(b"%d" % number, True))
        first = encode_frame(0, Transfer(9, at, b"%d" % at, 0), declare)
        return first + encode_frame(0, Transfer(9, at + 1, b"%d" % (at + 1), 0), discharge)

    return _amqp(count, frames, lambda gateway, peer: peer.attach_coordinator())


@scenario("pipelined: transfers")
def _(count: int) -> Input:
    def frames(number: int) -> bytes:
        at = number // PEERS
        return encode_frame(0, Transfer(0, at, b"%d" % at, 0), text("x"))

    return _amqp(3 * count, frames, lambda gateway, peer: peer.attach_sender("q"))


@scenario("pipelined: dispositions of ranges beside many unsettled deliveries")
def _(count: int) -> Input:
    def unsettled(gateway: AmqpGateway, peer: AmqpPeer) -> None:
        peer.attach_receiver("q", handle=1, credit=count // 4)
        sender = gateway.connect()
        for _ in range(count // 4):
            sender.publish("/queue/q", b"x")

    gone = _performatives(Disposition(True, 1 << 20, (1 << 20) + (1 << 15), True, Released()))
    return _amqp(count, lambda _: gone, unsettled)
