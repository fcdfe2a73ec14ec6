"""Laws of the OpenWire codec: what is written is read, cuts do not matter, and no octets do more than be refused."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from protocols import map_message as words
from protocols.errors import FrameError
from protocols.map_message import Map, Typed
from protocols.openwire.mapping.client_ack import PLAIN_STEPS as PLAIN_ACK_STEPS
from protocols.openwire.mapping.client_ack import AckReader, ClientAck
from protocols.openwire.mapping.client_message import PLAIN_STEPS, ClientMessage, MessageReader, whole
from protocols.openwire.mapping.stored_form import OF_BROKERS, message_parts, read_stored, stored
from protocols.openwire.wire import identities as wire
from protocols.openwire.wire.commands import BrokerInfo, MessageAck, Structure
from protocols.openwire.wire.frame_decoder import FrameDecoder
from protocols.openwire.wire.layouts import LAYOUTS, LOWEST_VERSION, VERSION
from protocols.openwire.wire.messages import MESSAGE_CLASSES, BlobMessage, WireMessage
from protocols.openwire.wire.modified_utf8 import decode_text, encode_text
from protocols.openwire.wire.property_map import read_map, read_stream, write_map, write_stream
from protocols.openwire.wire.reader import decode
from protocols.openwire.wire.writer import encode, encode_nested

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LONG = st.integers(-(2**63), 2**63 - 1)
CONNECTION = st.builds(wire.ConnectionId, TEXT)
PRODUCER = st.builds(wire.ProducerId, TEXT, LONG, LONG)
MESSAGE_ID = st.builds(wire.MessageId, st.none() | TEXT, PRODUCER, LONG, LONG)
ASCII_PRODUCER = st.builds(
    wire.ProducerId, st.text(st.characters(max_codepoint=127, min_codepoint=1), max_size=12), LONG, LONG
)
PLAIN_ID = st.builds(wire.MessageId, st.none(), ASCII_PRODUCER, LONG, LONG)
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


PLAIN: dict[str, object] = {
    "user_id": None,
    "reply_to": None,
    "data_structure": None,
    "target_consumer_id": None,
    "original_transaction_id": None,
    "redelivery_counter": 0,
    "broker_path": None,
    "arrival": 0,
    "received_by_df_bridge": False,
    "droppable": False,
    "cluster": None,
    "broker_in_time": 0,
    "broker_out_time": 0,
    "jmsx_group_first_for_consumer": False,
}


def fields_of(found: ClientMessage | ClientAck) -> list[object]:
    """Return all that the session reads of a command."""
    if isinstance(found, ClientAck):
        own, shared = "command_id response_required ack_type first last count cause", "end transaction_id consumer_id"
    else:
        own = """
            command_id response_required sequence group_id has_correlation_id persistent expiration priority type
            properties headers body
        """
        shared = "producer_id destination transaction_id start end sequence_at"
    return [getattr(found, name) for name in own.split()] + [getattr(found.names, name) for name in shared.split()]


def outcome(reader: MessageReader | AckReader, octets: bytes) -> list[object]:
    """Return the fields of a command, none if it is refused."""
    try:
        return fields_of(reader.read(octets, VERSION))
    except FrameError:
        return []


def changed(octets: bytes, data: st.DataObject) -> list[bytes]:
    """Return a command with one octet changed, and its beginning.  Its type octet stays."""
    broken = bytearray(octets)
    broken[data.draw(st.integers(1, len(octets) - 1))] = data.draw(st.integers(0, 255))
    return [bytes(broken), bytes(broken[: data.draw(st.integers(1, len(octets)))])]


@given(MESSAGES, MESSAGES, MESSAGE_ID, DESTINATION, st.booleans(), st.data())
def test_messages_of_a_known_producer_are_read_alike(
    first: WireMessage,
    other: WireMessage,
    name: wire.MessageId,
    sent_to: wire.Destination,
    is_plain: bool,
    data: st.DataObject,
) -> None:
    reader = MessageReader()
    for one in (first, other):
        one.producer_id = first.producer_id
        one.destination = sent_to
        one.transaction_id = first.transaction_id
        one.original_destination = first.original_destination
        one.message_id = name._replace(sequence=data.draw(LONG))
        if is_plain:
            for field, value in PLAIN.items():
                setattr(one, field, value)
        octets = encode(one)[4:]
        assert fields_of(reader.read(octets, VERSION)) == fields_of(whole(stored(octets, VERSION)))
    if is_plain and not isinstance(other, BlobMessage):
        assert reader.steps == PLAIN_STEPS
    for broken in changed(octets, data):
        assert outcome(reader, broken) == outcome(MessageReader(), broken)


@given(commands_of(MessageAck), commands_of(MessageAck), st.booleans(), st.data())
def test_acknowledgements_of_a_known_consumer_are_read_alike(
    first: Structure, other: Structure, is_plain: bool, data: st.DataObject
) -> None:
    assert isinstance(first, MessageAck) and isinstance(other, MessageAck)
    reader = AckReader()
    other.destination, other.transaction_id, other.consumer_id = (
        first.destination,
        first.transaction_id,
        first.consumer_id,
    )
    for one in (first, other):
        if is_plain:
            one.poison_cause = None
            one.first_message_id = data.draw(st.none() | PLAIN_ID)
            one.last_message_id = data.draw(st.none() | PLAIN_ID)
        octets = encode(one)[4:]
        found = reader.read(octets, VERSION)
        assert fields_of(found) == fields_of(AckReader().read(octets, VERSION))
        assert found.last == (None if one.last_message_id is None else one.last_message_id.broker_sequence)
    assert not is_plain or reader.steps == PLAIN_ACK_STEPS
    for broken in changed(octets, data):
        assert outcome(reader, broken) == outcome(AckReader(), broken)
