"""The engine's Message -> the message of a dispatch, before its sequence is written into it."""

from __future__ import annotations

from typing import Final

from engine.values.message import OPENWIRE, ORIGINAL_DESTINATION, Message, split_annotations
from protocols import map_message as words
from protocols.converter import Converter
from protocols.map_message import Map, Typed
from protocols.openwire.mapping.openwire_form import openwire_form, reply_destination, with_properties
from protocols.openwire.mapping.stored_form import read_stored
from protocols.openwire.wire.identities import Destination

GROUP_FIRST: Final = "JMSXGroupFirstForConsumer"  # a field of the message, as group-first-key by this name


def outgoing_form(
    message: Message,
    form: Message,
    converter: Converter,
    destination: Destination,
    store_id: str,
    own_id: str,
) -> tuple[bytes, bytes]:
    """Return headers and body in OpenWire's encoding.

    form: with header lines, of a message of another protocol.
    What the broker says about a moved or scheduled message becomes properties.
    """
    if message.encoding == OPENWIRE:
        headers, body = message.headers, message.body
    else:
        written = openwire_form(message, form, converter, destination, store_id, own_id)
        headers, body = written.headers, written.body
    if not message.annotations:
        return headers, body
    added: Map = {}
    found = read_stored(headers, body)
    for name, value in reversed(split_annotations(message.annotations)):  # the first line of a name counts
        if name == GROUP_FIRST:
            found.jmsx_group_first_for_consumer = True
            continue
        added[name] = Typed(words.STRING, value)
        if name == ORIGINAL_DESTINATION:
            found.original_destination = reply_destination(value, True)
    found.expiration = message.expires_ms
    written = with_properties(found, added)
    return written.headers, written.body
