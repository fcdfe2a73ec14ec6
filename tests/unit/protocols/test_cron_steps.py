"""The search for the next time of a cron expression may take a millisecond, so it costs its sender steps of a turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from protocols import map_message as words
from protocols.amqp.v1_0.wire.composites.performatives import Transfer
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.types.value_encoder import encode as encode_value
from protocols.amqp.v1_0.wire.types.values import Symbol
from protocols.map_message import Typed
from protocols.openwire.wire.property_map import write_map
from protocols.openwire.wire.writer import encode
from tests.support.protocols.amqp_gateway import text
from tests.support.protocols.openwire_gateway import OpenWireGateway, queue
from tests.support.protocols.socket_peer import SocketPeer

SENDS = 10


def crons(is_asked: bool) -> list[str]:
    """Return as many expressions, no two of them alike; none asks for anything if that is not wanted."""
    return [f"{minute} 0 * 2 THU#5" if is_asked else "" for minute in range(SENDS)]


def stomp(gateway: OpenWireGateway, is_asked: bool) -> tuple[SocketPeer, bytes]:
    lines = [f"AMQ_SCHEDULED_CRON:{cron}\n" if cron else "" for cron in crons(is_asked)]
    return gateway.connect("1.2"), b"".join(f"SEND\ndestination:/queue/q\n{line}\nx\0".encode() for line in lines)


def amqp(gateway: OpenWireGateway, is_asked: bool) -> tuple[SocketPeer, bytes]:
    octets = b""
    for number, cron in enumerate(crons(is_asked)):
        asked = b"\x00\x53\x72" + encode_value({Symbol("x-opt-delivery-cron"): cron}) if cron else b""
        octets += encode_frame(0, Transfer(0, number, b"%d" % number, 0), asked + text("x"))
    return gateway.amqp_sender("q"), octets


def openwire(gateway: OpenWireGateway, is_asked: bool) -> tuple[SocketPeer, bytes]:
    peer = gateway.connect_openwire()
    properties = [write_map({"AMQ_SCHEDULED_CRON": Typed(words.STRING, cron)}) for cron in crons(is_asked)]
    return peer, b"".join(
        encode(peer.message(queue("q"), "x", marshalled_properties=one if is_asked else None)) for one in properties
    )


@pytest.mark.parametrize("sends", [stomp, amqp, openwire])
@pytest.mark.parametrize("is_asked", [False, True])
def test_one_turn_searches_for_a_few_times(
    sends: Callable[[OpenWireGateway, bool], tuple[SocketPeer, bytes]], is_asked: bool
) -> None:
    gateway = OpenWireGateway()
    peer, octets = sends(gateway, is_asked)
    with gateway.one_turn():
        peer.send_octets(octets)
        assert peer.link.is_reading is not is_asked, "the other frames wait for the next turn"
    assert peer.link.is_reading
