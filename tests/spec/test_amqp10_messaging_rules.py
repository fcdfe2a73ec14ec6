"""What AMQP 1.0 says must be, must not be or is an error: part 3, messaging; and what nodes are here.

Taken although the specification says otherwise, for peers that are there: no body or a mixture of body sections, keys
and values of annotations and application-properties of any type, and fields of the properties that the gateway does
not look at (the bare message is the sender's own); annotations that nobody knows, whatever they begin with, are passed
on, where the link should end.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pytest

from protocols.amqp.v1_0.mapping.contents import read_contents
from protocols.amqp.v1_0.wire.composites.delivery_states import (
    Accepted,
    Declared,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
)
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Close, Detach
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.messages.sections import CONTENT_ENCODING, DATA, VALUE
from protocols.amqp.v1_0.wire.types.value_decoder import decode
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Described, Symbol, UByte, UInt, ULong
from tests.support.protocols.amqp_gateway import AmqpGateway, queue_of, text
from tests.support.protocols.amqp_rules import (
    MESSAGE,
    RELAY,
    Exchange,
    Rules,
    answer,
    attaching,
    attaching_to,
    depth,
    disposed,
    framed,
    in_flight,
    receiver,
    sender,
    sent,
    session,
    typed,
)

RULES: Final = Rules()
rule = RULES.rule


@rule("3.2.1 delivery-count of a redelivery")
def _() -> None:
    peer = receiver("m")
    peer.dispose(0, None)
    peer.credit(1, 5, seen=1)
    (payload,) = peer.messages()
    assert payload.endswith(b"m")


@rule("3.4.3 a message that fails is rejected, or ends a link whose source has no such outcome")
def _() -> None:
    for outcomes, expected in ((None, "rejected not-found"), (["amqp:accepted:list"], "detach not-found")):
        peer = session()
        symbols = outcomes and [Symbol(one) for one in outcomes]
        peer.send(Attach("s", 0, False, source=Source(outcomes=symbols), target=Target(), initial_delivery_count=0))
        peer.take()
        peer.transfer(RELAY)
        assert answer(peer) == expected


@rule("3.5.5 terminus-durability is 0, 1 or 2")
def _() -> None:
    assert attaching(Source("q", UInt(3))) == "attach, detach invalid-field"
    assert attaching_to(Target("q", UInt(3))) == "attach, detach invalid-field"


@rule("3.5.6 expiry-policy is one of four")
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


@rule("3.5.9 keys of dynamic-node-properties are symbols")
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


@rule("node: the bare address of a temporary queue that is gone is none of an ordinary queue of that name")
def _() -> None:
    for prefix in ("queue://", "topic://"):
        gateway = AmqpGateway()
        peer = gateway.amqp_session()
        peer.attach_sender(f"{prefix}ID:1-2:1", 0)
        peer.send(Attach("late", 1, False, source=Source(), target=Target("ID:1-2:1"), initial_delivery_count=0))
        assert answer(peer) == "attach, detach not-found", prefix


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


@rule("3.2 the bare message is passed on as it is, octet by octet")
def _() -> None:
    bare = b"\x00\x53\x73" + encode([b"id", None, "q"]) + b"\x00\x53\x74" + encode({"b": 1, "a": [1]}) + text("m")
    peer = sender()
    peer.transfer(bare)
    peer.take()
    peer.attach_receiver("q", 1, credit=1)
    assert peer.messages() == [bare]
    peer.dispose(0, Modified(True))
    peer.gateway.advance(10_000)
    peer.credit(1, 5, seen=1)
    assert peer.messages()[0].endswith(bare)


@rule("3.2.1 without a header a message has the defaults")
def _() -> None:
    peer = sender()
    peer.transfer(text("m"))
    reader = peer.gateway.subscriber("/queue/q", "auto")
    (message,) = reader.messages()
    assert (message.headers.get("persistent"), message["priority"], message["expires"]) == (None, "4", "0")


@rule("3.2.1 priorities above 9 are as 9")
def _() -> None:
    peer = sender()
    for priority, body in ((9, "a"), (200, "b"), (10, "c"), (8, "d")):
        peer.transfer(b"\x00\x53\x70" + encode([None, UByte(priority)]) + text(body))
    peer.take()
    peer.attach_receiver("q", 1, credit=9)
    assert b"".join(payload[-1:] for payload in peer.messages()) == b"abcd"


@rule("3.2.1 a durable message is there after a restart")
def _() -> None:
    gateway, peer = queue_of("m", durable=True, is_restartable=True)
    peer = AmqpGateway(earlier=gateway).amqp_session()
    peer.attach_receiver("q", credit=1)
    assert len(peer.messages()) == 1


@rule("3.2.1 first-acquirer is true of no message that another link has had")
def _() -> None:
    peer = sender()
    peer.transfer(b"\x00\x53\x70" + encode([None, None, None, True]) + text("m"))
    peer.take()
    peer.attach_receiver("q", 1, credit=1)
    peer.take()
    peer.dispose(0, Released())
    peer.credit(1, 5, seen=1)
    (payload,) = peer.messages()
    header, _ = decode(payload)
    assert isinstance(header, Described) and isinstance(header.value, list)
    assert header.value[3:4] in ([False], [])


@rule("3.2.2 delivery-annotations are for us; 3.2.3 message-annotations and 3.2.9 the footer are passed on")
def _() -> None:
    peer = sender()
    annotations = b"\x00\x53\x72" + encode({Symbol("unknown"): 1, Symbol("x-opt-unknown"): 2})
    footer = b"\x00\x53\x78" + encode({Symbol("sum"): 3})
    peer.transfer(b"\x00\x53\x71" + encode({Symbol("hop"): 1}) + annotations + text("m") + footer)
    assert answer(peer) == "accepted"
    peer.attach_receiver("q", 1, credit=1)
    assert peer.messages() == [annotations + text("m") + footer]


@rule("3.2.4 content-encoding is set for data alone, and never identity")
def _() -> None:
    gateway = AmqpGateway()
    sent = gateway.connect()
    for encoding in ("gzip", "identity"):
        for kind in ("text", "bytes"):
            sent.publish("/queue/q", b"body", **{"content-encoding": encoding, "amq-msg-type": kind})
    peer = gateway.amqp_session()
    peer.attach_receiver("q", 1, credit=5)
    found = []
    for payload in peer.messages():
        contents = read_contents(payload, payload)
        found.append((contents.body_kind, contents.field(CONTENT_ENCODING)))
    assert found == [(VALUE, None), (DATA, "gzip"), (VALUE, None), (DATA, None)]


def delivery_count(payload: bytes) -> int:
    header, _ = decode(payload)
    assert isinstance(header, Described) and isinstance(header.value, list)
    if header.descriptor != 0x70 or len(header.value) < 5:
        return 0
    counted = header.value[4]
    assert isinstance(counted, int)
    return counted


@rule("3.4.4 released counts nothing; 3.4.5 modified counts what has failed")
def _() -> None:
    for outcome, counted in ((Released(), 0), (Modified(), 0), (Modified(False), 0), (Modified(True), 1)):
        peer = receiver("m")
        peer.dispose(0, outcome)
        peer.gateway.advance(10_000)
        peer.credit(1, 5, seen=1)
        (payload,) = peer.messages()
        assert delivery_count(payload) == counted, outcome


@rule("3.4.5 undeliverable-here is not for that link again")
def _() -> None:
    peer = receiver("m")
    peer.dispose(0, Modified(None, True))
    peer.credit(1, 5, seen=1)
    assert answer(peer) == "-"
    peer.attach_receiver("q", 2, credit=1)
    assert len(peer.messages()) == 1


@rule("3.4.5 message-annotations of modified replace those of their names and are added to the others")
def _() -> None:
    peer = sender()
    peer.transfer(b"\x00\x53\x72" + encode({Symbol("x-opt-a"): 1, Symbol("x-opt-b"): 2}) + text("m"))
    peer.take()
    peer.attach_receiver("q", 1, credit=1)
    peer.take()
    added: dict[Any, Any] = {Symbol("x-opt-b"): 3, Symbol("x-opt-c"): 4}
    peer.dispose(0, Modified(None, None, added))
    peer.credit(1, 5, seen=1)
    (payload,) = peer.messages()
    contents = read_contents(payload, payload)
    assert contents.annotations == {"x-opt-a": 1, "x-opt-b": 3, "x-opt-c": 4}


@rule("3.5.2 the sending end names its distribution-mode")
def _() -> None:
    for source, mode in (
        (Source("q"), "move"),
        (Source("q", distribution_mode=Symbol("move")), "move"),
        (Source("q", distribution_mode=Symbol("copy")), "copy"),
        (Source("q", distribution_mode=Symbol("unknown")), "move"),
        (Source("topic://t"), "copy"),
        (Source("topic://t", distribution_mode=Symbol("move")), "copy"),
    ):
        peer = session()
        peer.send(Attach("r", 0, True, source=source, target=Target()))
        answered = peer.one(Attach).source
        assert answered is not None and answered.distribution_mode == mode, source


@rule("3.5.2 a browser takes nothing, and gets nothing twice")
def _() -> None:
    peer = sender()
    peer.publish(*"ab")
    peer.attach_receiver("q", 1, credit=10, of_source={"distribution_mode": Symbol("copy")})
    assert len(peer.messages()) == 2
    peer.dispose(0, Accepted(), last=1)
    peer.credit(1, 10, seen=2)
    assert (answer(peer), peer.gateway.stats("q").depth) == ("-", 2)


@rule("3.5.3 outcomes are symbols of outcomes")
def _() -> None:
    for name in ("amqp:received:list", "amqp:nonsense:list", "accepted"):
        assert attaching(Source("q", outcomes=[Symbol(name)])) == "attach, detach invalid-field", name
    known = [Symbol(f"amqp:{one}:list") for one in ("accepted", "rejected", "released", "modified", "declared")]
    assert attaching(Source("q", outcomes=[*known])) == "attach"


@rule("3.5.3 and 3.5.4 a dynamic node is answered with its address and its lifetime")
def _() -> None:
    made: dict[Any, Any] = {Symbol("lifetime-policy"): Described(ULong(0x2C), [])}
    peer = session()
    peer.send(Attach("r", 0, True, source=Source(None, dynamic=True, dynamic_node_properties=made), target=Target()))
    peer.send(Attach("s", 1, False, source=Source(), target=Target(None, dynamic=True), initial_delivery_count=0))
    for frame in peer.take():
        if not isinstance(frame, Attach):
            continue
        terminus = frame.source if frame.role is False else frame.target
        assert isinstance(terminus, Source | Target)
        assert terminus.dynamic and terminus.address
        assert terminus.dynamic_node_properties == {"lifetime-policy": Described(ULong(0x2B), [])}


HEADER: Final = b"\x00\x53\x70\x45"
PROPERTIES: Final = b"\x00\x53\x73\x45"
EXCHANGES: Final[dict[str, list[Exchange]]] = {
    "3.5.3 a source is a source, and 3.5.4 a target a target": [
        (session, framed(0x12, "l", UInt(0), role, None, None, source, target), "close decode-error")
        for role, source, target in (
            (True, typed(0x29, "q"), typed(0x29)),
            (True, typed(0x30), typed(0x29)),
            (True, typed(0x28, UInt(5)), typed(0x29)),
            (False, typed(0x28), typed(0x28, "q")),
            (False, typed(0x28), "q"),
        )
    ],
    "3.2 sections of a message come in their order, each once": [
        (sender, sent(payload), "rejected decode-error")
        for payload in (PROPERTIES + HEADER + MESSAGE, HEADER + HEADER + MESSAGE, b"\x00\x53\x79\x45")
    ],
    "3.2.1 a header's fields have their types": [
        (sender, sent(b"\x00\x53\x70" + encode([UByte(1)]) + MESSAGE), "rejected decode-error")
    ],
    "3.2.4 fields of the properties have their types": [
        (sender, sent(b"\x00\x53\x73" + encode([None] * place + [7]) + MESSAGE), "rejected decode-error")
        for place in (2, 3, 10)  # to, subject, group-id
    ],
    "3.4 a terminal outcome is settled by us where the receiver has not": [
        (partial(receiver, "m", rcv_settle_mode=1), disposed(0, settled=False), "accepted")
    ],
    "3.4.1 received is no outcome": [
        (partial(receiver, "m"), disposed(0, Received(0, 0), settled=False), "-", in_flight(1))
    ],
    "3.4.3 rejected is the end of a message here": [
        (partial(receiver, "m"), disposed(0, Rejected()), depth(0), depth(1, "ActiveMQ.DLQ"))
    ],
    "3.5.3 the default-outcome is that of what is settled without one": [
        (partial(receiver, "m", of_source={"default_outcome": outcome}), disposed(0, None), depth(left))
        for outcome, left in ((None, 1), (Released(), 1), (Accepted(), 0))
    ],
}
RULES.exchanges(EXCHANGES)


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str) -> None:
    RULES[name]()
