"""The id that a sender gave its message, in the headers of each protocol."""

from __future__ import annotations

import uuid

import pytest

from engine.values.message import AMQP_1_0, OPENWIRE, STOMP
from gateway.settings.message_keys import SENDER_IDS
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Described, ULong, Value
from protocols.openwire.mapping.stored_form import stored
from protocols.openwire.wire import identities
from protocols.openwire.wire.identities import Destination, MessageId, ProducerId
from protocols.openwire.wire.layouts import VERSION
from protocols.openwire.wire.messages import TextMessage
from protocols.openwire.wire.writer import encode_structure

JAVA = "ID:host-39123-1700000000000-1:1"


def amqp(message_id: Value) -> bytes:
    return encode(Described(ULong(0x73), [message_id, None, "to"]))


def openwire(text_view: str | None, sequence: int = 7) -> bytes:
    producer = ProducerId(JAVA, 3, 2)
    message = TextMessage(
        producer_id=producer,
        destination=Destination(identities.QUEUE, "q"),
        message_id=MessageId(text_view, producer, sequence, 0),
    )
    return stored(encode_structure(message), VERSION).headers


UUID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


@pytest.mark.parametrize(
    ("encoding", "headers", "sender_id"),
    [
        (STOMP, b"a:1\namqp-message-id:ID\\cx-1\n", "ID:x-1"),
        (AMQP_1_0, amqp("ID:x-1"), "ID:x-1"),
        (AMQP_1_0, amqp("x"), "x"),
        (AMQP_1_0, amqp("x"), "ID:AMQP_NO_PREFIX:x"),
        (AMQP_1_0, amqp(UUID), f"ID:AMQP_UUID:{UUID}"),
        (AMQP_1_0, amqp(b"\x00\xff"), "ID:AMQP_BINARY:00FF"),
        (AMQP_1_0, amqp(ULong(0)), "ID:AMQP_ULONG:0"),
        (AMQP_1_0, amqp(ULong(200)), "ID:AMQP_ULONG:200"),
        (AMQP_1_0, amqp(ULong(2**63)), f"ID:AMQP_ULONG:{2**63}"),
        (OPENWIRE, openwire(None), f"{JAVA}:2:3:7"),
        (OPENWIRE, openwire("x"), "ID:x"),
        (OPENWIRE, openwire("ID:x"), "ID:x"),
    ],
)
def test_it_is_found(encoding: int, headers: bytes, sender_id: str) -> None:
    reader = SENDER_IDS[encoding]
    assert reader.has(headers, sender_id)
    assert any(octets in headers for octets in reader.octets(sender_id))
    assert not reader.has(headers, sender_id + "0")


@pytest.mark.parametrize("encoding", [STOMP, AMQP_1_0, OPENWIRE])
@pytest.mark.parametrize("sender_id", [f"{JAVA}:2:3:{2**70}", "ID:AMQP_ULONG:-1", "ID:", "\0"])
def test_an_id_that_no_message_has_is_no_error(encoding: int, sender_id: str) -> None:
    assert b"" not in SENDER_IDS[encoding].octets(sender_id)
    assert not SENDER_IDS[encoding].has(
        {STOMP: b"a:1\n", AMQP_1_0: amqp("x"), OPENWIRE: openwire(None)}[encoding], sender_id
    )
