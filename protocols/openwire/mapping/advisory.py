"""Advisories: the JSON that the broker writes of a command's fields -> the command, as OpenWire clients expect it.

Clients with the right to may send such messages, too, so nothing about the JSON is certain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from engine.values.destination import ADVISORY_PREFIX
from engine.values.message import Message
from protocols import map_message as words
from protocols.map_message import Map, Typed
from protocols.openwire.wire import commands, identities, messages
from protocols.openwire.wire.commands import Structure
from protocols.openwire.wire.identities import ConnectionId, ConsumerId, Destination, MessageId, ProducerId

FORM: Final = "jms-advisory-json"
COUNTS: Final = frozenset(("consumerCount", "producerCount"))  # properties that are whole numbers

_KINDS: Final = {
    "queue": identities.QUEUE,
    "topic": identities.TOPIC,
    "tempQueue": identities.TEMP_QUEUE,
    "tempTopic": identities.TEMP_TOPIC,
}
_PREFETCH_MOST: Final = 2**31 - 1

Fields = dict[str, object]


def is_advisory_topic(destination: Destination) -> bool:
    return destination.kind == identities.TOPIC and destination.name.startswith(ADVISORY_PREFIX)


def structure_in(message: Message, destination: Destination) -> Structure | None:
    """Return the command that an advisory is about, None if it has none.  message: of the topic ``destination``."""
    try:
        body = json.loads(message.body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or len(body) != 1:
        return None
    ((name, fields),) = body.items()
    return structure_of(str(name), fields, destination.name) if isinstance(fields, dict) else None


def structure_of(name: str, fields: Fields, topic: str) -> Structure | None:
    """Return the command ``name`` of an advisory, None for one that has none.  topic: of the advisory."""
    if name == "ConnectionInfo":
        return commands.ConnectionInfo(
            connection_id=ConnectionId(_text(_part(fields, "connectionId"), "value")),
            client_id=_text(fields, "clientId"),
            user_name=_text(fields, "userName"),
            client_ip=_text(fields, "clientIp"),
        )
    if name == "RemoveInfo":
        return commands.RemoveInfo(object_id=_identity(fields, topic), last_delivered_sequence_id=-2)
    if name == "ConsumerInfo":
        return commands.ConsumerInfo(
            consumer_id=_consumer_id(_part(fields, "consumerId")),
            browser=bool(fields.get("browser")),
            destination=_destination(fields),
            prefetch_size=max(0, min(_number(fields, "prefetchSize"), _PREFETCH_MOST)),
            client_id=_text(fields, "clientId"),
            exclusive=bool(fields.get("exclusive")),
            priority=max(-128, min(_number(fields, "priority"), 127)),
        )
    if name == "ProducerInfo":
        return commands.ProducerInfo(
            producer_id=_producer_id(_part(fields, "producerId")), destination=_destination(fields)
        )
    if name == "DestinationInfo":
        return commands.DestinationInfo(
            destination=_destination(fields), operation_type=1 if fields.get("operationType") else 0
        )
    if name == "ActiveMQMessage":
        return _message(fields)
    return None


def properties_of(headers: Mapping[str, str]) -> Map:
    return {
        name: Typed(words.INT, _count(text)) if name in COUNTS else Typed(words.STRING, text)
        for name, text in headers.items()
        if name not in ("type", "transformation")
    }


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _message(fields: Fields) -> messages.WireMessage:
    """Return a message without its body, as the broker reports no more of it."""
    nobody = ProducerId("", 0, 0)
    return messages.WireMessage(
        producer_id=nobody,
        destination=_destination(fields),
        message_id=MessageId(_text(fields, "messageId"), nobody, 0, 0),
        priority=max(0, min(_number(fields, "priority"), 9)),
    )


def _identity(fields: Fields, topic: str) -> Structure | ConnectionId | ConsumerId | ProducerId:
    part = _part(fields, "objectId")
    event = topic.removeprefix(ADVISORY_PREFIX).partition(".")[0]
    if event == "Consumer":
        return _consumer_id(part)
    if event == "Producer":
        return _producer_id(part)
    return ConnectionId(_text(part, "value"))


def _consumer_id(part: Fields) -> ConsumerId:
    return ConsumerId(_text(part, "connectionId"), _number(part, "sessionId"), _number(part, "value"))


def _producer_id(part: Fields) -> ProducerId:
    return ProducerId(_text(part, "connectionId"), _number(part, "value"), _number(part, "sessionId"))


def _destination(fields: Fields) -> Destination | None:
    part = fields.get("destination")
    if not isinstance(part, dict):
        return None
    return Destination(_KINDS.get(str(part.get("@class")), identities.QUEUE), _text(part, "physicalName"))


def _part(fields: Fields, name: str) -> Fields:
    found = fields.get(name)
    return found if isinstance(found, dict) else {}


def _text(fields: Fields, name: str) -> str:
    found = fields.get(name)
    return found if isinstance(found, str) else ""


def _number(fields: Fields, name: str) -> int:
    found = fields.get(name)
    return found if isinstance(found, int) and -(2**63) <= found < 2**63 else 0
