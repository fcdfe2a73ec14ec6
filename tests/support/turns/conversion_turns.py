"""Turns in which messages of one protocol go to consumers of another, and cost more to read than they show."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from protocols import map_message as words
from protocols.map_message import Typed
from protocols.openwire.wire.messages import MapMessage
from protocols.openwire.wire.property_map import write_map
from tests.support.protocols.openwire_gateway import OpenWireGateway, queue
from tests.support.turns.turn_scenarios import Input, scenario

MESSAGES: Final = 25  # each takes a turn or more
Send = Callable[[OpenWireGateway, int], None]
Receive = Callable[[OpenWireGateway], object]


def _broken_maps(gateway: OpenWireGateway, count: int) -> None:
    """Send maps whose last value alone is malformed."""
    content = write_map({f"{number}": Typed(words.INT, number) for number in range(count)}) + b"\0"
    peer = gateway.connect_openwire()
    for _ in range(MESSAGES):
        peer.send(peer.message(queue("q"), "", made=MapMessage, content=content))


def _amqp_lists(gateway: OpenWireGateway, count: int) -> None:
    sender = gateway.amqp_sender("q")
    for _ in range(MESSAGES):
        sender.publish(list(range(count)))


def _stomp_maps(gateway: OpenWireGateway, count: int) -> None:
    sender = gateway.connect()
    entries = b",".join(b'{"string":["%d","x"]}' % number for number in range(count))
    body = b'{"map":{"entry":[%b]}}' % entries
    for _ in range(MESSAGES):
        sender.publish("/queue/q", body, transformation="jms-map-json")


def _to_stomp(gateway: OpenWireGateway) -> None:
    gateway.connect().subscribe("/queue/q", "auto")


def _to_amqp(gateway: OpenWireGateway) -> None:
    gateway.amqp_session().attach_receiver("q", credit=MESSAGES)


def _to_openwire(gateway: OpenWireGateway) -> None:
    gateway.openwire_consumer(queue("q"))


def _crossing(count: int, send: Send, receive: Receive) -> Input:
    gateway = OpenWireGateway()
    send(gateway, count)

    def run() -> None:
        receive(gateway)
        gateway.advance(1_000)
        assert gateway.queue("q").delivered_count == MESSAGES

    return run


_SENT: Final[dict[str, Send]] = {
    "OpenWire maps that are broken at their end": _broken_maps,
    "AMQP lists": _amqp_lists,
    "STOMP maps in JSON": _stomp_maps,
}
_RECEIVED: Final[dict[str, Receive]] = {"STOMP": _to_stomp, "AMQP": _to_amqp, "OpenWire": _to_openwire}

for _what, _send in _SENT.items():
    for _who, _receive in _RECEIVED.items():
        if not _what.startswith(_who):
            scenario(f"conversion: {_what} go to {_who}")(partial(_crossing, send=_send, receive=_receive))
