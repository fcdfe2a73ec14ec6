"""What AMQP 1.0 says must be, must not be or is an error, section by section (parts 2 to 5).

Each row is one rule that a peer breaks, or that the gateway has to keep; its id is the section.  What a peer is told is
written as in test_amqp10_states.py: ``close illegal-state`` is a close with that condition, ``attach, detach ...`` a
link that is refused.  Rules about octets of single values are in test_amqp10_vectors.py, those about performatives in
the wrong state in test_amqp10_states.py.

Taken although the specification says otherwise, for peers that are there: a first transfer without message-format (it
is 0), a SASL frame above 512 octets (tokens), no body or a mixture of body sections (the bare message is the sender's
own), a delivery-tag that is used again before it is settled, a flow whose next-outgoing-id is not what has come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composite import Composite
from protocols.amqp.v1_0.wire.composite_codec import encode_composite
from protocols.amqp.v1_0.wire.delivery_states import Accepted, Declared, Received, TransactionalState
from protocols.amqp.v1_0.wire.frame_encoder import encode_frame, encode_sasl_frame
from protocols.amqp.v1_0.wire.frames import AMQP_LAYER, SASL_LAYER, protocol_header
from protocols.amqp.v1_0.wire.performatives import Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Transfer
from protocols.amqp.v1_0.wire.sasl_frames import SaslInit, SaslMechanisms, SaslOutcome, SaslResponse
from protocols.amqp.v1_0.wire.termini import Source, Target
from protocols.amqp.v1_0.wire.transaction_types import Coordinator, Declare, Discharge
from protocols.amqp.v1_0.wire.value_encoder import encode
from protocols.amqp.v1_0.wire.values import Described, Symbol, UByte, UInt, ULong
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, text

RULES: Final[dict[str, Callable[[], None]]] = {}


def rule(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Enter a test under its section and what it is about."""

    def enter(test: Callable[[], None]) -> Callable[[], None]:
        assert name not in RULES
        RULES[name] = test
        return test

    return enter


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str) -> None:
    RULES[name]()


def answer(peer: AmqpPeer) -> str:
    """Return what has come, flows that go along left out."""
    said = []
    for frame in peer.take():
        name = frame.NAME.removeprefix("amqp:").removesuffix(":list")
        error = getattr(frame, "error", None)
        if isinstance(frame, Disposition):
            state = getattr(frame.state, "outcome", None) or frame.state
            error = getattr(state, "error", None)
            name = "none" if state is None else state.NAME.removeprefix("amqp:").removesuffix(":list")
            name = f"{name}{'' if frame.settled else ' unsettled'}"
        if not isinstance(frame, Flow):
            said.append(f"{name} {error.condition.removeprefix('amqp:')}" if error is not None else name)
    return ", ".join(said) or "-"


def opening(**fields: Any) -> AmqpPeer:
    """Return a peer that has sent its open."""
    peer = AmqpGateway().open_amqp()
    peer.send_octets(protocol_header(AMQP_LAYER))
    peer.take()
    peer.send(Open("me", **fields))
    return peer


def session(**settings: Any) -> AmqpPeer:
    return AmqpGateway(amqp=AmqpSettings(**settings)).amqp_session()


def sender(**fields: Any) -> AmqpPeer:
    """Return a peer with a producer on handle 0."""
    peer = session()
    peer.attach_sender("q", 0, **fields)
    return peer


def receiver(*bodies: str, **fields: Any) -> AmqpPeer:
    """Return a peer with a consumer on handle 1, which has received ``bodies``."""
    peer = sender()
    peer.publish(*bodies)
    peer.attach_receiver("q", 1, credit=len(bodies), **fields)
    peer.take()
    return peer


def attaching(source: Source | None = None, **fields: Any) -> str:
    """Return the answer to a consumer's attach."""
    peer = session()
    peer.send(Attach("link", 0, True, source=source or Source("q"), target=Target(), **fields))
    return answer(peer)


def attaching_to(target: Target | Coordinator | None, **fields: Any) -> str:
    """Return the answer to a producer's attach."""
    peer = session()
    fields = {"initial_delivery_count": 0, **fields}
    peer.send(Attach("link", 0, False, source=Source(), target=target, **fields))
    return answer(peer)


def raw(body: str, *, frame_type: int = 0, channel: int = 0) -> bytes:
    octets = bytes.fromhex(body)
    return (8 + len(octets)).to_bytes(4, "big") + bytes((2, frame_type)) + channel.to_bytes(2, "big") + octets


# -- part 2, transport


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


@rule("2.6.5 detach is answered with detach, closing with closing")
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


# -- part 3, messaging


@rule("3.2 sections of a message come in their order, each once")
def _() -> None:
    header, properties = b"\x00\x53\x70\x45", b"\x00\x53\x73\x45"
    for payload in (properties + header + text("m"), header + header + text("m"), b"\x00\x53\x79\x45"):
        peer = sender()
        peer.transfer(payload)
        assert answer(peer) == "rejected decode-error", payload


@rule("3.2.1 a header's fields have their types")
def _() -> None:
    peer = sender()
    peer.transfer(b"\x00\x53\x70" + encode([UByte(1)]) + text("m"))
    assert answer(peer) == "rejected decode-error"


@rule("3.2.1 delivery-count of a redelivery")
def _() -> None:
    peer = receiver("m")
    peer.dispose(0, None)
    peer.credit(1, 5, seen=1)
    (payload,) = peer.messages()
    assert payload.endswith(b"m")


RELAY: Final = b"\x00\x53\x73" + encode([None, None, "$none"]) + text("m")


@rule("3.4.3 a message that fails is rejected, or ends a link whose source has no such outcome")
def _() -> None:
    for outcomes, expected in ((None, "rejected not-found"), (["amqp:accepted:list"], "detach not-found")):
        peer = session()
        symbols = outcomes and [Symbol(one) for one in outcomes]
        peer.send(Attach("s", 0, False, source=Source(outcomes=symbols), target=Target(), initial_delivery_count=0))
        peer.take()
        peer.transfer(RELAY)
        assert answer(peer) == expected


@rule("3.4.1 received is no outcome")
def _() -> None:
    peer = receiver("m")
    peer.dispose(0, Received(0, 0), settled=False)
    assert answer(peer) == "-"
    assert peer.gateway.stats("q").in_flight == 1


@rule("3.4 a terminal outcome is settled by us where the receiver has not")
def _() -> None:
    peer = receiver("m", rcv_settle_mode=1)
    peer.dispose(0, Accepted(), settled=False)
    assert answer(peer) == "accepted"


@rule("3.5.1 terminus-durability is 0, 1 or 2")
def _() -> None:
    assert attaching(Source("q", UInt(3))) == "attach, detach invalid-field"
    assert attaching_to(Target("q", UInt(3))) == "attach, detach invalid-field"


@rule("3.5.2 expiry-policy is one of four")
def _() -> None:
    assert attaching(Source("q", expiry_policy=Symbol("some-day"))) == "attach, detach invalid-field"
    assert attaching_to(Target("q", expiry_policy=Symbol("some-day"))) == "attach, detach invalid-field"


@rule("3.5.3 a dynamic source has no address")
def _() -> None:
    assert attaching(Source("q", dynamic=True)) == "attach, detach invalid-field"


@rule("3.5.3 dynamic-node-properties belong to a dynamic source")
def _() -> None:
    properties: dict[Any, Any] = {Symbol("lifetime-policy"): Described(ULong(0x2B), [])}
    assert attaching(Source("q", dynamic_node_properties=properties)) == "attach, detach invalid-field"
    assert attaching(Source(None, dynamic=True, dynamic_node_properties=properties)) == "attach"


@rule("3.5.3 default-outcome is an outcome")
def _() -> None:
    for state in (Received(0, 0), TransactionalState(b"t"), Declared(b"t")):
        assert attaching(Source("q", default_outcome=state)) == "attach, detach invalid-field"


@rule("3.5.4 a dynamic target has no address")
def _() -> None:
    assert attaching_to(Target("q", dynamic=True)) == "attach, detach invalid-field"


@rule("3.5.4 dynamic-node-properties belong to a dynamic target")
def _() -> None:
    assert attaching_to(Target("q", dynamic_node_properties={})) == "attach, detach invalid-field"


@rule("3.5.5 keys of dynamic-node-properties are symbols")
def _() -> None:
    wrong: dict[Any, Any] = {"lifetime-policy": Described(ULong(0x2B), [])}
    assert attaching(Source(None, dynamic=True, dynamic_node_properties=wrong)) == "close decode-error"


@rule("3.5.10 a node that is deleted on close lives on over a detach")
def _() -> None:
    for closed, count in ((None, 1), (True, 0)):
        peer = session()
        peer.send(Attach("made", 0, True, source=Source(None, dynamic=True), target=Target()))
        peer.take()
        peer.send(Detach(0, closed))
        assert answer(peer) == "detach"
        assert len(peer.gateway.temporary_names()) == count


@rule("3.5.9 lifetime-policy is one of four described lists")
def _() -> None:
    values = [Symbol("delete-on-close"), ULong(0x2B), Described(ULong(0x2F), []), Described(ULong(0x2B), "x")]
    for value in values:
        properties: dict[Any, Any] = {Symbol("lifetime-policy"): value}
        dynamic: dict[str, Any] = {"dynamic": True, "dynamic_node_properties": properties}
        assert attaching(Source(None, **dynamic)) == "attach, detach invalid-field", value
        assert attaching_to(Target(None, **dynamic)) == "attach, detach invalid-field", value
    for code in (0x2B, 0x2C, 0x2D, 0x2E):
        properties = {Symbol("lifetime-policy"): Described(ULong(code), [])}
        assert attaching(Source(None, dynamic=True, dynamic_node_properties=properties)) == "attach"
    named: dict[Any, Any] = {Symbol("lifetime-policy"): Described(Symbol("amqp:delete-on-close:list"), [])}
    assert attaching(Source(None, dynamic=True, dynamic_node_properties=named)) == "attach"


@rule("3.5.9 supported-dist-modes is a list of symbols")
def _() -> None:
    properties: dict[Any, Any] = {Symbol("supported-dist-modes"): UInt(1)}
    assert attaching(Source(None, dynamic=True, dynamic_node_properties=properties)) == "attach, detach invalid-field"


@rule("3.5.8 a filter is described or null, its key a symbol")
def _() -> None:
    assert attaching(Source("q", filter={Symbol("f"): "a"})) == "attach, detach invalid-field"
    assert attaching(Source("q", filter={"f": None})) == "attach, detach invalid-field"
    peer = session()
    peer.send(Attach("link", 0, True, source=Source("q", filter={Symbol("f"): None}), target=Target()))
    attach = peer.one(Attach)
    assert attach.source is not None
    assert attach.source.filter is None


# -- part 4, transactions


def coordinator(**fields: Any) -> AmqpPeer:
    """Return a peer with a coordinator on handle 9."""
    peer = session()
    peer.send(
        Attach(
            "txn", 9, False, source=Source(**fields), target=Coordinator(), initial_delivery_count=0, snd_settle_mode=2
        )
    )
    attach, _ = peer.take()
    assert isinstance(attach, Attach)
    return peer


def request(composite: Composite) -> bytes:
    return b"\x00\x53\x77" + encode_composite(composite)


ACCEPTED_ONLY: Final = [Symbol("amqp:accepted:list")]


@rule("4.2 declare is answered with a txn-id")
def _() -> None:
    peer = coordinator()
    peer.transfer(request(Declare()), 9)
    assert answer(peer) == "declared"


@rule("4.2 declare that is sent settled")
def _() -> None:
    peer = coordinator()
    peer.transfer(request(Declare()), 9, settled=True)
    assert answer(peer) == "detach illegal-state"


@rule("4.2 a declare that fails is rejected, or ends a link whose source has no such outcome")
def _() -> None:
    peer = coordinator()
    peer.transfer(request(Declare(b"global")), 9)
    assert answer(peer) == "rejected precondition-failed"
    peer = coordinator(outcomes=ACCEPTED_ONLY)
    peer.transfer(request(Declare(b"global")), 9)
    assert answer(peer) == "detach precondition-failed"


@rule("4.3 discharge that is sent settled")
def _() -> None:
    peer = coordinator()
    peer.transfer(request(Discharge(b"none")), 9, settled=True)
    assert answer(peer) == "detach illegal-state"


@rule("4.3 discharge of an unknown transaction")
def _() -> None:
    peer = coordinator()
    peer.transfer(request(Discharge(b"none")), 9)
    assert answer(peer) == "rejected transaction:unknown-id"


@rule("4.3 discharge of an unknown transaction at a source without the rejected outcome")
def _() -> None:
    peer = coordinator(outcomes=ACCEPTED_ONLY)
    peer.transfer(request(Discharge(b"none")), 9)
    assert answer(peer) == "detach transaction:unknown-id"
    peer = coordinator(outcomes=[Symbol("amqp:accepted:list"), Symbol("amqp:rejected:list")])
    peer.transfer(request(Discharge(b"none")), 9)
    assert answer(peer) == "rejected transaction:unknown-id"


@rule("4.3 a link that ends rolls back what was declared on it")
def _() -> None:
    peer = coordinator(outcomes=ACCEPTED_ONLY)
    peer.transfer(request(Declare()), 9)
    state = peer.one(Disposition).state
    assert isinstance(state, Declared)
    peer.attach_sender("q", 0)
    peer.transfer(text("m"), state=TransactionalState(state.txn_id))
    peer.transfer(request(Discharge(b"none")), 9)
    peer.take()
    assert peer.gateway.stats("q").depth == 0


@rule("4.1 the credit of a coordinator's link is a limit, too")
def _() -> None:
    peer = coordinator()
    with peer.gateway.one_turn():
        for number in range(200):
            peer.send(Transfer(9, number, b"t", 0, more=True), b"")
    assert answer(peer).startswith("detach")
    peer = coordinator()
    for _ in range(300):  # it is topped up meanwhile
        peer.transfer(request(Discharge(b"none")), 9)
        assert answer(peer) == "rejected transaction:unknown-id"


@rule("4.4.1 a transfer in an unknown transaction")
def _() -> None:
    peer = sender()
    peer.transfer(text("m"), state=TransactionalState(b"none"))
    assert answer(peer) == "end transaction:unknown-id"


@rule("4.4.2 an outcome in an unknown transaction")
def _() -> None:
    peer = receiver("m")
    peer.dispose(0, TransactionalState(b"none", Accepted()))
    assert answer(peer) == "end transaction:unknown-id"


@rule("4.4.4 what a link did in a transaction stays when it is detached before the discharge")
def _() -> None:
    peer = receiver("m")
    peer.attach_sender("other", 2)
    peer.attach_coordinator(9)
    peer.transfer(request(Declare()), 9)
    state = peer.one(Disposition).state
    assert isinstance(state, Declared)
    peer.transfer(text("n"), 2, state=TransactionalState(state.txn_id))
    peer.dispose(0, TransactionalState(state.txn_id, Accepted()))
    peer.send(Detach(1, True))
    peer.send(Detach(2, True))
    peer.take()
    peer.transfer(request(Discharge(state.txn_id)), 9)
    assert answer(peer) == "accepted"
    assert (peer.gateway.stats("q").depth, peer.gateway.stats("other").depth) == (0, 1)


@rule("4.4.4 a message that fails spoils its transaction, also where it was sent settled")
def _() -> None:
    for is_settled in (False, True):
        peer = session()
        peer.attach_sender(None, 0)
        peer.attach_coordinator(9)
        peer.transfer(request(Declare()), 9)
        state = peer.one(Disposition).state
        assert isinstance(state, Declared)
        peer.transfer(RELAY, state=TransactionalState(state.txn_id), settled=is_settled)
        assert answer(peer) == ("detach not-found" if is_settled else "rejected not-found")
        peer.transfer(request(Discharge(state.txn_id)), 9)
        assert answer(peer) == "rejected precondition-failed"


@rule("4.4.3 acquisition in a transaction is not done by half")
def _() -> None:
    peer = receiver()
    peer.credit(1, 5, properties={Symbol("txn-id"): b"t"})
    assert answer(peer) == "detach not-implemented"


# -- part 5, security


def sasl() -> AmqpPeer:
    """Return a peer that has been told the mechanisms."""
    peer = AmqpGateway().open_amqp()
    peer.send_octets(protocol_header(SASL_LAYER))
    _, mechanisms = peer.take()
    assert isinstance(mechanisms, SaslMechanisms)
    return peer


@rule("5.3.1 an empty frame inside SASL")
def _() -> None:
    peer = sasl()
    peer.send_octets(b"\x00\x00\x00\x08\x02\x01\x00\x00")
    assert peer.octets == b""
    assert peer.is_closed


@rule("5.3.1 a frame of the other layer inside SASL")
def _() -> None:
    peer = sasl()
    peer.send_octets(encode_frame(0, Open("me")))
    assert peer.is_closed


@rule("5.3.1 octets 6 and 7 of a SASL frame, and its extended header, are passed over")
def _() -> None:
    peer = sasl()
    frame = encode_sasl_frame(SaslInit("ANONYMOUS"))
    peer.send_octets((len(frame) + 4).to_bytes(4, "big") + b"\x03\x01\xff\xff" + b"\x00" * 4 + frame[8:])
    assert peer.one(SaslOutcome).code == 0


@rule("5.3.2 a response without an init, a second init, a frame of the server")
def _() -> None:
    for frames in (
        [SaslResponse(b"")],
        [SaslInit("PLAIN"), SaslInit("PLAIN")],
        [SaslOutcome(0)],
        [SaslMechanisms(["PLAIN"])],
    ):
        peer = sasl()
        for frame in frames:
            peer.send_octets(encode_sasl_frame(frame))
        assert peer.is_closed, frames


@rule("5.3.3 a mechanism that was not offered")
def _() -> None:
    peer = sasl()
    peer.send_octets(encode_sasl_frame(SaslInit("GSSAPI")))
    assert peer.one(SaslOutcome).code == 1
    assert peer.is_closed


@rule("5.3.2 after the outcome the AMQP header comes, and nothing else")
def _() -> None:
    peer = sasl()
    peer.send_octets(encode_sasl_frame(SaslInit("ANONYMOUS")))
    peer.take()
    peer.send_octets(encode_frame(0, Open("me")))
    assert peer.is_closed


# -- nodes


@rule("node: the bare address of a temporary queue that is gone")
def _() -> None:
    gateway = AmqpGateway()
    owner = gateway.amqp_session()
    owner.send(Attach("made", 0, True, source=Source(None, dynamic=True), target=Target()))
    attach = owner.one(Attach)
    assert attach.source is not None
    address = attach.source.address
    peer = gateway.amqp_session(container="other")
    peer.attach_sender(address, 0)
    owner.send(Close())
    for one in (1, 2):
        peer.send(Attach("late", one, False, source=Source(), target=Target(address), initial_delivery_count=0))
        assert answer(peer) == "attach, detach not-found"
    relay = gateway.amqp_session(container="relay")
    relay.attach_sender(None, 0)
    relay.transfer(b"\x00\x53\x73" + encode([None, None, address]) + text("answer"))
    assert answer(relay) == "rejected not-found"
    assert address is not None and not gateway.has_queue(address)


@rule("node: a temporary queue of another connection is locked")
def _() -> None:
    gateway = AmqpGateway()
    owner = gateway.amqp_session()
    owner.send(Attach("made", 0, True, source=Source(None, dynamic=True), target=Target()))
    attach = owner.one(Attach)
    assert attach.source is not None
    peer = gateway.amqp_session(container="other")
    peer.send(Attach("take", 0, True, source=Source(attach.source.address), target=Target()))
    assert answer(peer) == "attach, detach resource-locked"
