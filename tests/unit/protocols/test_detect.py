"""The first octets of a connection decide its protocol."""

from __future__ import annotations

import pytest

from protocols.detect import AMQP_0_9_1, AMQP_1_0, OPENWIRE, STOMP, UNDECIDED, detect


@pytest.mark.parametrize(
    ("octets", "protocol"),
    [
        (b"", UNDECIDED),
        (b"CONNECT\n", STOMP),
        (b"\n", STOMP),
        (b"AMQ", UNDECIDED),
        (b"AMQP\x00\x01\x00\x00", AMQP_1_0),
        (b"AMQP\x00\x00\x09\x01", AMQP_0_9_1),
        (b"AMQX", STOMP),
        (b"\x00\x00\x01\x5f\x01ActiveMQ\x00\x00", OPENWIRE),
        (b"\x00\x00\x01\x5f\x01Active", UNDECIDED),
        (b"\x00", UNDECIDED),
        (b"\x00\x00\x01\x5f\x01ActiveMX", STOMP),
        (b"\x00\x00\x01\x5f\x02", STOMP),
        (b"\x01ActiveMQ", STOMP),
    ],
)
def test_first_octets(octets: bytes, protocol: int) -> None:
    assert detect(octets) == protocol
