"""Laws of the OpenWire codec: what is written is read, cuts do not matter, and no octets do more than be refused."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from protocols import map_message as words
from protocols.map_message import Map, Typed
from protocols.openwire.errors import FrameError
from protocols.openwire.mapping.stored_form import OF_BROKERS, message_parts, read_stored, stored
from protocols.openwire.wire import identities as wire
from protocols.openwire.wire.commands import BrokerInfo, Structure
from protocols.openwire.wire.frame_decoder import FrameDecoder
from protocols.openwire.wire.layouts import LAYOUTS, LOWEST_VERSION, VERSION
from protocols.openwire.wire.messages import MESSAGE_CLASSES, WireMessage
from protocols.openwire.wire.modified_utf8 import decode_text, encode_text
from protocols.openwire.wire.property_map import read_map, read_stream, write_map, write_stream
from protocols.openwire.wire.reader import decode
from protocols.openwire.wire.writer import encode, encode_nested

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LONG = st.integers(-(2**63), 2**63 - 1)
CONNECTION = st.builds(wire.ConnectionId, TEXT)
PRODUCER = st.builds(wire.ProducerId, TEXT, LONG, LONG)
MESSAGE_ID = st.builds(wire.MessageId, st.none() | TEXT, PRODUCER, LONG, LONG)
DESTINATION = st.builds(wire.Destination, st.sampled_from([100, 101, 102, 103]), TEXT)
TRANSACTION = st.builds(wire.LocalTransactionId, LONG, CONNECTION) | st.builds(
    wire.XaTransactionId, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=64), st.binary(max_size=64)
)
NESTED: dict[str, st.SearchStrategy[Any]] = {
    "ConnectionId": CONNECTION,
    "SessionId": st.builds(wire.SessionId, TEXT, LONG),
    "ConsumerId": st.builds(wire.ConsumerId, TEXT, LONG, LONG),
    "ProducerId": PRODUCER,
    "BrokerId": st.builds(wire.BrokerId, TEXT),
    "MessageId": MESSAGE_ID,
    "TransactionId": TRANSACTION,
    "Destination": DESTINATION,
    "Anything": DESTINATION | MESSAGE_ID | TRANSACTION,
    "BrokerInfo": st.builds(BrokerInfo),
}
SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "BOOL": st.booleans(),
    "BYTE": st.integers(-128, 127),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "LONG": LONG,
    "STRING": st.none() | TEXT,
    "BYTES": st.none() | st.binary(max_size=40),
    "MAGIC": st.just(b"ActiveMQ"),
    "Throwable": st.none() | st.builds(wire.Throwable, TEXT, TEXT),
}


def field_of(kind: str) -> st.SearchStrategy[Any]:
    name = kind.removesuffix(" | None")
    if name in SIMPLE:
        return SIMPLE[name]
    if name.startswith("list["):
        return st.none() | st.lists(NESTED[name[5:-1]], max_size=3)
    return st.none() | NESTED[name]


def commands_of(made: type[Structure]) -> st.SearchStrategy[Structure]:
    return st.builds(made, **{one.name: field_of(str(one.type)) for one in fields(made)})


COMMANDS = st.sampled_from(sorted(LAYOUTS)).flatmap(lambda code: commands_of(LAYOUTS[code].made))
MESSAGES = st.sampled_from(sorted(MESSAGE_CLASSES)).flatmap(lambda code: commands_of(MESSAGE_CLASSES[code]))
FLOATS = st.floats(width=32, allow_nan=False)
VALUES: st.SearchStrategy[Typed] = st.recursive(
    st.one_of(
        st.builds(Typed, st.just(words.NULL), st.none()),
        st.builds(Typed, st.just(words.BOOLEAN), st.booleans()),
        st.builds(Typed, st.just(words.BYTE), st.integers(-128, 127)),
        st.builds(Typed, st.just(words.SHORT), st.integers(-(2**15), 2**15 - 1)),
        st.builds(Typed, st.just(words.INT), st.integers(-(2**31), 2**31 - 1)),
        st.builds(Typed, st.just(words.LONG), LONG),
        st.builds(Typed, st.just(words.FLOAT), FLOATS),
        st.builds(Typed, st.just(words.DOUBLE), st.floats(allow_nan=False)),
        st.builds(Typed, st.just(words.CHAR), st.characters(max_codepoint=0xD7FF)),
        st.builds(Typed, st.just(words.STRING), TEXT),
        st.builds(Typed, st.just(words.BYTES), st.binary(max_size=20)),
    ),
    lambda inner: (
        st.builds(Typed, st.just(words.LIST), st.lists(inner, max_size=3))
        | st.builds(Typed, st.just(words.MAP), st.dictionaries(TEXT, inner, max_size=3))
    ),
    max_leaves=6,
)
MAPS: st.SearchStrategy[Map] = st.dictionaries(TEXT, VALUES, max_size=4)


@given(TEXT)
def test_modified_utf_8(text: str) -> None:
    octets = encode_text(text)
    assert b"\0" not in octets
    assert all(octet < 0xF0 for octet in octets)  # no sequences of four octets, which Java refuses
    assert decode_text(octets) == text
    assert decode_text(text.encode()) == text


@given(COMMANDS)
def test_what_is_written_is_read(command: Structure) -> None:
    assert decode(encode(command)[4:]) == command


@given(COMMANDS, st.integers(LOWEST_VERSION, VERSION))
def test_an_older_version_says_the_same(command: Structure, version: int) -> None:
    octets = encode(command, version)
    assert encode(decode(octets[4:], version), version) == octets


@given(st.lists(COMMANDS, max_size=5), st.integers(1, 40))
def test_cut_points_do_not_matter(commands: list[Structure], cut_size: int) -> None:
    octets = b"".join(encode(command) for command in commands)
    decoder = FrameDecoder(1 << 20)
    read: list[Structure] = []
    for start in range(0, len(octets), cut_size):
        decoder.receive_data(octets[start : start + cut_size])
        while (frame := decoder.next_frame()) is not None:
            read.append(decode(frame))
    assert read == commands
    assert decoder.buffered_bytes() == decoder.partial_number() == 0


@given(COMMANDS, st.data())
def test_a_changed_octet_is_read_or_refused(command: Structure, data: st.DataObject) -> None:
    octets = bytearray(encode(command)[4:])
    place = data.draw(st.integers(0, len(octets) - 1))
    octets[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(1, len(octets)))
    for body in (bytes(octets), bytes(octets[:cut])):
        try:
            decode(body)
        except FrameError:
            pass


@given(MAPS)
def test_maps(values: Map) -> None:
    assert read_map(write_map(values)) == values
    assert read_map(write_map(values, is_modified=False)) == values


@given(st.lists(VALUES, max_size=5))
def test_streams(values: list[Typed]) -> None:
    assert read_stream(write_stream(values)) == values


@given(MAPS, st.data())
def test_a_changed_map_is_read_or_refused(values: Map, data: st.DataObject) -> None:
    octets = bytearray(write_map(values))
    octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    try:
        read_map(bytes(octets))
    except FrameError:
        pass


@given(MESSAGES, MESSAGE_ID, DESTINATION, DESTINATION, st.integers(0, 2**63 - 1))
def test_a_stored_message_is_dispatched(
    message: WireMessage, message_id: wire.MessageId, sent_to: wire.Destination, moved_to: wire.Destination, tag: int
) -> None:
    message.message_id = message_id
    message.destination = sent_to
    form = stored(encode(message)[4:], VERSION)
    for name in OF_BROKERS:
        setattr(message, name, None)
    assert read_stored(form.headers, form.body) == message
    before, after = message_parts(form.headers, form.body, tag, encode_nested(moved_to))
    message.destination = moved_to
    message.message_id = message_id._replace(broker_sequence=tag)
    assert decode(before + form.body + after) == message
