"""Message to the octets of a MESSAGE frame.  Source: ActiveMQ's header translation (docs/reference/stomp.md)."""

from __future__ import annotations

from typing import Final

from engine.values.message import INGRESS, PERSISTENT, PLAIN, PRIORITY_SHIFT, TEXT, Message
from protocols.stomp.codec.escapes import block_for
from protocols.stomp.codec.frame_octets import message_head
from protocols.stomp.codec.versions import VERSION_1_1, VERSION_1_2

_MESSAGE_HEAD: Final = message_head
_PERSISTENT: Final = b"persistent:true\n"
_PRIORITY_SENT: Final = 1 << PRIORITY_SHIFT  # bits from here on hold the priority as it was sent


def message_parts(
    message: Message, version: int, id_prefix: bytes, serial_prefix: bytes
) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes]:
    """Return the octets of a MESSAGE from its message-id to the NUL, in parts.

    With parts the body is copied once, together with the connection's other output of this turn.
    id_prefix, serial_prefix: of message ids (``Broker.id_prefixes``) as ``version`` writes them.
    """
    headers = message.headers
    annotations = message.annotations
    body = message.body
    flags = message.flags
    if version < VERSION_1_2 and not flags & PLAIN:
        headers = block_for(headers, version)
        annotations = block_for(annotations, version)
    log_offset = message.log_offset
    prefix = serial_prefix
    number = message.serial
    if log_offset >= 0:
        prefix = id_prefix
        number = log_offset
    priority = message.priority if flags < _PRIORITY_SENT else message.jms_priority()
    persistent = _PERSISTENT if flags & PERSISTENT else b""
    time_ms = message.store_time_ms
    # A text ends at its NUL, unless it contains one (amq-msg-type:text with a content-length).
    # ``find``, because ``in`` on bytes first tries them as a number, at the cost of an exception.
    if flags & TEXT and body.find(b"\0") < 0:
        length = -1
    else:
        length = len(body)
    head = _MESSAGE_HEAD(prefix, number, priority, message.expires_ms, persistent, length, time_ms)
    if headers.find(b"timestamp:") >= 0 and (headers.startswith(b"timestamp:") or headers.find(b"\ntimestamp:") >= 0):
        head = head[: head.rindex(b"timestamp:")]  # the sender's own value is kept
    if flags & INGRESS:
        head += b"ingress-timestamp:%d\n" % time_ms
    return head, annotations, headers, b"\n", body, b"\0\n"


def shared_octets(message: Message, version: int, id_prefix: bytes, serial_prefix: bytes) -> bytes:
    """Return the same in one piece, for a message that several receivers get.

    ``message.wire`` keeps it if it is the same for all receivers of this version.  The message of a queue has only one
    receiver: keeping it until the acknowledgement would double the memory of the body.
    """
    is_plain = message.flags & PLAIN
    if message.wire is not None and version == VERSION_1_1 and is_plain:
        return message.wire
    octets = b"".join(message_parts(message, version, id_prefix, serial_prefix))
    if version == VERSION_1_2 or (version == VERSION_1_1 and is_plain):
        message.wire = octets
    return octets
