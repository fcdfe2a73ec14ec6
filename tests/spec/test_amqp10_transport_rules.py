"""What AMQP 1.0 says must be, must not be or is an error: part 2, transport.

Each row is one rule that a peer breaks, or that the gateway has to keep; its id is the section.  Rules about octets of
single values are in test_amqp10_vectors.py, those about performatives in the wrong state in test_amqp10_states.py.

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

from typing import Any, Final

import pytest

from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.delivery_states import Accepted
from protocols.amqp.v1_0.wire.frame_encoder import encode_frame, encode_sasl_frame
from protocols.amqp.v1_0.wire.frames import AMQP_LAYER, SASL_LAYER, protocol_header
from protocols.amqp.v1_0.wire.performatives import Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Transfer
from protocols.amqp.v1_0.wire.sasl_frames import SaslInit
from protocols.amqp.v1_0.wire.termini import Source, Target
from protocols.amqp.v1_0.wire.value_encoder import described_list, encode
from protocols.amqp.v1_0.wire.values import Described, Symbol, UInt, ULong
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, text
from tests.support.protocols.amqp_rules import (
    Rules,
    answer,
    attaching,
    attaching_to,
    opening,
    raw,
    receiver,
    sender,
    session,
)

RULES: Final = Rules()
rule = RULES.rule


@rule("2.2 a version that is not supported is answered with one that is, and closed")
def _() -> None:
    peer = AmqpGateway().open_amqp()
    peer.send_octets(b"AMQP\x00\x01\x01\x00")
    assert peer.octets == protocol_header(AMQP_LAYER)
    assert peer.is_closed


@rule("2.3.1 a data offset below 2 is malformed")
def _() -> None:
    peer = session()
    peer.send_octets(b"\x00\x00\x00\x08\x01\x00\x00\x00")
    assert answer(peer) == "close connection:framing-error"


@rule("2.3.1 an extended header is passed over")
def _() -> None:
    peer = session()
    body = bytes.fromhex("00531745")
    peer.send_octets((12 + len(body)).to_bytes(4, "big") + b"\x03\x00\x00\x00" + b"\xde\xad\xbe\xef" + body)
    assert answer(peer) == "end"


@rule("2.3.1 a frame size below 8 is malformed")
def _() -> None:
    peer = session()
    peer.send_octets(b"\x00\x00\x00\x07\x02\x00\x00\x00")
    assert answer(peer) == "close connection:framing-error"


@rule("2.4.1 open on a channel other than 0")
def _() -> None:
    peer = AmqpGateway().open_amqp()
    peer.send_octets(protocol_header(AMQP_LAYER))
    peer.take()
    peer.send(Open("me"), channel=1)
    assert answer(peer) == "open, close connection:framing-error"


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


@rule("2.4.3 close comes on any channel")
def _() -> None:
    peer = session()
    peer.send(Close(), channel=7)
    assert answer(peer) == "close"


@rule("2.4.3 nothing is sent after close")
def _() -> None:
    peer = sender()
    peer.transfer(text("m"))
    peer.take()
    peer.send(Close())
    assert answer(peer) == "close"
    assert peer.is_closed


@rule("2.4.5 an idle time-out that cannot be kept is refused")
def _() -> None:
    for value in (1, 199):
        assert answer(opening(idle_time_out=value)) == "open, close not-allowed"
    for value in (0, 200, 30_000):
        assert answer(opening(idle_time_out=value)) == "open"


@rule("2.5.1 a begin that is no answer has no remote-channel")
def _() -> None:
    peer = AmqpGateway().connect_amqp()
    peer.send(Begin(3, 0, 1, 1))
    assert answer(peer) == "close illegal-state"


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


@rule("2.6.2 a handle that is in use")
def _() -> None:
    peer = sender()
    peer.send(Attach("other", 0, True, source=Source("q"), target=Target()))
    assert answer(peer) == "end session:handle-in-use"


@rule("2.6.3 the answer to attach has the other role and the same name")
def _() -> None:
    peer = session()
    peer.send(Attach("link", 5, True, source=Source("q"), target=Target()))
    attach = peer.one(Attach)
    assert (attach.name, attach.role, attach.initial_delivery_count) == ("link", False, 0)


@rule("2.6.6 detach is answered with detach, closing with closing")
def _() -> None:
    for closed in (None, True):
        peer = sender()
        peer.send(Detach(0, closed))
        assert peer.one(Detach).closed == closed


@rule("2.6.7 a transfer without credit")
def _() -> None:
    peer = session(link_credit=1)
    peer.attach_sender("q")
    with peer.gateway.one_turn():
        for _ in range(2):
            peer.transfer(text("m"), settled=True)
    assert answer(peer) == "detach link:transfer-limit-exceeded"


@rule("2.6.7 a drain ends with the credit used up")
def _() -> None:
    peer = session()
    peer.attach_receiver("q", 1)
    peer.credit(1, 7, drain=True)
    flow = peer.one(Flow)
    assert (flow.link_credit, flow.delivery_count, flow.drain) == (0, 7, True)


@rule("2.7.1 max-frame-size below 512")
def _() -> None:
    for size in (0, 511):
        assert answer(opening(max_frame_size=size)) == "open, close connection:framing-error"
    assert answer(opening(max_frame_size=512)) == "open"


@rule("2.7.1 a frame above our max-frame-size")
def _() -> None:
    peer = session(max_frame_size=1_000)
    peer.attach_sender("q")
    peer.transfer(b"x" * 1_000)
    assert answer(peer) == "close connection:framing-error"


LONG: Final = "n" * 400


def small_frames() -> AmqpPeer:
    """Return a peer that takes frames of 512 octets, which ``AmqpPeer`` then checks."""
    peer = AmqpGateway().connect_amqp(max_frame_size=512)
    peer.begin()
    peer.frame_most = 512
    return peer


@rule("2.7.1 an attach that does not fit into the peer's max-frame-size")
def _() -> None:
    peer = small_frames()
    peer.send(Attach(LONG, 0, True, source=Source("q", capabilities=[Symbol("queue")]), target=Target(LONG)))
    assert answer(peer) == "attach, detach frame-size-too-small"
    peer.send(Attach(LONG * 2, 1, True, source=Source("q"), target=Target()))
    assert answer(peer) == "end frame-size-too-small"


@rule("2.7.1 the text of an error is cut to fit into the peer's max-frame-size")
def _() -> None:
    peer = small_frames()
    selector = Described(Symbol("apache.org:selector-filter:string"), "a = '" + "x" * 250)
    peer.send(Attach("a", 0, True, source=Source("q", filter={Symbol("s"): selector}), target=Target()))
    assert answer(peer) == "attach, detach invalid-field"
    peer.send(Attach("b" * 300, 1, True, source=Source("$" + "y" * 80), target=Target()))
    assert answer(peer) == "attach, detach not-found"
    peer.send(Attach("c", 1, True, source=Source("q"), target=Target()))
    assert answer(peer) == "end session:handle-in-use"
    peer.send(Begin(1, 0, 1, 1), channel=1)
    assert answer(peer) == "close illegal-state"


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


@rule("2.7.1 begin on a channel above our channel-max")
def _() -> None:
    peer = session(channel_max=3)
    peer.send(Begin(None, 0, 1, 1), channel=4)
    assert answer(peer) == "close connection:framing-error"


@rule("2.7.1 any frame on a channel above our channel-max")
def _() -> None:
    for frame in (Flow(0, 1, 0, 1), Transfer(0, 0, b"t", 0), Disposition(True, 0), End(), Detach(0)):
        peer = session(channel_max=3)
        peer.send(frame, channel=4)
        assert answer(peer) == "close connection:framing-error", frame


@rule("2.7.1 no channel is used above the peer's channel-max")
def _() -> None:
    peer = AmqpGateway().connect_amqp(channel_max=0)
    peer.send(Begin(None, 0, 1, 1), channel=3)
    assert answer(peer) == "begin"
    assert peer.channels == [0]
    peer.send(Begin(None, 0, 1, 1), channel=4)
    assert answer(peer) == "close not-allowed"


@rule("2.7.2 a handle above our handle-max")
def _() -> None:
    attach = Attach("l", 4, True, source=Source("q"), target=Target())
    for frame in (attach, Flow(0, 1, 0, 1, 4, 0, 0), Transfer(4, 0, b"t", 0), Detach(4)):
        peer = session(handle_max=3)
        peer.send(frame)
        assert answer(peer) == "close connection:framing-error", frame


@rule("2.7.2 no handle is used above the peer's handle-max")
def _() -> None:
    peer = AmqpGateway().connect_amqp()
    peer.begin(handle_max=0)
    peer.attach_sender("q", 9)
    peer.send(Attach("l", 8, True, source=Source("q"), target=Target()))
    assert answer(peer) == "end session:handle-in-use"


@rule("2.7.3 a sender's attach has an initial-delivery-count")
def _() -> None:
    assert attaching_to(Target("q"), initial_delivery_count=None) == "attach, detach invalid-field"
    assert attaching(initial_delivery_count=3) == "attach"  # a receiver's is passed over


@rule("2.7.3 unsettled maps delivery-tags to delivery states")
def _() -> None:
    for unsettled in ({Symbol("t"): None}, {b"t": "no state"}, {b"t" * 33: None}, {b"t": Described(ULong(0x10), [])}):
        assert attaching(unsettled=unsettled) == "attach, detach invalid-field", unsettled
    assert attaching(unsettled={b"t": None, b"u": Described(ULong(0x24), [])}) == "attach"


@rule("2.7.3 no message above the peer's max-message-size is sent")
def _() -> None:
    peer = sender()
    peer.publish("x" * 900, "small")
    peer.attach_receiver("q", 1, max_message_size=500)
    peer.credit(1, 5)
    (payload,) = peer.messages()
    assert payload.endswith(b"small")
    other = peer.gateway.amqp_session(container="other")
    other.attach_receiver("q", 1, credit=5)
    (payload,) = other.messages()
    assert len(payload) > 900
    peer.send(Flow(0, 100, 0, 100, 1, echo=True))
    assert peer.one(Flow).link_credit == 4  # what was not sent took none


@rule("2.7.3 a message above our max-message-size")
def _() -> None:
    peer = session(body_bytes=100)
    attach = peer.attach_sender("q")
    assert attach.max_message_size == 100
    peer.transfer(text("x" * 200))
    assert answer(peer) == "detach link:message-size-exceeded"


@rule("2.7.4 a flow of a session says nothing of a link")
def _() -> None:
    for fields in ({"delivery_count": 0}, {"link_credit": 1}, {"available": 1}, {"drain": True}):
        peer = session()
        peer.send(Flow(0, 1, 0, 1, **fields))
        assert answer(peer) == "end invalid-field", fields
    peer = session()
    peer.send(Flow(0, 1, 0, 1, drain=False))
    assert answer(peer) == "-"


@rule("2.7.4 a flow for a handle that is not attached")
def _() -> None:
    peer = session()
    peer.send(Flow(0, 1, 0, 1, 5, 0, 1))
    assert answer(peer) == "end session:unattached-handle"


@rule("2.7.4 echo asks for a flow, of a session, a sender, a receiver and a coordinator")
def _() -> None:
    peer = receiver()
    peer.attach_coordinator(9)
    for handle in (None, 0, 1, 9):
        peer.send(Flow(0, 100, 0, 100, handle, echo=True))
        assert peer.one(Flow).handle == handle


@rule("2.7.5 a delivery-id that differs within a delivery")
def _() -> None:
    peer = sender()
    peer.send(Transfer(0, 0, b"t", 0, more=True), text("m")[:4])
    peer.send(Transfer(0, 1, more=True), text("m")[4:])
    assert answer(peer) == "detach invalid-field"


@rule("2.7.5 a delivery-tag that differs within a delivery")
def _() -> None:
    peer = sender()
    peer.send(Transfer(0, 0, b"t", 0, more=True), text("m")[:4])
    peer.send(Transfer(0, None, b"u"), text("m")[4:])
    assert answer(peer) == "detach invalid-field"


@rule("2.7.5 a message-format that differs within a delivery")
def _() -> None:
    peer = sender()
    peer.send(Transfer(0, 0, b"t", 0, more=True), text("m")[:4])
    peer.send(Transfer(0, None, None, 1), text("m")[4:])
    assert answer(peer) == "detach invalid-field"


@rule("2.7.5 continuing transfers may repeat what the first said, or leave it out")
def _() -> None:
    peer = sender()
    peer.send(Transfer(0, 0, b"t", 0, more=True), text("m")[:4])
    peer.send(Transfer(0, 0, b"t", 0, more=True), text("m")[4:5])
    peer.send(Transfer(0), text("m")[5:])
    assert answer(peer) == "accepted"


@rule("2.7.5 a first transfer without delivery-id or delivery-tag")
def _() -> None:
    for transfer in (Transfer(0, None, b"t", 0), Transfer(0, 0, None, 0)):
        peer = sender()
        peer.send(transfer, text("m"))
        assert answer(peer) == "detach invalid-field"


@rule("2.7.5 a settled transfer of a link whose sender settles nothing")
def _() -> None:
    peer = sender(snd_settle_mode=0)
    peer.transfer(text("m"), settled=True)
    assert answer(peer) == "detach invalid-field"
    peer = sender(snd_settle_mode=0)
    peer.send(Transfer(0, 0, b"t", 0, settled=True, aborted=True))
    assert answer(peer) == "-"


@rule("2.7.5 rcv-settle-mode second on a transfer of a first-mode link")
def _() -> None:
    peer = sender()
    peer.transfer(text("m"), rcv_settle_mode=1)
    assert answer(peer) == "detach invalid-field"
    peer = sender()
    peer.transfer(text("m"), rcv_settle_mode=1, settled=True)  # then it is ignored
    assert answer(peer) == "-"


@rule("2.7.5 rcv-settle-mode first on a transfer of a second-mode link")
def _() -> None:
    peer = sender(rcv_settle_mode=1)
    peer.transfer(text("m"), rcv_settle_mode=0)
    assert answer(peer) == "accepted"
    peer.transfer(text("m"))
    assert answer(peer) == "accepted unsettled"


@rule("2.7.5 a delivery that is aborted is dropped, and settled")
def _() -> None:
    peer = sender()
    peer.send(Transfer(0, 0, b"t", 0, more=True), text("m")[:4])
    peer.send(Transfer(0, aborted=True))
    assert answer(peer) == "-"
    peer.transfer(text("n"))
    assert answer(peer) == "accepted"


@rule("2.7.5 a resumed delivery of which nothing is known")
def _() -> None:
    peer = sender()
    peer.transfer(text("m"), resume=True)
    assert answer(peer) == "rejected not-implemented"


@rule("2.7.6 a disposition reaches all links of the session, and passes over what is settled")
def _() -> None:
    peer = receiver("a", "b")
    peer.dispose(0, Accepted())
    peer.dispose(0, Accepted(), last=1_000)
    assert answer(peer) == "-"
    assert peer.gateway.stats("q").depth == 0


@rule("2.6.14 deliveries of two links may be interleaved, transfer by transfer")
def _() -> None:
    peer = sender()
    peer.attach_sender("other", 1)
    for handle in (0, 1):
        peer.send(Transfer(handle, handle, b"t", 0, more=True), text("m")[:4])
    peer.send(Transfer(1, more=True), b"")
    for handle in (1, 0):
        peer.send(Transfer(handle), text("m")[4:])
    assert answer(peer) == "accepted, accepted"


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


@rule("2.6.3 a receiver without a target, a sender without a source")
def _() -> None:
    peer = session()
    peer.send(Attach("r", 0, True, source=Source("q")))
    assert answer(peer) == "attach"
    peer.send(Attach("s", 1, False, target=Target("q"), initial_delivery_count=0))
    assert answer(peer) == "attach"


@rule("2.7.7 a detach for a handle that is not attached")
def _() -> None:
    peer = session()
    peer.send(Detach(5))
    assert answer(peer) == "end session:unattached-handle"


@rule("2.8.2 snd-settle-mode and rcv-settle-mode have the values that are defined")
def _() -> None:
    assert attaching(snd_settle_mode=3) == "attach, detach invalid-field"
    assert attaching(rcv_settle_mode=2) == "attach, detach invalid-field"
    assert attaching_to(Target("q"), snd_settle_mode=3) == "attach, detach invalid-field"
    peer = sender()
    peer.transfer(text("m"), rcv_settle_mode=2)
    assert answer(peer) == "detach invalid-field"


@rule("2.8.7 a delivery-tag above 32 octets")
def _() -> None:
    peer = sender()
    peer.send(Transfer(0, 0, b"t" * 33, 0), text("m"))
    assert answer(peer) == "detach invalid-field"
    peer = sender()
    peer.send(Transfer(0, 0, b"t" * 32, 0), text("m"))
    assert answer(peer) == "accepted"


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


@rule("2.2 what is no header of ours is answered with one that is, and closed")
def _() -> None:
    for octets in (b"HTTP/1.1", b"AMQQ\0\0\0\0", b"AMQP\x05\x01\x00\x00", b"AMQP\x00\x00\x09\x01"):
        peer = AmqpGateway().open_amqp()
        peer.send_octets(octets)
        assert (peer.octets, peer.is_closed) == (protocol_header(AMQP_LAYER), True), octets


@rule("2.2 a header that is supported is answered with itself")
def _() -> None:
    for layer in (AMQP_LAYER, SASL_LAYER):
        peer = AmqpGateway().open_amqp()
        peer.send_octets(protocol_header(layer))
        assert peer.octets.startswith(protocol_header(layer))


@rule("2.3.1 a data offset behind the end of the frame is malformed")
def _() -> None:
    peer = session()
    peer.send_octets(b"\x00\x00\x00\x08\x03\x00\x00\x00")
    assert answer(peer) == "close connection:framing-error"


@rule("2.3.2 a frame of no known type")
def _() -> None:
    peer = session()
    peer.send_octets(raw("00531745", frame_type=2))
    assert answer(peer) == "close connection:framing-error"


@rule("2.3.2 a frame carries a performative that is defined")
def _() -> None:
    for body in ("00532445", "00535345", "005319 45".replace(" ", ""), "40", "45"):
        peer = session()
        peer.send_octets(raw(body))
        assert answer(peer) == "close decode-error", body


@rule("2.4.1 nothing but open and close comes before open")
def _() -> None:
    for frame in (Begin(None, 0, 1, 1), End(), Flow(0, 1, 0, 1)):
        peer = AmqpGateway().open_amqp()
        peer.send_octets(protocol_header(AMQP_LAYER))
        peer.take()
        peer.send(frame)
        assert answer(peer) == "open, close illegal-state", frame


@rule("2.4.3 close is sent on channel 0")
def _() -> None:
    peer = session()
    peer.begin(5)
    peer.send(Close(), channel=5)
    assert isinstance(peer.one(Close), Close)
    assert peer.channels == [0]


@rule("2.4.3 whatever comes behind our close is dropped until the peer's")
def _() -> None:
    peer = sender()
    peer.send(Open("again"))
    assert answer(peer) == "close illegal-state"
    peer.transfer(text("m"))
    assert (answer(peer), peer.gateway.stats("q").depth) == ("-", 0)


@rule("2.4.5 empty frames are passed over, on any channel and before open")
def _() -> None:
    peer = AmqpGateway().open_amqp()
    peer.send_octets(protocol_header(AMQP_LAYER))
    peer.take()
    peer.send_octets(raw(""))
    peer.send(Open("me"))
    peer.send_octets(raw("", channel=7))
    assert answer(peer) == "open"


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


@rule("2.5.4 behind an end for an error everything is dropped until the peer's")
def _() -> None:
    peer = sender()
    peer.send(Detach(99))
    assert answer(peer) == "end session:unattached-handle"
    peer.transfer(text("m"))
    peer.send(Flow(0, 1, 0, 1, echo=True))
    assert (answer(peer), peer.gateway.stats("q").depth) == ("-", 0)
    peer.send(End())
    peer.begin(0)


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


@rule("2.6.1 a subscription's link that another connection attaches is stolen")
def _() -> None:
    gateway = AmqpGateway()
    source = Source("topic://t", UInt(2), Symbol("never"))
    peers = [gateway.amqp_session(), gateway.amqp_session()]
    for peer in peers:
        peer.send(Attach("news", 0, True, source=source, target=Target()))
    assert [answer(peer) for peer in peers] == ["attach, detach link:stolen", "attach"]


@rule("2.6.3 a terminus that is not made is answered by an attach without it, and detached at once")
def _() -> None:
    peer = session()
    peer.send(Attach("r", 0, True, source=Source("$none"), target=Target()))
    attach, detach = peer.take()
    assert isinstance(attach, Attach) and isinstance(detach, Detach)
    assert (attach.source, attach.target, detach.handle, detach.closed) == (None, None, attach.handle, True)


@rule("2.6.3 an attach says what the terminus really is")
def _() -> None:
    queue = Source("q", UInt(2), Symbol("never"), filter={Symbol("x"): Described(Symbol("unknown"), 1)})
    topic = Source("topic://t", UInt(1), Symbol("session-end"))
    for source, durable, policy in ((queue, None, "link-detach"), (topic, 1, "never")):
        peer = session()
        peer.send(Attach("r", 0, True, source=source, target=Target()))
        answered = peer.one(Attach).source
        assert answered is not None
        assert (answered.durable, answered.expiry_policy, answered.filter) == (durable, policy, None)


@rule("2.6.5 what comes on a link that has ended for an error changes nothing")
def _() -> None:
    peer = sender()
    peer.transfer(b"no message", settled=True)
    assert answer(peer) == "detach decode-error"
    peer.transfer(text("m"))
    peer.send(Flow(0, 1, 0, 1, 0, 0, 1))
    assert (answer(peer), peer.gateway.stats("q").depth) == ("-", 0)
    peer.send(Attach("again", 0, False, source=Source(), target=Target("q"), initial_delivery_count=0))
    assert answer(peer) == "end session:handle-in-use"


@rule("2.6.6 a handle is free again once it is detached")
def _() -> None:
    peer = sender()
    peer.send(Detach(0, True))
    peer.take()
    peer.attach_receiver("q", 0)


@rule("2.6.7 credit counts from our first delivery where the peer does not know better, and delivery-counts wrap")
def _() -> None:
    peer = session()
    first = Attach("s", 0, False, source=Source(), target=Target("q"), initial_delivery_count=2**32 - 1)
    peer.send(first)
    _, flow = peer.take()
    assert isinstance(flow, Flow) and flow.delivery_count == 2**32 - 1
    peer.publish(*"abc")
    peer.send(Flow(0, 100, 0, 100, 0, echo=True))
    assert peer.one(Flow).delivery_count == 2
    peer.attach_receiver("q", 1)
    for _ in range(2):
        peer.send(Flow(0, 100, 0, 100, 1, None, 1))
    assert len(peer.transfers()) == 1
    peer.send(Flow(0, 100, 0, 100, 1, 1, 1))
    assert len(peer.transfers()) == 1


@rule("2.6.12 delivery-tags of unsettled deliveries differ, and are short enough")
def _() -> None:
    peer = sender()
    peer.publish(*"abcd")
    peer.attach_receiver("q", 1, credit=4)
    tags = [transfer.delivery_tag for transfer in peer.transfers()]
    assert len(set(tags)) == 4
    assert all(tag is not None and 0 < len(tag) <= 32 for tag in tags)


@rule("2.6.14 messages of one link are not interleaved")
def _() -> None:
    peer = small_frames()
    peer.attach_sender("q")
    peer.publish("x" * 2_000, "y" * 2_000)
    peer.attach_receiver("q", 1, credit=2)
    transfers = peer.transfers()
    ids = [transfer.delivery_id for transfer in transfers]
    assert ids == sorted(ids, key=lambda one: -1 if one is None else one)
    assert [transfer.more for transfer in transfers].count(False) == 2


@rule("2.6.14 the octets of an aborted delivery are no part of the next")
def _() -> None:
    peer = sender()
    peer.send(Transfer(0, 0, b"t", 0, more=True), b"junk")
    peer.send(Transfer(0, aborted=True), b"junk")
    peer.transfer(text("m"))
    assert answer(peer) == "accepted"
    peer.attach_receiver("q", 1, credit=1)
    assert peer.messages() == [text("m")]


@rule("2.7 fields that are mandatory")
def _() -> None:
    for composite in (Open, Begin, Attach, Flow, Transfer, Disposition, Detach):
        fields = [field for field in composite.FIELDS if field[2]]
        assert fields, composite
        octets = described_list(composite.CODE, 0, b"")
        peer = AmqpGateway().open_amqp() if composite is Open else session()
        if composite is Open:
            peer.send_octets(protocol_header(AMQP_LAYER))
            peer.take()
        peer.send_octets((8 + len(octets)).to_bytes(4, "big") + b"\x02\x00\x00\x00" + octets)
        assert answer(peer).endswith("close decode-error"), composite


@rule("2.7.1 an open of up to 512 octets and above is taken")
def _() -> None:
    for size in (400, 5_000):
        peer = AmqpGateway().open_amqp()
        peer.send_octets(protocol_header(AMQP_LAYER))
        peer.take()
        peer.send(Open("c" * size))
        assert answer(peer) == "open"


@rule("2.7.3 unsettled has no key that is null")
def _() -> None:
    assert attaching(unsettled={None: None}) == "attach, detach invalid-field"


@rule("2.7.3 nothing is sent to a receiver whose unsettled map is incomplete")
def _() -> None:
    peer = sender()
    peer.publish("m")
    unsettled: dict[Any, Any] = {b"t": None}
    peer.send(Attach("r", 1, True, source=Source("q"), target=Target(), unsettled=unsettled, incomplete_unsettled=True))
    assert answer(peer) == "attach, detach not-implemented"
    peer.credit(1, 5)
    assert answer(peer) == "-"
    assert attaching_to(Target("q"), unsettled=unsettled, incomplete_unsettled=True) == "attach"


@rule("2.7.4 a flow tells delivery-count, link-credit and available of a link, and nothing of them without one")
def _() -> None:
    peer = receiver("m")
    for handle, delivery_count, link_credit in ((1, 1, 0), (0, 1, 999)):
        peer.send(Flow(0, 100, 0, 100, handle, echo=True))
        flow = peer.one(Flow)
        assert (flow.delivery_count, flow.link_credit, flow.next_incoming_id) == (delivery_count, link_credit, 1)
    peer.send(Flow(0, 100, 0, 100, echo=True))
    flow = peer.one(Flow)
    assert (flow.handle, flow.delivery_count, flow.link_credit, flow.available) == (None, None, None, None)


@rule("2.7.5 settled on any transfer of a delivery settles it")
def _() -> None:
    for place in range(3):
        peer = sender()
        for number, part in enumerate((text("m")[:2], text("m")[2:4], text("m")[4:])):
            is_first = number == 0
            peer.send(
                Transfer(
                    0,
                    0 if is_first else None,
                    b"t" if is_first else None,
                    0 if is_first else None,
                    settled=True if number == place else None,
                    more=number < 2,
                ),
                part,
            )
        assert (answer(peer), peer.gateway.stats("q").depth) == ("-", 1)


@rule("2.7.5 what is sent settled or not is as the link's mode says")
def _() -> None:
    for mode, is_settled in ((0, False), (1, True), (2, False), (None, False)):
        peer = sender()
        peer.publish("m")
        peer.attach_receiver("q", 1, credit=1, snd_settle_mode=mode)
        (transfer,) = peer.transfers()
        assert bool(transfer.settled) == is_settled
    peer = sender(snd_settle_mode=1)
    peer.transfer(text("m"))
    assert (answer(peer), peer.gateway.stats("q").depth) == ("-", 1)


@rule("2.7.5 a settled transfer on a later frame of a link whose sender settles nothing")
def _() -> None:
    peer = sender(snd_settle_mode=0)
    peer.send(Transfer(0, 0, b"t", 0, more=True), text("m")[:4])
    peer.send(Transfer(0, settled=True), text("m")[4:])
    assert answer(peer) == "detach invalid-field"


@rule("2.7.5 rcv-settle-mode second: the outcome is told unsettled, and settled by the peer")
def _() -> None:
    peer = sender(rcv_settle_mode=1)
    delivery = peer.transfer(text("m"))
    assert answer(peer) == "accepted unsettled"
    peer.send(Disposition(False, delivery, None, True, Accepted()))
    assert answer(peer) == "-"
    peer = receiver("m", rcv_settle_mode=1)
    peer.dispose(0, Accepted(), settled=False)
    assert answer(peer) == "accepted"


@rule("2.7.5 a transfer on a handle that is not attached")
def _() -> None:
    peer = session()
    peer.transfer(text("m"), 5)
    assert answer(peer) == "end session:unattached-handle"


@rule("2.7.6 a disposition is about deliveries of the direction that its role says")
def _() -> None:
    peer = receiver("m")
    peer.send(Disposition(False, 0, None, True, Accepted()))
    assert (answer(peer), peer.gateway.stats("q").in_flight) == ("-", 1)


@rule("2.7.6 a range that ends before it begins has nothing in it")
def _() -> None:
    peer = receiver(*"abcdefg")
    peer.dispose(5, Accepted(), last=3)
    assert (answer(peer), peer.gateway.stats("q").in_flight) == ("-", 7)
    peer.dispose(2**32 - 2, Accepted(), last=1)
    assert (answer(peer), peer.gateway.stats("q").in_flight) == ("-", 5)


@rule("2.7.6 what a link that is detached had sent is with others at once")
def _() -> None:
    for closed in (None, True):
        peer = receiver("m")
        peer.send(Detach(1, closed))
        assert answer(peer) == "detach"
        peer.dispose(0, Accepted())
        assert answer(peer) == "-"
        assert (peer.gateway.stats("q").in_flight, peer.gateway.stats("q").depth) == (0, 1)


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str) -> None:
    RULES[name]()
