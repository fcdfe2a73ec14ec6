"""Octets of OpenWire: what each frame says, that we write the same ones, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from engine.values.errors import PenstockError
from protocols import map_message as words
from protocols.errors import FrameError
from protocols.map_message import Typed
from protocols.openwire.connection.negotiation import Terms, agree
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.openwire.mapping.contents import content_of, text_of
from protocols.openwire.mapping.openwire_form import read_properties
from protocols.openwire.mapping.stored_form import SAME_FORM_SINCE, message_parts, read_stored, stored
from protocols.openwire.wire import identities, messages
from protocols.openwire.wire.commands import Structure, WireFormatInfo
from protocols.openwire.wire.frame_decoder import FrameDecoder
from protocols.openwire.wire.layouts import VERSION
from protocols.openwire.wire.messages import WireMessage
from protocols.openwire.wire.property_map import read_map, read_stream, write_map
from protocols.openwire.wire.reader import decode
from protocols.openwire.wire.writer import encode, encode_nested
from tests.support.protocols.openwire_vectors import VECTORS, Vector

FRAME_MAX = 104_857_600
NAMES = {
    identities.QUEUE: "ActiveMQQueue",
    identities.TOPIC: "ActiveMQTopic",
    identities.TEMP_QUEUE: "ActiveMQTempQueue",
    identities.TEMP_TOPIC: "ActiveMQTempTopic",
}
# Names on the wire whose words differ from ours.
SPELLED = {
    "brokerURL": "broker_url",
    "recievedByDFBridge": "received_by_df_bridge",
    "JMSXGroupFirstForConsumer": "jmsx_group_first_for_consumer",
    "remoteBlobUrl": "remote_blob_url",
    "producerSequenceId": "sequence",
    "brokerSequenceId": "broker_sequence",
    "textView": "text_view",
    "globalTransactionId": "global_id",
    "branchQualifier": "branch",
    "physicalName": "name",
    "class": "class_name",
    "groupID": "group_id",
    "userID": "user_id",
}


def of(*groups: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "vector", [pytest.param(one, id=one["id"]) for one in VECTORS if one["group"] in groups]
    )


def frame_of(vector: Vector) -> bytes:
    decoder = FrameDecoder(FRAME_MAX)
    decoder.receive_data(bytes.fromhex(vector["hex"]))
    frame = decoder.next_frame()
    assert frame is not None
    assert decoder.next_frame() is None
    return frame


def check(found: Any, wanted: Any) -> None:
    """Check what a vector says of a structure, field by field."""
    if isinstance(wanted, dict) and set(wanted) == {"hex"}:
        assert found == bytes.fromhex(wanted["hex"])
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, each in zip(found, wanted, strict=True):
            check(one, each)
    elif isinstance(wanted, dict):
        name = NAMES.get(found.kind) if isinstance(found, identities.Destination) else None
        if isinstance(found, Structure):
            name = found.NAME
        for key, value in wanted.items():
            if key == "type" and (value == name or not hasattr(found, "type")):
                assert name is None or value == name  # otherwise the command has a field of that name
            elif key not in ("properties", "body", "stack", "cause"):
                check(getattr(found, SPELLED.get(key) or re.sub("([A-Z])", lambda m: f"_{m[1].lower()}", key)), value)
    else:
        assert found == wanted


@of("frame", "version", "captured")
def test_command(vector: Vector) -> None:
    found = decode(frame_of(vector), vector["version"])
    check(found, vector["decoded"])
    assert encode(found, vector["version"]).hex() == vector["hex"]


@of("primitive")
def test_property_map(vector: Vector) -> None:
    octets = bytes.fromhex(vector["hex"])
    found = read_map(octets)
    assert [key for key, *_ in vector["decoded"]["map"]] == list(found)
    if vector["preferred_encoding"]:
        assert write_map(found) == octets


@of("frame", "version", "captured")
def test_a_stored_message_is_dispatched_as_it_came(vector: Vector) -> None:
    frame = frame_of(vector)
    if frame[0] not in messages.MESSAGE_CLASSES:
        return
    form = stored(frame, vector["version"])
    assert form.message.destination is not None
    before, after = message_parts(form.headers, form.body, 0x0102030405060708, encode_nested(form.message.destination))
    found = decode(before + form.body + after, VERSION)
    assert isinstance(found, WireMessage)
    assert found.message_id is not None
    assert found.message_id.broker_sequence == 0x0102030405060708
    found.message_id = form.message.message_id
    assert encode(found) == encode(form.message)
    assert encode(read_stored(form.headers, form.body)) == encode(form.message)
    if vector["version"] >= SAME_FORM_SINCE:
        assert encode(form.message)[4:] == frame


@of("frame")
def test_properties_and_bodies(vector: Vector) -> None:
    found = decode(frame_of(vector), vector["version"])
    if not isinstance(found, WireMessage):
        return
    wanted = vector["decoded"].get("properties")
    if wanted is not None:
        properties = read_properties(found.marshalled_properties)
        assert [[name, plain(typed)] for name, typed in properties.items()] == [[one[0], one[2]] for one in wanted]
    body = vector["decoded"].get("body")
    content = content_of(found)
    if found.CODE == messages.TEXT and body is not None:
        assert text_of(content) == body
    elif found.CODE == messages.MAP and body is not None:
        assert [[name, plain(typed)] for name, typed in read_map(content or b"").items()] == [
            [one[0], one[2]] for one in body
        ]
    elif found.CODE == messages.STREAM and body is not None:
        assert [plain(typed) for typed in read_stream(content or b"")] == [one[1] for one in body]


def plain(typed: Typed) -> Any:
    """Return a value as the vectors write it."""
    if typed.kind == words.BYTES:
        return {"hex": typed.value.hex()}
    if typed.kind == words.MAP:
        return [[name, one.kind, plain(one)] for name, one in typed.value.items()]
    if typed.kind == words.LIST:
        return [[one.kind, plain(one)] for one in typed.value]
    return typed.value


def take_first(vector: Vector) -> None:
    """Take a frame as the first one of a connection.  Raises: PenstockError."""
    found = decode(frame_of(vector))
    assert isinstance(found, WireFormatInfo)
    agree(found, OpenWireSettings(), Terms())


@of("invalid")
def test_refused(vector: Vector) -> None:
    octets = bytes.fromhex(vector["hex"])
    if vector.get("input"):
        with pytest.raises(FrameError):
            read_map(octets)
        return
    if vector["id"] in ("bad-first-frame", "bad-nested-missing"):
        return  # sound frames, which sessions refuse (tests/unit/protocols/openwire)
    with pytest.raises(PenstockError):
        take_first(vector)
