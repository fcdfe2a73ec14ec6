"""A message of a client -> the engine's Message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from engine.features.scheduler.plan import PROPERTIES, Plan, ScheduleLimits, plan_of
from engine.values.message import DEFAULT_PRIORITY, DUPLICATE_ID_NAMES, JOB_ID, KEYED, OPENWIRE, PERSISTENT, Message
from protocols.broker_headers import USER
from protocols.map_message import Map
from protocols.openwire.mapping.client_message import ClientMessage, whole
from protocols.openwire.mapping.openwire_form import read_properties
from protocols.openwire.mapping.stomp_content import property_text
from protocols.openwire.mapping.stored_form import read_stored, stored
from protocols.openwire.wire.layouts import VERSION
from protocols.openwire.wire.property_map import Tally, write_map
from protocols.openwire.wire.writer import encode_structure

PRIORITY_MOST: Final = 9
_MARKS: Final = re.compile("|".join(["AMQ_SCHEDULED_", JOB_ID, USER, *DUPLICATE_ID_NAMES]).encode())
_CLAIMS: Final = frozenset((JOB_ID, USER))  # properties that only a broker may set
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
    """Say whether properties may ask for a schedule, name a duplicate id, or claim what only a broker knows."""
    return _MARKS.search(properties) is not None


@dataclass(frozen=True, slots=True)
class Asked:
    """What the properties of a message ask of the broker.

    message: what is sent, without claims, and without the request for a schedule: a receiver that forwards it must not
    schedule it again.
    """

    plan: Plan | None
    duplicate_id: str | None
    message: ClientMessage


def asked_in(message: ClientMessage, limits: ScheduleLimits, now_ms: int, names_schedule: bool, tally: Tally) -> Asked:
    """Read the properties, once.

    tally: of their values.
    names_schedule: it is a question to the schedule, in which the id of one is no claim.
    Raises: InvalidOption, FrameError.
    """
    properties = read_properties(message.properties, tally)
    duplicate_id = _duplicate_id(properties)
    asked = {name: property_text(typed) for name, typed in properties.items() if name in _ASKING}
    plan = plan_of(asked, limits, now_ms) if asked else None
    claims = _CLAIMS - {JOB_ID} if names_schedule else _CLAIMS
    if plan is None and claims.isdisjoint(properties):
        return Asked(None, duplicate_id, message)
    left: Map = {name: typed for name, typed in properties.items() if name not in _ASKING and name not in claims}
    found = read_stored(message.headers, message.body)
    found.marshalled_properties = write_map(left) if left else None
    return Asked(plan, duplicate_id, whole(stored(encode_structure(found), VERSION)))


def with_original_destination(message: ClientMessage) -> ClientMessage:
    """Return a message that names the composite destination to which it was sent; each copy has its own."""
    found = read_stored(message.headers, message.body)
    found.original_destination = found.destination
    return whole(stored(encode_structure(found), VERSION))


def _duplicate_id(properties: Map) -> str | None:
    typed = next((properties[name] for name in DUPLICATE_ID_NAMES if name in properties), None)
    return None if typed is None or typed.value is None else property_text(typed)
