"""A message sent over HTTP as the engine takes it: the headers of a SEND with the same meaning, and its body."""

from __future__ import annotations

from typing import Final

from config.names import DestinationName
from engine.api import EngineApi
from engine.values.errors import InvalidOption
from engine.values.message import STOMP as STOMP_ENCODING
from engine.values.message import Message, annotation
from gateway.answers.message_document import FIELDS, type_header
from gateway.web.rest.named_destination import Named
from gateway.web.rest.requests import Outgoing
from gateway.web.rest.rest_client import RestClient
from protocols.broker_headers import BESIDE_NAMES
from protocols.errors import ProtocolError
from protocols.message_lines import MEANT, TYPES_HEADER
from protocols.stomp.codec.frames import CONTROL_HEADERS, SEND, Head
from protocols.stomp.mapping.destination_header import named_in
from protocols.stomp.mapping.destination_resolver import DestinationResolver
from protocols.stomp.mapping.send_target import SendTarget, send_target

EXPIRATION: Final = "expiration"
# Properties with these names would not be properties, but orders to the gateway.
RESERVED: Final = MEANT | CONTROL_HEADERS | {"destination-type", "selector", "transformation", EXPIRATION}
TEXT_LENGTH: Final = -1  # of a head without content-length: the body is a text


def message_of(
    engine: EngineApi, client: RestClient, destination: Named, outgoing: Outgoing
) -> tuple[SendTarget, Message]:
    """Return where the message goes, and the message.  Raises: EngineError."""
    headers = _headers(destination, outgoing)
    lines = [
        annotation(name, text) for name, text in headers.items() if name not in CONTROL_HEADERS and name != EXPIRATION
    ]
    length = TEXT_LENGTH if outgoing.is_text else len(outgoing.body)
    head = Head(SEND, headers, length, b"".join(lines))
    try:
        target = send_target(head, DestinationResolver(engine, client), True)
    except ProtocolError as error:
        raise InvalidOption(str(error)) from None
    message = Message(
        target.destination_id,
        STOMP_ENCODING,
        target.flags,
        target.priority,
        target.tag_hash,
        target.group_hash,
        target.expires_ms,
        b"",
        target.block,
        outgoing.body,
    )
    return target, message


def _headers(destination: Named, outgoing: Outgoing) -> dict[str, str]:
    """Return the headers of a SEND.  Raises: InvalidOption."""
    headers = {
        "destination": DestinationName().show(destination),
        "persistent": "true" if outgoing.is_persistent else "false",
        "priority": str(outgoing.priority),
    }
    if outgoing.ttl_ms:
        headers[EXPIRATION] = str(outgoing.ttl_ms)
    for member, text in outgoing.fields.items():
        headers[FIELDS[member]] = text
    reply_to = named_in(outgoing.fields.get("reply_to", ""))
    if reply_to is not None and reply_to.is_alias:
        raise InvalidOption(
            "reply_to is a temporary destination, which a request has none of; allowed is a lasting one"
        )
    for name, value in outgoing.properties.items():
        if not name or name.strip(BESIDE_NAMES) in RESERVED:
            raise InvalidOption(f"property {name[:80]!r} is not allowed: that name belongs to the gateway")
        headers[name] = str(value).lower() if isinstance(value, bool) else str(value)
    types = type_header(outgoing.properties)
    if types:
        headers[TYPES_HEADER] = types
    return headers
