"""What AMQP 1.0 says must be, must not be or is an error: part 2, transport: links, flow and deliveries.

Where the gateway takes more than it must, or does otherwise, is told in test_amqp10_transport_rules.py.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Detach, Disposition, Flow, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.types.values import Described, Symbol, UInt, ULong
from tests.support.protocols.amqp_gateway import AmqpGateway, text
from tests.support.protocols.amqp_rules import (
    FIRST,
    MESSAGE,
    REST,
    Exchange,
    Rules,
    answer,
    attaching,
    attaching_to,
    consuming,
    depth,
    disposed,
    framed,
    in_flight,
    published,
    receiver,
    sender,
    sent,
    session,
    small_frames,
    typed,
)

RULES: Final = Rules()
rule = RULES.rule


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
    peer = sender()
    peer.publish("a", "b")
    peer.attach_receiver("q", 1)
    peer.credit(1, 7, drain=True)
    *transfers, flow = peer.take()
    assert len(transfers) == 2
    assert isinstance(flow, Flow)
    assert (flow.link_credit, flow.delivery_count, flow.drain) == (0, 7, True)
    peer.publish("c")
    assert peer.take() == []
    peer.credit(1, 1, seen=7)
    assert len(peer.transfers()) == 1


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


@rule("2.7.4 echo asks for a flow, of a session, a sender, a receiver and a coordinator")
def _() -> None:
    peer = receiver()
    peer.attach_coordinator(9)
    for handle in (None, 0, 1, 9):
        peer.send(Flow(0, 100, 0, 100, handle, echo=True))
        assert peer.one(Flow).handle == handle


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
            transfer = Transfer(0, 0, b"t", 0) if number == 0 else Transfer(0)
            peer.send(replace(transfer, settled=True if number == place else None, more=number < 2), part)
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


INVALID: Final = "detach invalid-field"
NULL_KEY: Final[dict[Any, Any]] = {None: None}
REFUSED: Final = "attach, detach invalid-field"
EXCHANGES: Final[dict[str, list[Exchange]]] = {
    "2.6.2 a handle that is in use": [
        (sender, Attach("other", 0, True, source=Source("q"), target=Target()), "end session:handle-in-use")
    ],
    "2.6.3 a receiver without a target, a sender without a source": [
        (session, Attach("r", 0, True, source=Source("q")), "attach"),
        (session, Attach("s", 1, False, target=Target("q"), initial_delivery_count=0), "attach"),
    ],
    "2.6.5 what comes on a link that has ended for an error changes nothing, until the peer has detached it": [
        (
            *(sender, sent(b"no message", settled=True), "detach decode-error"),
            *(sent(), Flow(0, 1, 0, 1, 0, 0, 1), "-", depth(0)),
            Attach("again", 0, False, source=Source(), target=Target("q"), initial_delivery_count=0),
            "end session:handle-in-use",
        ),
        (
            *(sender, (Transfer(0, None, b"t", 0), MESSAGE), INVALID, sent(), "-", Detach(0, True), "-"),
            *(Attach("again", 0, False, source=Source(), target=Target("q"), initial_delivery_count=0), "attach"),
        ),
    ],
    "2.6.6 a handle is free again once it is detached": [
        (sender, Detach(0, True), "detach", Attach("r", 0, True, source=Source("q"), target=Target()), "attach")
    ],
    "2.7.3 unsettled has no key that is null": [
        (session, Attach("r", 0, True, source=Source("q"), target=Target(), unsettled=NULL_KEY), REFUSED)
    ],
    "2.7.4 a flow of a session says nothing of a link": [
        (session, Flow(0, 1, 0, 1, delivery_count=0), "end invalid-field"),
        (session, Flow(0, 1, 0, 1, link_credit=1), "end invalid-field"),
        (session, Flow(0, 1, 0, 1, available=1), "end invalid-field"),
        (session, Flow(0, 1, 0, 1, drain=True), "end invalid-field"),
        (session, Flow(0, 1, 0, 1, drain=False), "-"),
    ],
    "2.7.4 a flow for a handle that is not attached": [
        (session, Flow(0, 1, 0, 1, 5, 0, 1), "end session:unattached-handle")
    ],
    "2.7.5 a delivery-id that differs within a delivery": [(sender, FIRST, (Transfer(0, 1, more=True), REST), INVALID)],
    "2.7.5 a delivery-tag that differs within a delivery": [(sender, FIRST, (Transfer(0, None, b"u"), REST), INVALID)],
    "2.7.5 a message-format that differs within a delivery": [
        (sender, FIRST, (Transfer(0, None, None, 1), REST), INVALID)
    ],
    "2.7.5 continuing transfers may repeat what the first said, or leave it out": [
        (sender, FIRST, (Transfer(0, 0, b"t", 0, more=True), REST[:1]), (Transfer(0), REST[1:]), "accepted")
    ],
    "2.7.5 a first transfer without delivery-id or delivery-tag": [
        (sender, (transfer, MESSAGE), INVALID) for transfer in (Transfer(0, None, b"t", 0), Transfer(0, 0, None, 0))
    ],
    "2.7.5 a settled transfer of a link whose sender settles nothing": [
        (partial(sender, snd_settle_mode=0), sent(settled=True), INVALID),
        (partial(sender, snd_settle_mode=0), Transfer(0, 0, b"t", 0, settled=True, aborted=True), "-"),
    ],
    "2.7.5 a settled transfer on a later frame of a link whose sender settles nothing": [
        (partial(sender, snd_settle_mode=0), FIRST, (Transfer(0, settled=True), REST), INVALID)
    ],
    "2.7.5 rcv-settle-mode second on a transfer of a first-mode link": [
        (sender, sent(rcv_settle_mode=1), INVALID),
        (sender, sent(rcv_settle_mode=1, settled=True), "-"),  # then it is ignored
    ],
    "2.7.5 rcv-settle-mode first on a transfer of a second-mode link": [
        (partial(sender, rcv_settle_mode=1), sent(rcv_settle_mode=0), "accepted", sent(), "accepted unsettled")
    ],
    "2.7.5 rcv-settle-mode second: the outcome is told unsettled, and settled by the peer": [
        (
            *(partial(sender, rcv_settle_mode=1), sent(), "accepted unsettled"),
            *(Disposition(False, 0, None, True, Accepted()), "-"),
        ),
        (partial(receiver, "m", rcv_settle_mode=1), disposed(0, settled=False), "accepted"),
    ],
    "2.7.5 a delivery that is aborted is dropped, and settled": [
        (sender, FIRST, Transfer(0, aborted=True), "-", sent(), "accepted")
    ],
    "2.7.5 a resumed delivery of which nothing is known": [(sender, sent(resume=True), "rejected not-implemented")],
    "2.7.5 a transfer on a handle that is not attached": [(session, sent(handle=5), "end session:unattached-handle")],
    "2.6.7 a credit that is lowered below what was sent stops the link": [
        (partial(receiver, "a", "b"), Flow(0, 100, 0, 100, 1, 0, 1), published("c"), "-", depth(3))
    ],
    "2.7.3 a max-message-size of 0 is no limit": [
        (
            sender,
            sent(),
            "accepted",
            consuming(credit=1, max_message_size=0),
            "transfer",
        )
    ],
    "2.7.6 a state is a delivery state": [
        (partial(receiver, "m"), framed(0x15, True, UInt(0), UInt(0), False, state), "close decode-error")
        for state in ("accepted", typed(0x99), typed(0x28, "q"), typed(0x34), typed(0x23))
    ],
    "2.7.6 a disposition of deliveries that were never made changes nothing": [
        (partial(receiver, "m"), disposed(100, last=200), "-", in_flight(1)),
    ],
    "2.7.6 a disposition reaches all links of the session, and passes over what is settled": [
        (partial(receiver, "a", "b"), disposed(0), disposed(0, last=1_000), "-", depth(0))
    ],
    "2.7.6 a disposition is about deliveries of the direction that its role says": [
        (partial(receiver, "m"), Disposition(False, 0, None, True, Accepted()), "-", in_flight(1))
    ],
    "2.7.6 a range that ends before it begins has nothing in it": [
        (
            *(partial(receiver, *"abcdefg"), disposed(5, last=3), "-", in_flight(7)),
            *(disposed(2**32 - 2, last=1), "-", in_flight(5)),
        )
    ],
    "2.7.6 what a link that is detached had sent is with others at once": [
        (partial(receiver, "m"), Detach(1, closed), "detach", disposed(0), "-", in_flight(0), depth(1))
        for closed in (None, True)
    ],
    "2.7.7 a detach for a handle that is not attached": [(session, Detach(5), "end session:unattached-handle")],
    "2.8.7 a delivery-tag above 32 octets": [
        (sender, (Transfer(0, 0, b"t" * 33, 0), MESSAGE), INVALID),
        (sender, (Transfer(0, 0, b"t" * 32, 0), MESSAGE), "accepted"),
    ],
}
RULES.exchanges(EXCHANGES)


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str) -> None:
    RULES[name]()
