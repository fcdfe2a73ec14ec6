"""Message -> sections: the parts that are rewritten on the way out."""

from __future__ import annotations

from collections.abc import Mapping

from engine.backlog.context import Context
from engine.features.scheduler.plan import PROPERTIES as SCHEDULE_PROPERTIES
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values.delivery import Delivery
from engine.values.message import AMQP_1_0, DEFAULT_PRIORITY, INGRESS, JOB_ID, PERSISTENT, Message
from protocols.amqp.v1_0.mapping.amqp_form import amqp_sections, raw_sections
from protocols.amqp.v1_0.mapping.outcomes import added_annotations
from protocols.amqp.v1_0.wire.errors import DecodeError
from protocols.amqp.v1_0.wire.messages.sections import (
    ABSOLUTE_EXPIRY_TIME,
    APPLICATION_PROPERTIES,
    HEADER,
    PROPERTIES,
    end_of,
    section_code,
    split_annotations,
    split_header,
)
from protocols.amqp.v1_0.wire.types.value_decoder import decode
from protocols.amqp.v1_0.wire.types.value_encoder import described_list, encode
from protocols.amqp.v1_0.wire.types.values import Symbol, Timestamp, UByte, UInt, Value
from protocols.broker_headers import ANNOTATION_PREFIX, INGRESS_TIME
from protocols.message_lines import read_lines


def outgoing_sections(
    delivery: Delivery, destination: Queue | Topic, context: Context, form: Message | None = None
) -> tuple[bytes, bytes]:
    """Return the octets of a message whose header changes on the way, in two parts.

    destination: of the message.  form: in STOMP's encoding, of a message of a third protocol.
    The bare message stays as it came, except that a scheduled delivery gets properties of its schedule, and a message
    of the broker's own, as a dead letter, does not expire before it does here.  The header of
    a redelivery has its delivery-count, and first-acquirer false if a consumer had it before, counted or not (messaging
    3.2.1).
    """
    message = delivery.message
    headers, body = message.headers, message.body
    if message.encoding == AMQP_1_0:
        fields, rest = split_header(headers)
        has_ttl = len(fields) > 2 and isinstance(fields[2], UInt)
        has_priority = len(fields) > 1 and isinstance(fields[1], UByte)
    else:
        rest, body = amqp_sections(form or message, destination.kind, destination.name, context.message_id(message))
        has_ttl = True
        has_priority = message.jms_priority() != DEFAULT_PRIORITY
    ttl_ms = max(1, message.expires_ms - context.wall_ms) if has_ttl and message.expires_ms else -1
    header = _header_section(
        bool(message.flags & PERSISTENT),
        message.jms_priority() if has_priority else -1,
        ttl_ms,
        False if delivery.is_redelivered else None,
        delivery.failed_attempts,
    )
    added = {} if delivery.history is None else added_annotations(delivery)
    if message.annotations or added or message.flags & INGRESS:
        annotations, rest = split_annotations(rest)
        annotations.update(added)
        own = read_lines(message.annotations)
        if own and message.encoding == AMQP_1_0:
            rest = with_expiry(rest, message.expires_ms)
        annotations.update({Symbol(ANNOTATION_PREFIX + name): value for name, value in own.items()})
        if JOB_ID in own:
            rest = with_application_properties(rest, {name: own[name] for name in own if _is_of_schedule(name)})
        if message.flags & INGRESS:
            annotations[Symbol(INGRESS_TIME)] = message.store_time_ms
        rest = b"\x00\x53\x72" + encode(annotations) + rest
    return header + rest, body


def last_resort(delivery: Delivery, context: Context) -> tuple[bytes, bytes]:
    """Return a message as it came, behind a safe header: the fallback if ``outgoing_sections`` fails."""
    message = delivery.message
    first_acquirer = False if delivery.is_redelivered else None
    header = _header_section(bool(message.flags & PERSISTENT), -1, -1, first_acquirer, delivery.failed_attempts)
    if message.encoding != AMQP_1_0:
        headers, body = raw_sections(message, context.message_id(message))
        return header + headers, body
    if message.headers[:3] != b"\x00\x53\x70":
        return header + message.headers, message.body
    return header + message.headers[end_of(message.headers, 3) :], message.body


def _is_of_schedule(name: str) -> bool:
    """Say whether a header of the broker must also be a property, because JMS clients do not see annotations.

    The broker itself sends scheduled deliveries, so it may write their bare message.
    Source: ActiveMQ SchedulerBroker, as its AMQP transformer shows it.
    """
    return name == JOB_ID or name in SCHEDULE_PROPERTIES


def with_expiry(sections: bytes, expires_ms: int) -> bytes:
    """Return properties and application-properties, of which the first say no expiry before ``expires_ms`` (0: never).

    JMS clients drop a message whose absolute-expiry-time has passed.
    """
    if not sections:
        return sections
    code, after = section_code(sections, 0)
    if code != PROPERTIES:
        return sections
    found, end = decode(sections, after)
    if not isinstance(found, list) or len(found) <= ABSOLUTE_EXPIRY_TIME:
        return sections
    said = found[ABSOLUTE_EXPIRY_TIME]
    if not isinstance(said, Timestamp) or 0 < expires_ms <= said:
        return sections
    found[ABSOLUTE_EXPIRY_TIME] = Timestamp(expires_ms) if expires_ms else None
    return described_list(PROPERTIES, len(found), b"".join([encode(value) for value in found])) + sections[end:]


def with_application_properties(sections: bytes, added: Mapping[str, str]) -> bytes:
    """Return properties and application-properties, each optional, with some of the latter added.

    Unreadable application-properties stay as they came, with nothing added.
    """
    at = 0
    properties: dict[Value, Value] = {}
    kept: list[bytes] = []
    while at < len(sections):
        code, after = section_code(sections, at)
        end = end_of(sections, after)
        if code == APPLICATION_PROPERTIES:
            try:
                found, _ = decode(sections, after)
            except DecodeError:
                return sections
            if isinstance(found, dict):
                properties = found
        else:
            kept.append(sections[at:end])
        at = end
    properties.update(added)
    return b"".join(kept) + b"\x00\x53\x74" + encode(properties)


def _header_section(
    is_durable: bool, priority: int, ttl_ms: int, first_acquirer: bool | None, delivery_count: int
) -> bytes:
    """Return a header.  priority, ttl_ms: -1 to leave it out."""
    fields: list[bytes] = [
        encode(True if is_durable else None),
        encode(None if priority < 0 else UByte(priority)),
        encode(None if ttl_ms < 0 else UInt(min(ttl_ms, 2**32 - 1))),
        encode(first_acquirer),
        encode(UInt(delivery_count) if delivery_count else None),
    ]
    while fields and fields[-1] == b"\x40":
        fields.pop()
    return described_list(HEADER, len(fields), b"".join(fields)) if fields else b""
