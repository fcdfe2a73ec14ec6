"""Turns of OpenWire connections: single commands that concern much, and thousands of commands in one read."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import Final

from protocols import map_message as words
from protocols.map_message import Map, Typed
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.openwire.session.acknowledgements import DELIVERED, POISON, STANDARD
from protocols.openwire.session.branch_commands import ROLLBACK
from protocols.openwire.session.requests import BEGIN
from protocols.openwire.wire import identities
from protocols.openwire.wire.commands import (
    BrokerInfo,
    ConsumerControl,
    ConsumerInfo,
    DestinationInfo,
    KeepAliveInfo,
    MessageAck,
    MessagePull,
    ProducerInfo,
    RemoveInfo,
    SessionInfo,
    Structure,
    TransactionInfo,
)
from protocols.openwire.wire.identities import (
    ConnectionId,
    Destination,
    MessageId,
    SessionId,
    TransactionId,
    XaTransactionId,
)
from protocols.openwire.wire.messages import MapMessage
from protocols.openwire.wire.property_map import write_map
from protocols.openwire.wire.writer import encode
from tests.support.protocols.openwire_gateway import OpenWireGateway, OpenWirePeer, queue, strings, topic
from tests.support.turns.turn_scenarios import Input, in_one_turn, scenario

PEERS: Final = 10  # at once
SELECTOR: Final = "colour = 'red' AND weight BETWEEN 10 AND 20 AND name LIKE 'a%'"
WINDOW: Final = 100  # messages of each consumer


def _pipelined(
    count: int,
    commands: Callable[[OpenWirePeer, int], list[Structure]],
    prepare: Callable[[OpenWireGateway, OpenWirePeer], object] | None = None,
) -> Input:
    """Return an input of ten clients, each with its part of the commands in one read."""
    gateway = OpenWireGateway()
    peers = [gateway.connect_openwire() for _ in range(PEERS)]
    for peer in peers:
        if prepare is not None:
            prepare(gateway, peer)
    reads = [
        b"".join(encode(one) for number in range(start, count, PEERS) for one in commands(peer, number))
        for start, peer in enumerate(peers)
    ]
    return in_one_turn(gateway, peers, reads)


def _consumer(peer: OpenWirePeer, number: int, to: Destination, prefetch: int = 1, **fields: object) -> ConsumerInfo:
    info = ConsumerInfo(consumer_id=peer.consumer_id(number), destination=to, prefetch_size=prefetch)
    for name, value in fields.items():
        setattr(info, name, value)
    return info


def _removed(peer: OpenWirePeer, number: int) -> RemoveInfo:
    return RemoveInfo(object_id=peer.consumer_id(number), last_delivered_sequence_id=-1)


def _ack(peer: OpenWirePeer, sequence: int, kind: int = STANDARD, first: int = 0) -> MessageAck:
    def message_id(number: int) -> MessageId:
        return MessageId(None, peer.producer_id(), 1, number)

    return MessageAck(
        consumer_id=peer.consumer_id(),
        ack_type=kind,
        first_message_id=message_id(first) if first else None,
        last_message_id=message_id(sequence),
        message_count=1,
    )


def _temporary(peer: OpenWirePeer, number: int, operation: int = 0) -> DestinationInfo:
    name = f"{peer.connection_id}:{number}"
    return DestinationInfo(
        connection_id=ConnectionId(peer.connection_id),
        destination=Destination(identities.TEMP_QUEUE, name),
        operation_type=operation,
    )


ADVISORIES: Final = topic("ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic")


def _send(peer: OpenWirePeer, *commands: Structure) -> None:
    peer.send_octets(b"".join(encode(one) for one in commands))


def _sending(peer: OpenWirePeer, *commands: Structure) -> Input:
    octets = b"".join(encode(one) for one in commands)
    return lambda: peer.send_octets(octets)


def _in_flight(count: int) -> tuple[OpenWireGateway, OpenWirePeer, list[int]]:
    """Return a peer that has so many messages, and their sequences."""
    gateway = OpenWireGateway()
    sender = gateway.connect_openwire()
    _send(sender, *(sender.message(queue("q"), "x", persistent=True) for _ in range(count)))
    peer = gateway.openwire_consumer(queue("q"), prefetch=count)
    found = [one.message.message_id.broker_sequence for one in peer.dispatches()]  # type: ignore[attr-defined]
    assert len(found) == count
    return gateway, peer, found


@scenario("OpenWire pipelined: consumers with a selector come and go")
def _(count: int) -> Input:
    return _pipelined(count, lambda peer, _: [_consumer(peer, 1, queue("q"), selector=SELECTOR), _removed(peer, 1)])


@scenario("OpenWire pipelined: consumers of queues of their own")
def _(count: int) -> Input:
    return _pipelined(count, lambda peer, number: [_consumer(peer, number, queue(f"q.{number}"))])


@scenario("OpenWire pipelined: consumers of many queues at once")
def _(count: int) -> Input:
    many = queue(",".join(f"q.{number}" for number in range(100)))
    return _pipelined(count // 5, lambda peer, _: [_consumer(peer, 1, many), _removed(peer, 1)])


@scenario("OpenWire pipelined: producers of many new queues at once")
def _(count: int) -> Input:
    def commands(peer: OpenWirePeer, number: int) -> list[Structure]:
        many = queue(",".join(f"q.{number}.{part}" for part in range(100)))
        return [ProducerInfo(producer_id=peer.producer_id(number), destination=many)]

    return _pipelined(count // 10, commands)


@scenario("OpenWire pipelined: messages")
def _(count: int) -> Input:
    return _pipelined(
        5 * count, lambda peer, _: [peer.message(queue("q"), "x", persistent=True, response_required=True)]
    )


@scenario("OpenWire pipelined: messages to many queues at once")
def _(count: int) -> Input:
    many = queue(",".join(f"q.{number}" for number in range(100)))
    return _pipelined(count // 5, lambda peer, _: [peer.message(many, "x")])


@scenario("OpenWire pipelined: messages to queues of their own")
def _(count: int) -> Input:
    return _pipelined(count, lambda peer, number: [peer.message(queue(f"q.{number}"), "x")])


@scenario("OpenWire pipelined: messages with a delay and many properties")
def _(count: int) -> Input:
    values = strings(**{f"p{number}": "x" for number in range(300)}, AMQ_SCHEDULED_DELAY="1000")
    return _pipelined(
        count // 5, lambda peer, _: [peer.message(queue("q"), "x", marshalled_properties=write_map(values))]
    )


@scenario("OpenWire pipelined: messages in version 9")
def _(count: int) -> Input:
    gateway = OpenWireGateway()
    peers = [gateway.connect_openwire(version=9) for _ in range(PEERS)]
    reads = [b"".join(encode(peer.message(queue("q"), "x"), 9) for _ in range(count // PEERS)) for peer in peers]
    return in_one_turn(gateway, peers, reads)


@scenario("OpenWire pipelined: keep-alives that ask for an answer")
def _(count: int) -> Input:
    return _pipelined(5 * count, lambda _, __: [KeepAliveInfo(0, True)])


@scenario("OpenWire pipelined: refused commands")
def _(count: int) -> Input:
    return _pipelined(3 * count, lambda _, __: [BrokerInfo(0, True)])


@scenario("OpenWire pipelined: pulls of many consumers")
def _(count: int) -> Input:
    def prepare(_: OpenWireGateway, peer: OpenWirePeer) -> None:
        _send(peer, *(_consumer(peer, number, queue("q"), 0) for number in range(20)))

    return _pipelined(
        5 * count, lambda peer, number: [MessagePull(consumer_id=peer.consumer_id(number // PEERS % 20))], prepare
    )


@scenario("OpenWire: a message beside pulls of many consumers that wait")
def _(count: int) -> Input:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    _send(peer, *(_consumer(peer, number, queue(f"q.{number % 7}"), 0) for number in range(count)))
    _send(peer, *(MessagePull(consumer_id=peer.consumer_id(number), timeout=60_000) for number in range(count)))
    _send(
        peer,
        *(MessagePull(consumer_id=peer.consumer_id(number), timeout=0) for number in range(count) for _ in range(5)),
    )
    return _sending(peer, peer.message(queue("other"), "x"))


@scenario("OpenWire: pulls of many consumers give up at once")
def _(count: int) -> Input:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    _send(peer, *(_consumer(peer, number, queue(f"q.{number % 7}"), 0) for number in range(count)))
    _send(peer, *(MessagePull(consumer_id=peer.consumer_id(number), timeout=60_000) for number in range(count)))
    return lambda: gateway.advance(60_000)


@scenario("OpenWire pipelined: consumer controls")
def _(count: int) -> Input:
    def commands(peer: OpenWirePeer, _: int) -> list[Structure]:
        return [
            _consumer(peer, 1, queue("q"), 0, selector=SELECTOR),
            ConsumerControl(consumer_id=peer.consumer_id(1), prefetch=10),
            _removed(peer, 1),
        ]

    return _pipelined(count, commands)


@scenario("OpenWire pipelined: sessions end beside many consumers and producers")
def _(count: int) -> Input:
    def prepare(_: OpenWireGateway, peer: OpenWirePeer) -> None:
        _send(peer, *(_consumer(peer, number, queue("q")) for number in range(count // PEERS)))
        _send(peer, *(ProducerInfo(producer_id=peer.producer_id(number)) for number in range(count // PEERS)))

    return _pipelined(
        count,
        lambda peer, _: [
            SessionInfo(session_id=SessionId(peer.connection_id, 7)),
            RemoveInfo(object_id=SessionId(peer.connection_id, 7)),
        ],
        prepare,
    )


@scenario("OpenWire: a session ends with many consumers")
def _(count: int) -> Input:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    _send(peer, *(_consumer(peer, number, queue("q")) for number in range(count)))
    return _sending(peer, RemoveInfo(1, True, object_id=SessionId(peer.connection_id, 1)))


def _compressed_map(count: int, receive: Callable[[OpenWireGateway, int], object]) -> Input:
    gateway = OpenWireGateway()
    for number in range(count):
        receive(gateway, number)
    values: Map = {f"name{number}": Typed(words.INT, number) for number in range(50)}
    content = zlib.compress(write_map(values))
    peer = gateway.connect_openwire()
    message = peer.message(topic("t"), "", MapMessage, compressed=True, content=content)
    return _sending(peer, message)


@scenario("OpenWire: a compressed map goes to many STOMP clients")
def _(count: int) -> Input:
    return _compressed_map(count // PEERS, lambda gateway, number: gateway.subscriber("/topic/t", "auto"))


@scenario("OpenWire: a compressed map goes to many AMQP clients")
def _(count: int) -> Input:
    return _compressed_map(
        count // PEERS, lambda gateway, number: gateway.amqp_session().attach_receiver("topic://t", credit=10)
    )


@scenario("OpenWire: a connection's RemoveInfo with many consumers")
def _(count: int) -> Input:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    _send(peer, *(_consumer(peer, number, queue(f"q.{number % 50}")) for number in range(count)))
    return _sending(peer, RemoveInfo(1, True, object_id=ConnectionId(peer.connection_id)))


@scenario("OpenWire: a connection's RemoveInfo with many producers")
def _(count: int) -> Input:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    _send(
        peer, *(ProducerInfo(producer_id=peer.producer_id(number), destination=queue("q")) for number in range(count))
    )
    return _sending(peer, RemoveInfo(1, True, object_id=ConnectionId(peer.connection_id)))


@scenario("OpenWire: a connection with many producers is lost")
def _(count: int) -> Input:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    _send(
        peer, *(ProducerInfo(producer_id=peer.producer_id(number), destination=queue("q")) for number in range(count))
    )
    return peer.vanish


@scenario("OpenWire: a connection with many consumers is lost")
def _(count: int) -> Input:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    _send(peer, *(_consumer(peer, number, queue(f"q.{number % 50}")) for number in range(count)))
    return peer.vanish


@scenario("OpenWire: a connection is taken over with many consumers")
def _(count: int) -> Input:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    _send(peer, *(_consumer(peer, number, queue(f"q.{number % 50}")) for number in range(count)))
    return lambda: gateway.connect_openwire(connection_id=peer.connection_id)


def _servers(gateway: OpenWireGateway, count: int) -> None:
    """Connect peers that take requests and must be told where to answer."""
    for _ in range(count):
        server = gateway.connect_openwire()
        _send(server, _consumer(server, 1, ADVISORIES), _consumer(server, 2, topic("rpc"), 1_000))


@scenario("OpenWire: a temporary queue that many servers know ends")
def _(count: int) -> Input:
    gateway = OpenWireGateway()
    _servers(gateway, count // 10)
    peer = gateway.connect_openwire()
    to = _temporary(peer, 1).destination
    _send(peer, _temporary(peer, 1), peer.message(topic("rpc"), "ask", reply_to=to))
    return _sending(peer, _temporary(peer, 1, 1))


@scenario("OpenWire: a connection with many temporary queues that servers know is lost")
def _(count: int) -> Input:
    gateway = OpenWireGateway()
    _servers(gateway, 10)
    peer = gateway.connect_openwire()
    for number in range(count // 5):
        made = _temporary(peer, number)
        _send(peer, made, peer.message(topic("rpc"), "ask", reply_to=made.destination))
    return peer.vanish


@scenario("OpenWire pipelined: temporary queues come and go, with requests")
def _(count: int) -> Input:
    def commands(peer: OpenWirePeer, number: int) -> list[Structure]:
        made = _temporary(peer, number)
        request = peer.message(topic("rpc"), "ask", reply_to=made.destination)
        return [made, request, _temporary(peer, number, 1)]

    return _pipelined(count, commands, lambda gateway, _: _servers(gateway, 1))


@scenario("OpenWire: one acknowledgement of a range")
def _(count: int) -> Input:
    _, peer, found = _in_flight(count)
    return _sending(peer, _ack(peer, found[-1]))


@scenario("OpenWire: one poison acknowledgement of a range")
def _(count: int) -> Input:
    _, peer, found = _in_flight(count)
    return _sending(peer, _ack(peer, found[-1], POISON))


@scenario("OpenWire pipelined: messages are delivered and not settled")
def _(count: int) -> Input:
    gateway, peer, found = _in_flight(count)

    send = _sending(peer, *(_ack(peer, one, DELIVERED) for one in reversed(found)))

    def run() -> None:
        with gateway.one_turn():
            send()

    return run


@scenario("OpenWire pipelined: acknowledgements one by one, the last first")
def _(count: int) -> Input:
    gateway, peer, found = _in_flight(count)

    send = _sending(peer, *(_ack(peer, one, STANDARD, one) for one in reversed(found)))

    def run() -> None:
        with gateway.one_turn():
            send()

    return run


@scenario("OpenWire pipelined: acknowledgements name copies of an earlier connection, which nobody has")
def _(count: int) -> Input:
    gateway, peer, found = _in_flight(count)
    ack = _ack(peer, found[-1])
    assert ack.last_message_id is not None
    ack.last_message_id = ack.last_message_id._replace(sequence=count + 1, broker_sequence=-1)
    send = _sending(peer, *[ack] * (count // 20))

    def run() -> None:
        with gateway.one_turn():
            send()

    return run


@scenario("OpenWire: a transaction with a range is rolled back")
def _(count: int) -> Input:
    _, peer, found = _in_flight(count)
    ack = _ack(peer, found[-1])
    ack.transaction_id = peer.transaction()
    _send(peer, peer.transact(BEGIN), ack)
    return _sending(peer, peer.transact(ROLLBACK))


def _rolled_back(count: int, name: Callable[[OpenWirePeer], TransactionId]) -> Input:
    gateway, peer, found = _in_flight(count)
    ack = _ack(peer, found[-1])
    ack.transaction_id = name(peer)
    begin, roll_back = (
        TransactionInfo(connection_id=ConnectionId(peer.connection_id), transaction_id=name(peer), type=kind)
        for kind in (BEGIN, ROLLBACK)
    )
    send = _sending(peer, *([begin, ack, roll_back] * 20))

    def run() -> None:
        with gateway.one_turn():
            send()

    return run


scenario("OpenWire pipelined: ranges in transactions that are rolled back")(
    partial(_rolled_back, name=lambda peer: peer.transaction())
)
scenario("OpenWire pipelined: ranges in branches that are rolled back")(
    partial(_rolled_back, name=lambda _: XaTransactionId(1, b"g", b"b"))
)


@scenario("OpenWire: a transaction of many sends is rolled back")
def _(count: int) -> Input:
    gateway = OpenWireGateway(openwire=OpenWireSettings())
    peer = gateway.connect_openwire()
    sends = [peer.message(queue("q"), "x", transaction_id=peer.transaction()) for _ in range(count)]
    _send(peer, peer.transact(BEGIN), *sends)
    return _sending(peer, peer.transact(ROLLBACK))


@scenario("OpenWire: a command of nested arrays")
def _(count: int) -> Input:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    inner = BrokerInfo(peer_broker_infos=[None] * count)  # type: ignore[list-item]
    info = _consumer(peer, 1, queue("q"), additional_predicate=BrokerInfo(peer_broker_infos=[inner] * 10))
    return _sending(peer, info)


@scenario("OpenWire: a message of nested arrays")
def _(count: int) -> Input:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    inner = BrokerInfo(peer_broker_infos=[None] * count)  # type: ignore[list-item]
    return _sending(peer, peer.message(queue("q"), "x", data_structure=BrokerInfo(peer_broker_infos=[inner] * 10)))
