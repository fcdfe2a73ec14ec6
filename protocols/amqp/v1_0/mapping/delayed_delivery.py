"""Message-annotations and application-properties that ask for a later delivery (docs/reference/schedule.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.features.scheduler.plan import ANNOTATIONS, PROPERTIES, Plan, ScheduleLimits, plan_of
from protocols.amqp.v1_0.wire.messages.sections import APPLICATION_PROPERTIES, MESSAGE_ANNOTATIONS, SECTION_CODES
from protocols.amqp.v1_0.wire.types.value_decoder import decode
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Described, Symbol, Value

DELAYED_DELIVERY: Final = "DELAYED_DELIVERY"  # the capability, of a connection or of a producer's link
DELIVERY_TIME: Final = "x-opt-delivery-time"  # is kept: receivers see it as JMSDeliveryTime

_ASKING: Final[Mapping[int, Mapping[str, str]]] = {MESSAGE_ANNOTATIONS: ANNOTATIONS, APPLICATION_PROPERTIES: PROPERTIES}


def plan_in(headers: bytes, limits: ScheduleLimits, now_ms: int) -> tuple[Plan | None, bytes]:
    """Return the plan that a message's sections ask for, and the sections without that request.

    Without a request the plan is None and the sections are unchanged.  Raises: InvalidOption, DecodeError.
    """
    asked: dict[str, str] = {}
    kept: list[bytes] = []
    at = 0
    while at < len(headers):
        section, end = decode(headers, at)
        octets = headers[at:end]
        at = end
        if isinstance(section, Described) and isinstance(section.value, dict):
            descriptor = section.descriptor
            code = SECTION_CODES.get(descriptor, 0) if isinstance(descriptor, Symbol) else int(descriptor or 0)
            names = _ASKING.get(code, {})
            fields: dict[Value, Value] = section.value
            found = [name for name in fields if name in names]
            if found:
                asked.update({str(name): _text(fields[name]) for name in found})
                left = {name: value for name, value in fields.items() if name not in names or name == DELIVERY_TIME}
                octets = bytes((0, 0x53, code)) + encode(left) if left else b""
        kept.append(octets)
    plan = plan_of(asked, limits, now_ms)
    return (None, headers) if plan is None else (plan, b"".join(kept))


def _text(value: Value) -> str:
    """Return a value as the text of a header; numbers may have any numeric type."""
    if value is None or value is False:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(int(value)) if isinstance(value, int) and not isinstance(value, bool) else str(value)
