"""Well-formed AMQP frames and messages with any value in any field, drawn from a seed."""

from __future__ import annotations

import random
from typing import Any, Final

from protocols.amqp.v1_0.wire.composites.composite import Composite, Error
from protocols.amqp.v1_0.wire.composites.delivery_states import (
    Accepted,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
)
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
from protocols.amqp.v1_0.wire.composites.sasl_frames import SaslInit, SaslResponse
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.composites.transaction_types import Coordinator, Declare, Discharge
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.messages import sections as at
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Byte, Described, Symbol, Timestamp, UByte, UInt, ULong
from tests.support.protocols.amqp_composites import described_of
from tests.support.protocols.amqp_stream import composite
from tests.support.typed.typed_values import NUMBERS, TEXTS, odd_key, odd_octets, odd_value

ANNOTATIONS: Final = (
    *("x-opt-jms-dest", "x-opt-jms-reply-to", "x-opt-jms-msg-type", "x-opt-ingress-time", "x-opt-delivery-delay"),
    *("x-opt-delivery-time", "x-opt-delivery-period", "x-opt-delivery-repeat", "x-opt-delivery-cron", "x-opt-other"),
)
PROPERTIES: Final = (
    *(
        "AMQ_SCHEDULED_DELAY",
        "AMQ_SCHEDULED_PERIOD",
        "AMQ_SCHEDULED_REPEAT",
        "AMQ_SCHEDULED_CRON",
        "AMQ_SCHEDULED_TIME",
    ),
    *("_AMQ_SCHED_DELIVERY", "AMQ_SCHEDULER_ACTION", "a", "b", "keys", "JMSXGroupSeq", "destination", "message-id"),
)
FILTERS: Final = (
    *("apache.org:selector-filter:string", "apache.org:no-local-filter:list", "penstock:from-offset"),
    *("penstock:from-time", "penstock:from-id", "rabbitmq:stream-offset-spec", "unknown:filter"),
)
ADDRESSES: Final = (
    "topic://t",
    "queue://q",
    "queue://kept",
    "queue://full",
    "topic://VirtualTopic.v",
    "queue://q,topic://t",
)


def message(draw: random.Random) -> bytes:
    """Return the sections of a message; most of its fields are valid."""
    parts = []
    if draw.randrange(4):
        header = [
            draw.choice((True, True, False, None)),
            UByte(draw.randrange(12)),
            draw.choice((None, UInt(2**32 - 1))),
        ]
        parts.append(
            _list(draw, at.HEADER, [*header, draw.choice((None, True)), draw.choice((None, UInt(2**32 - 1)))], 8)
        )
    if not draw.randrange(6):
        parts.append(_map(draw, at.DELIVERY_ANNOTATIONS, ANNOTATIONS))
    if draw.randrange(2):
        parts.append(_map(draw, at.MESSAGE_ANNOTATIONS, ANNOTATIONS))
    if draw.randrange(3):
        properties: list[Any] = ["id", b"me", draw.choice(ADDRESSES), "type", "queue://q", "c", Symbol("text/plain")]
        expiry = draw.choice((None, Timestamp(2**63 - 1), Timestamp(1_900_000_000_000), Timestamp(-1)))
        properties += [Symbol("gzip"), expiry, draw.choice((None, Timestamp(-(2**63)))), "g", UInt(7), "r"]
        parts.append(_list(draw, at.PROPERTIES, properties[: draw.randrange(14)], 3))
    if draw.randrange(2):
        parts.append(_map(draw, at.APPLICATION_PROPERTIES, PROPERTIES))
    for _ in range(draw.choice((0, 1, 1, 1, 2))):
        code = draw.choice((at.DATA, at.SEQUENCE, at.VALUE))
        usual = {at.DATA: b"data", at.SEQUENCE: [1, "a"], at.VALUE: "text"}[code]
        parts.append(_section(code, encode(usual) if draw.randrange(2) else odd_octets(draw)))
    if not draw.randrange(8):
        parts.append(_map(draw, at.FOOTER, ANNOTATIONS))
    return b"".join(parts)


def performative(draw: random.Random) -> tuple[bytes, bytes]:
    """Return a frame's body with some fields of any type, and a payload."""
    frame = draw.choice(_FRAMES)(draw)
    return odd_fields(draw, frame), message(draw) if isinstance(frame, Transfer) else b""


def sasl(draw: random.Random) -> bytes:
    kind = draw.choice((SaslInit("PLAIN", b"\0me\0secret"), SaslInit("ANONYMOUS"), SaslResponse(b"x")))
    return odd_fields(draw, kind)


def request(draw: random.Random) -> bytes:
    """Return a message to the coordinator."""
    body = draw.choice((Declare(), Discharge(b"\0" * 7 + b"\1", draw.choice((None, True, False)))))
    return _section(at.VALUE, odd_fields(draw, body))


def odd_fields(draw: random.Random, frame: Composite) -> bytes:
    """Return ``frame`` with odd values in some of its fields, or in some of their fields."""
    return _odd_list(draw, frame.CODE, described_of(frame).value, len(frame.FIELDS))


def _odd_list(draw: random.Random, code: int, fields: list[Any], count: int) -> bytes:
    odd = draw.sample(range(count), min(count, draw.choice((0, 0, 1, 1, 2))))
    octets: list[bytes] = []
    for index, field in enumerate([*fields, *[None] * (count - len(fields))]):
        if index in odd:
            octets.append(odd_octets(draw))
        elif isinstance(field, Described) and isinstance(field.value, list) and not draw.randrange(3):
            octets.append(_odd_list(draw, int(field.descriptor), field.value, len(field.value)))
        else:
            octets.append(encode(field))
    return composite(code, *octets)


def filters(draw: random.Random) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for _ in range(draw.randrange(1, 3)):
        descriptor = draw.choice((Symbol(draw.choice(FILTERS)), ULong(0x0000468C00000004), odd_value(draw)))
        value = draw.choice((odd_value(draw), "a = 1", draw.choice(NUMBERS), draw.choice(TEXTS)))
        found[Symbol(draw.choice(FILTERS))] = Described(descriptor, value)
    return found


def source(draw: random.Random) -> Source:
    asked = filters(draw) if draw.randrange(2) else None
    mode = draw.choice((None, "copy", "move"))
    durable = UInt(draw.choice((0, 0, 1, 2)))
    return Source(draw.choice((*ADDRESSES, None)), durable, distribution_mode=mode, filter=asked)


def state(draw: random.Random) -> Any:
    txn_id = draw.choice((b"\0" * 7 + b"\1", b"", b"none"))
    annotations = {Symbol(draw.choice(ANNOTATIONS)): odd_value(draw) for _ in range(draw.randrange(3))}
    return draw.choice(
        (
            Accepted(),
            Released(),
            Rejected(Error("x:y", draw.choice(TEXTS), {Symbol("k"): odd_value(draw)})),
            Modified(True, True, annotations),
            Modified(True, False, annotations),
            Received(UInt(0), ULong(2**64 - 1)),
            TransactionalState(txn_id, Accepted()),
            TransactionalState(txn_id, Modified(True, None, annotations)),
            None,
        )
    )


def _attach(draw: random.Random) -> Attach:
    handle = draw.choice((20, 21, 22, draw.randrange(2**32)))
    if draw.randrange(2):
        return Attach(f"r{handle}", handle, True, source=source(draw), target=Target())
    target = draw.choice((Target(draw.choice((*ADDRESSES, None))), Target(dynamic=True), Coordinator()))
    return Attach(f"s{handle}", handle, False, source=Source(), target=target, initial_delivery_count=2**32 - 1)


def _disposition(draw: random.Random) -> Disposition:
    first = draw.choice((0, 1, 2, 2**32 - 1))
    last = draw.choice((None, first, 5, 2**32 - 1))
    return Disposition(draw.choice((True, True, False)), first, last, draw.choice((None, True, False)), state(draw))


def _flow(draw: random.Random) -> Flow:
    handle = draw.choice((None, 1, 2, 3, 77))
    any_uint = (0, 1, 100, 2**31, 2**32 - 1)
    return Flow(
        0, draw.choice(any_uint), 0, draw.choice(any_uint), handle, draw.choice(any_uint), draw.choice(any_uint)
    )


def _transfer(draw: random.Random) -> Transfer:
    more, aborted = draw.choice((None, None, True)), draw.choice((None, None, True))
    numbers = draw.choice((0, 1, 2**32 - 1))
    return Transfer(
        draw.choice((2, 3, 4, 9)), numbers, b"t", 0, draw.choice((None, True)), more, state=state(draw), aborted=aborted
    )


_FRAMES: Final = (
    _attach,
    _attach,
    _attach,
    _disposition,
    _disposition,
    _flow,
    _transfer,
    lambda draw: Begin(None, draw.choice((0, 2**32 - 1)), draw.choice((0, 2**32 - 1)), 1_000),
    lambda draw: Detach(draw.choice((1, 2, 3)), draw.choice((None, True))),
    lambda draw: End(draw.choice((None, Error("a:b", "c", {Symbol("k"): odd_value(draw)})))),
    lambda draw: Close(draw.choice((None, Error("a:b", draw.choice(TEXTS))))),
    lambda draw: Open("again", idle_time_out=draw.choice((None, 0, 1, 2**32 - 1))),
)


def open_with(draw: random.Random) -> bytes:
    """Return an open with an odd field in some cases."""
    size = draw.choice((None, 0, 511, 512, 2**32 - 1))
    return odd_fields(draw, Open("typed", None, size, draw.choice((None, 0, 65_535)), idle_time_out=2**32 - 1))


def erring_sessions(count: int) -> bytes:
    """Return sessions that begin, get an error, and end, one after the other on one channel."""
    one = (Begin(None, 0, 100, 100), Detach(7, True), End())
    return b"".join(encode_frame(9, frame) for frame in one) * count


def target(address: str | None) -> Target:
    return Target(address)


OPENING: Final = tuple(
    encode_frame(0, frame)
    for frame in (
        Begin(None, 0, 1_000, 1_000),
        Attach("in", 2, False, source=Source(), target=Target("topic://t"), initial_delivery_count=0),
        Attach("relay", 3, False, source=Source(), target=Target(None), initial_delivery_count=0),
        Attach("txn", 4, False, source=Source(), target=Coordinator(), initial_delivery_count=0),
        Attach("out", 1, True, source=Source("queue://q"), target=Target()),
        Flow(0, 1_000, 0, 1_000, 1, 0, 3),
    )
) + (encode_frame(0, Transfer(4, 0, b"t", 0), b"\x00\x53\x77" + encode(described_of(Declare()))),)


def _section(code: int, octets: bytes) -> bytes:
    return b"\x00\x53" + bytes((code,)) + octets


def _list(draw: random.Random, code: int, fields: list[Any], one_in: int) -> bytes:
    octets = [encode(field) if draw.randrange(one_in) else odd_octets(draw) for field in fields]
    return composite(code, *octets)


def _map(draw: random.Random, code: int, names: tuple[str, ...]) -> bytes:
    """Return a section that is a map, or another value."""
    if not draw.randrange(6):
        return _section(code, odd_octets(draw))
    is_property = code == at.APPLICATION_PROPERTIES
    pairs: dict[Any, Any] = {}
    for _ in range(draw.randrange(4)):
        name = draw.choice(names)
        key = odd_key(draw) if not draw.randrange(6) else name if is_property else Symbol(name)
        pairs[key] = draw.choice((odd_value(draw), draw.choice(NUMBERS), draw.choice(TEXTS), Byte(1)))
    if not draw.randrange(5):  # soon enough to fire during the run
        pairs["AMQ_SCHEDULED_DELAY" if is_property else Symbol("x-opt-delivery-delay")] = draw.choice((1, 120, 1_000))
    return _section(code, encode(pairs))
