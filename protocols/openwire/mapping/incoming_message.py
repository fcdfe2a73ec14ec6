"""A message of a client -> the engine's Message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from crc32c import crc32c

from engine.features.scheduler.plan import PROPERTIES, Plan, ScheduleLimits, plan_of
from engine.values.message import DEFAULT_PRIORITY, DUPLICATE_ID_NAMES, JOB_ID, KEYED, OPENWIRE, PERSISTENT, Message
from protocols.map_message import Map
from protocols.openwire.mapping.client_message import ClientMessage, whole
from protocols.openwire.mapping.openwire_form import read_properties
from protocols.openwire.mapping.stomp_content import property_text
from protocols.openwire.mapping.stored_form import read_stored, stored
from protocols.openwire.wire.layouts import VERSION
from protocols.openwire.wire.property_map import write_map
from protocols.openwire.wire.writer import encode_structure

PRIORITY_MOST: Final = 9
_SCHEDULE_MARK: Final = b"AMQ_SCHEDULED_"
_JOB_MARK: Final = JOB_ID.encode()
_MARKS: Final = re.compile(b"|".join([_SCHEDULE_MARK, _JOB_MARK] + [name.encode() for name in DUPLICATE_ID_NAMES]))
_ASKING: Final[Mapping[str, str]] = PROPERTIES


def engine_message(message: ClientMessage, destination_id: int) -> Message:
    priority = message.priority if 0 <= message.priority <= PRIORITY_MOST else DEFAULT_PRIORITY
    properties = message.properties
    may_have_keys = message.has_correlation_id or (properties is not None and b"\x00\x04keys" in properties)
    return Message(
        destination_id,
        OPENWIRE,
        (PERSISTENT if message.persistent else 0) | (KEYED if may_have_keys else 0),
        priority,
        crc32c(message.type.encode("utf-8", "replace")) if message.type else 0,
        crc32c(message.group_id.encode("utf-8", "replace")) if message.group_id else 0,
        max(0, message.expiration),
        b"",
        message.headers,
        message.body,
    )


def asks_more(properties: bytes) -> bool:
    """Say whether properties may ask for a schedule or name a duplicate id."""
    return _MARKS.search(properties) is not None


def duplicate_id_in(properties: bytes | None) -> str | None:
    """Return the duplicate id that the properties of a message name, None without one.  Raises: FrameError."""
    found = read_properties(properties)
    typed = next((found[name] for name in DUPLICATE_ID_NAMES if name in found), None)
    return None if typed is None or typed.value is None else property_text(typed)


def plan_in(message: ClientMessage, limits: ScheduleLimits, now_ms: int) -> tuple[Plan | None, ClientMessage]:
    """Return the plan that the properties ask for, and the message without that request.

    A receiver that forwards the message must not schedule it again.  Raises: InvalidOption, FrameError.
    """
    octets = message.properties
    if octets is None or (_SCHEDULE_MARK not in octets and _JOB_MARK not in octets):
        return None, message
    properties = read_properties(octets)
    asked = {name: property_text(typed) for name, typed in properties.items() if name in _ASKING}
    plan = plan_of(asked, limits, now_ms) if asked else None
    if plan is None and JOB_ID not in properties:
        return None, message
    left: Map = {name: typed for name, typed in properties.items() if name not in _ASKING and name != JOB_ID}
    found = read_stored(message.headers, message.body)
    found.marshalled_properties = write_map(left) if left else None
    return plan, whole(stored(encode_structure(found), VERSION))
