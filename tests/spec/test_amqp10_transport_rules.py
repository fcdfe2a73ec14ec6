"""What AMQP 1.0 says must be, must not be or is an error: part 2, transport: connections and sessions.

Each row is one rule that a peer breaks, or that the gateway has to keep; its id is the section.  Rules about octets of
single values are in test_amqp10_vectors.py, those about performatives in the wrong state in test_amqp10_states.py;
those about links and deliveries in test_amqp10_link_rules.py.

Taken although the specification says otherwise, for peers that are there: a first transfer without message-format (it
is 0), an open above 512 octets, a delivery-tag that is used again before it is settled, a flow whose next-outgoing-id
is not what has come, an unsettled transfer on a link whose sender settles all (it is settled), links of equal names,
a close or an empty frame on a channel above channel-max.

Otherwise than the specification says, and why: what comes on a link that has been detached because of an error is
passed over, where the session should end (errant-link), for the peer may not have heard of it; a delivery that is
resumed is rejected, not ignored, for its sender would wait; what a detached link had sent goes back at once, whether
or not the link was closed, for no link is resumed.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pytest

from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
)
from protocols.amqp.v1_0.wire.composites.sasl_frames import SaslInit
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame, encode_sasl_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, SASL_LAYER, protocol_header
from protocols.amqp.v1_0.wire.types.value_encoder import described_list, encode
from protocols.amqp.v1_0.wire.types.values import Described, Symbol, UInt
from tests.support.protocols.amqp_gateway import AmqpGateway, text
from tests.support.protocols.amqp_rules import (
    Exchange,
    Rules,
    answer,
    attaching,
    attaching_to,
    connected,
    depth,
    framed,
    is_closed,
    opening,
    raw,
    sender,
    sent,
    session,
    small_frames,
    typed,
    unopened,
)

RULES: Final = Rules()
rule = RULES.rule


@rule("2.4.1 before the peer's open is known no frame is above 512 octets")
def _() -> None:
    peer = AmqpGateway(amqp=AmqpSettings(server="s" * 600)).open_amqp()
    peer.send_octets(protocol_header(AMQP_LAYER))
    octets = peer.octets
    peer.take()
    peer.send(Begin(None, 0, 1, 1))
    octets = peer.octets
    assert octets[4:8] == bytes.fromhex("02000000")
    assert int.from_bytes(octets[:4], "big") <= 512


@rule("2.5.5 nothing is sent on a channel after end")
def _() -> None:
    peer = sender()
    peer.attach_receiver("q", 1, credit=5)
    peer.send(End())
    assert answer(peer) == "end"
    peer.begin(0)
    peer.attach_sender("q", 0)
    peer.transfer(text("m"))
    assert answer(peer) == "accepted"


@rule("2.5.6 a transfer beyond the incoming window")
def _() -> None:
    peer = session(incoming_window=2)
    peer.attach_sender("q")
    with peer.gateway.one_turn():
        for number in range(3):
            peer.send(Transfer(0, 0, b"t", 0, more=True), b"x" * (number + 1))
    assert answer(peer) == "end session:window-violation"


@rule("2.5.6 no transfer is sent beyond the remote incoming window")
def _() -> None:
    peer = AmqpGateway().connect_amqp()
    peer.begin(incoming_window=1)
    peer.attach_sender("q")
    peer.publish("a", "b")
    peer.attach_receiver("q", 1)
    peer.send(Flow(0, 1, 0, 100, 1, 0, 10))
    assert len(peer.transfers()) == 1
    other = peer.gateway.amqp_session()
    other.attach_receiver("q", credit=10)
    assert len(other.transfers()) == 1, "the rest is for others"


@rule("2.7.1 the text of a rejection is cut to fit into the peer's max-frame-size")
def _() -> None:
    peer = small_frames()
    peer.attach_sender(None, name="relay")
    properties = b"\x00\x53\x73" + encode([None, None, "$" + "z" * 900])
    peer.transfer(properties + text("m"))
    assert answer(peer).startswith("rejected")


@rule("2.7.1 messages are cut into frames of the peer's max-frame-size")
def _() -> None:
    peer = small_frames()
    peer.attach_sender("q")
    peer.publish("x" * 2_000)
    peer.attach_receiver("q", 1, credit=1)
    assert len(peer.transfers()) == 5


@rule("2.7.1 no channel is used above the peer's channel-max")
def _() -> None:
    peer = AmqpGateway().connect_amqp(channel_max=0)
    peer.send(Begin(None, 0, 1, 1), channel=3)
    assert answer(peer) == "begin"
    assert peer.channels == [0]
    peer.send(Begin(None, 0, 1, 1), channel=4)
    assert answer(peer) == "close not-allowed"


@rule("2.7.2 no handle is used above the peer's handle-max")
def _() -> None:
    peer = AmqpGateway().connect_amqp()
    peer.begin(handle_max=1)
    assert peer.attach_sender("q", 9).handle == 0
    assert peer.attach_sender("q", 0).handle == 1
    peer.send(Attach("l", 8, True, source=Source("q"), target=Target()))
    assert answer(peer) == "end session:handle-in-use"


@rule("2.4.2 everything up to the first attach may be sent ahead")
def _() -> None:
    peer = AmqpGateway().open_amqp()
    attach = Attach("link", 0, True, source=Source("q"), target=Target())
    frames = [Open("me"), Begin(None, 0, 1, 1), attach]
    login = protocol_header(SASL_LAYER) + encode_sasl_frame(SaslInit("ANONYMOUS"))
    peer.send_octets(login + protocol_header(AMQP_LAYER) + b"".join(encode_frame(0, frame) for frame in frames))
    octets = peer.octets
    assert octets.count(b"AMQP") == 2
    assert [code for code in (0x10, 0x11, 0x12) if bytes((0, 0x53, code)) in octets] == [0x10, 0x11, 0x12]


@rule("2.2 what is no header of ours is answered with one that is, and closed")
def _() -> None:
    unknown = (b"AMQQ", b"AMQP\x01\x01\x00\x0a", b"AMQP\x00\x02\x00\x00")
    versions = (b"AMQP\x05\x01\x00\x00", b"AMQP\x00\x01\x01\x00", b"AMQP\x00\x00\x09\x01")
    for octets in (b"HTTP/1.1", b"AMQQ\0\0\0\0", *unknown, *versions):
        peer = AmqpGateway().open_amqp()
        peer.send_octets(octets)
        assert (peer.octets, peer.is_closed) == (protocol_header(AMQP_LAYER), True), octets


@rule("2.2 a header that is supported is answered with itself")
def _() -> None:
    for layer in (AMQP_LAYER, SASL_LAYER):
        peer = AmqpGateway().open_amqp()
        peer.send_octets(protocol_header(layer))
        assert peer.octets.startswith(protocol_header(layer))


@rule("2.4.3 close is sent on channel 0")
def _() -> None:
    peer = session()
    peer.begin(5)
    peer.send(Close(), channel=5)
    assert isinstance(peer.one(Close), Close)
    assert peer.channels == [0]


@rule("2.4.5 our empty frames are on channel 0")
def _() -> None:
    peer = opening(idle_time_out=1_000)
    peer.take()
    peer.gateway.advance(600)
    assert peer.octets == raw("")


@rule("2.5.1 the answer to begin names the channel of the peer's")
def _() -> None:
    peer = AmqpGateway().connect_amqp(channel_max=2)
    for channel in (5, 1):
        peer.send(Begin(None, 0, 1, 1), channel=channel)
        assert peer.one(Begin).remote_channel == channel
        assert peer.channels[0] <= 2


@rule("2.5.6 a flow without next-incoming-id counts from our first transfer")
def _() -> None:
    peer = AmqpGateway().connect_amqp()
    peer.begin(incoming_window=0)
    peer.attach_sender("q")
    peer.publish(*"abcdef")
    peer.attach_receiver("q", 1)
    peer.send(Flow(None, 2, 0, 100, 1, 0, 10))
    assert len(peer.transfers()) == 2
    peer.send(Flow(None, 3, 0, 100))
    assert len(peer.transfers()) == 1


@rule("2.5.6 a window that shrinks below what is on its way is shut")
def _() -> None:
    peer = AmqpGateway().connect_amqp()
    peer.begin(incoming_window=3)
    peer.attach_sender("q")
    peer.publish(*"abcdef")
    peer.attach_receiver("q", 1)
    peer.send(Flow(0, 3, 0, 100, 1, 0, 10))
    assert len(peer.transfers()) == 3
    peer.send(Flow(0, 2, 0, 100))
    assert peer.transfers() == []
    peer.send(Flow(3, 2, 0, 100))
    assert len(peer.transfers()) == 2


@rule("2.5.6 transfer numbers wrap at 32 bits")
def _() -> None:
    peer = AmqpGateway().connect_amqp()
    peer.send(Begin(None, 2**32 - 2, 100, 100))
    peer.take()
    peer.attach_sender("q")
    peer.publish(*"abc")
    peer.send(Flow(0, 100, 1, 100, echo=True))
    assert peer.one(Flow).next_incoming_id == 1


@rule("2.7 fields that are mandatory")
def _() -> None:
    for composite in (Open, Begin, Attach, Flow, Transfer, Disposition, Detach):
        fields = [field for field in composite.FIELDS if field[2]]
        assert fields, composite
        octets = described_list(composite.CODE, 0, b"")
        peer = unopened() if composite is Open else session()
        peer.send_octets((8 + len(octets)).to_bytes(4, "big") + b"\x02\x00\x00\x00" + octets)
        assert answer(peer).endswith("close decode-error"), composite


@rule("2.8.2 snd-settle-mode and rcv-settle-mode have the values that are defined")
def _() -> None:
    assert attaching(snd_settle_mode=3) == "attach, detach invalid-field"
    assert attaching(rcv_settle_mode=2) == "attach, detach invalid-field"
    assert attaching_to(Target("q"), snd_settle_mode=3) == "attach, detach invalid-field"
    peer = sender()
    peer.transfer(text("m"), rcv_settle_mode=2)
    assert answer(peer) == "detach invalid-field"


@rule("2.8.13 keys of properties are symbols")
def _() -> None:
    wrong: dict[Any, Any] = {"a string": 1}
    assert answer(opening(properties=wrong)) == "open, close decode-error"
    peer = AmqpGateway().connect_amqp()
    peer.send(Begin(None, 0, 1, 1, properties=wrong))
    assert answer(peer) == "close decode-error"
    assert attaching(properties=wrong) == "close decode-error"
    peer = session()
    peer.send(Flow(0, 1, 0, 1, properties=wrong))
    assert answer(peer) == "close decode-error"


LONG: Final = "n" * 400
LONG_SELECTOR: Final = Described(Symbol("apache.org:selector-filter:string"), "a = '" + "x" * 250)
FRAMING: Final = "close connection:framing-error"
EXCHANGES: Final[dict[str, list[Exchange]]] = {
    "2.3.1 a data offset below 2 is malformed": [(session, b"\x00\x00\x00\x08\x01\x00\x00\x00", FRAMING)],
    "2.3.1 a data offset behind the end of the frame is malformed": [
        (session, b"\x00\x00\x00\x08\x03\x00\x00\x00", FRAMING)
    ],
    "2.3.1 a frame size below 8 is malformed": [(session, b"\x00\x00\x00\x07\x02\x00\x00\x00", FRAMING)],
    "2.3.1 an extended header is passed over": [
        (session, b"\x00\x00\x00\x10\x03\x00\x00\x00\xde\xad\xbe\xef\x00\x53\x17\x45", "end")
    ],
    "2.3.2 a frame of no known type, or of SASL's": [
        (session, raw("00531745", frame_type=frame_type), FRAMING) for frame_type in (1, 2)
    ],
    "2.7.1 a frame that says it is longer than any": [(session, b"\x7f\xff\xff\xff\x02\x00\x00\x00", FRAMING)],
    "2.3.2 a frame carries a performative that is defined": [
        (session, raw(body), "close decode-error") for body in ("00532445", "00535345", "00531945", "40", "45")
    ],
    "2.4.1 open on a channel other than 0": [
        (unopened, encode_frame(1, Open("me")), "open, close connection:framing-error")
    ],
    "2.4.1 nothing but open and close comes before open": [
        (unopened, frame, "open, close illegal-state") for frame in (Begin(None, 0, 1, 1), End(), Flow(0, 1, 0, 1))
    ],
    "2.4.3 close comes on any channel": [(session, encode_frame(7, Close()), "close")],
    "2.4.3 nothing is sent after close": [(sender, sent(), "accepted", Close(), "close", is_closed)],
    "2.4.3 whatever comes behind our close is dropped until the peer's": [
        (sender, Open("again"), "close illegal-state", sent(), "-", depth(0))
    ],
    "2.4.5 an idle time-out that cannot be kept is refused": [
        *[(partial(opening, idle_time_out=value), "open, close not-allowed") for value in (1, 199)],
        *[(partial(opening, idle_time_out=value), "open") for value in (0, 200, 30_000)],
    ],
    "2.4.5 empty frames are passed over, on any channel and before open": [
        (unopened, raw(""), Open("me"), raw("", channel=7), "open")
    ],
    "2.5.1 a begin that is no answer has no remote-channel": [(connected, Begin(3, 0, 1, 1), "close illegal-state")],
    "2.5.4 behind an end for an error everything is dropped until the peer's": [
        (
            *(sender, Detach(99), "end session:unattached-handle"),
            *(sent(), Flow(0, 1, 0, 1, echo=True), "-", depth(0)),
            *(End(), "-", Begin(None, 0, 1_000, 1_000), "begin"),
        )
    ],
    "2.7.1 max-frame-size below 512": [
        *[(partial(opening, max_frame_size=size), "open, close connection:framing-error") for size in (0, 511)],
        (partial(opening, max_frame_size=512), "open"),
    ],
    "2.7.1 an open of up to 512 octets and above is taken": [
        (unopened, Open("c" * size), "open") for size in (400, 5_000)
    ],
    "2.7.1 an attach that does not fit into the peer's max-frame-size": [
        (
            small_frames,
            Attach(LONG, 0, True, source=Source("q", capabilities=[Symbol("queue")]), target=Target(LONG)),
            "attach, detach frame-size-too-small",
            Attach(LONG * 2, 1, True, source=Source("q"), target=Target()),
            "end frame-size-too-small",
        )
    ],
    "2.7.1 the text of an error is cut to fit into the peer's max-frame-size": [
        (
            small_frames,
            Attach("a", 0, True, source=Source("q", filter={Symbol("s"): LONG_SELECTOR}), target=Target()),
            "attach, detach invalid-field",
            Attach("b" * 300, 1, True, source=Source("$" + "y" * 80), target=Target()),
            "attach, detach not-found",
            Attach("c", 1, True, source=Source("q"), target=Target()),
            "end session:handle-in-use",
            encode_frame(1, Begin(1, 0, 1, 1)),
            "close illegal-state",
        )
    ],
    "2.7.1 a frame above our max-frame-size": [
        (
            *(
                partial(session, max_frame_size=1_000),
                Attach("s", 0, False, target=Target("q"), initial_delivery_count=0),
            ),
            *("attach", sent(b"x" * 1_000), FRAMING),
        )
    ],
    "2.7.1 begin on a channel above our channel-max": [
        (partial(session, channel_max=3), encode_frame(4, Begin(None, 0, 1, 1)), FRAMING)
    ],
    "2.7.1 any frame on a channel above our channel-max": [
        (partial(session, channel_max=3), encode_frame(4, frame), FRAMING)
        for frame in (Flow(0, 1, 0, 1), Transfer(0, 0, b"t", 0), Disposition(True, 0), End(), Detach(0))
    ],
    "2.8.14 an error is an error, and has a condition": [
        (sender, framed(code, *fields, error), "close decode-error")
        for code, fields in ((0x16, (UInt(0), True)), (0x17, ()), (0x18, ()))
        for error in (typed(0x1D), typed(0x24), typed(0x1D, Symbol("a"), None, {"no symbol": 1}), "text")
    ],
    "2.7.2 a handle above our handle-max": [
        (partial(session, handle_max=3), frame, FRAMING)
        for frame in (
            Attach("l", 4, True, source=Source("q"), target=Target()),
            *(Flow(0, 1, 0, 1, 4, 0, 0), Transfer(4, 0, b"t", 0), Detach(4)),
        )
    ],
}
RULES.exchanges(EXCHANGES)


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str) -> None:
    RULES[name]()
