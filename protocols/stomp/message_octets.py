"""Message to the octets of a MESSAGE frame.  Source: ActiveMQ's header translation (wire/stomp.md 11.4)."""

from __future__ import annotations

from engine.message import INGRESS, PERSISTENT, PLAIN, PRIORITY_SHIFT, TEXT, Message
from protocols.stomp.escapes import block_for
from protocols.stomp.versions import VERSION_1_1, VERSION_1_2


def message_parts(
    message: Message, version: int, id_prefix: bytes, serial_prefix: bytes
) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes]:
    """Return what a MESSAGE has from its message-id on, the NUL included.

    In parts, so that the body is copied once, with everything else that its connection gets in this turn.
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
    head = b"message-id:%b%d\npriority:%d\nexpires:%d\n%b%b%b" % (
        id_prefix if log_offset >= 0 else serial_prefix,
        log_offset if log_offset >= 0 else message.serial,
        message.priority if flags < 1 << PRIORITY_SHIFT else message.jms_priority(),
        message.expires_ms,
        b"persistent:true\n" if flags & PERSISTENT else b"",
        # A text ends at its NUL, unless it holds one (amq-msg-type:text with a content-length).
        b"" if flags & TEXT and b"\0" not in body else b"content-length:%d\n" % len(body),
        b""
        if b"timestamp:" in headers and (b"\ntimestamp:" in headers or headers.startswith(b"timestamp:"))
        else b"timestamp:%d\n" % message.store_time_ms,
    )
    if flags & INGRESS:
        head += b"ingress-timestamp:%d\n" % message.store_time_ms
    return head, annotations, headers, b"\n", body, b"\0\n"


def shared_octets(message: Message, version: int, id_prefix: bytes, serial_prefix: bytes) -> bytes:
    """Return the same in one piece, for a message that several receivers get.

    It is kept in ``message.wire`` where it is the same for all of the version.  Of a queue's message nobody else gets
    it: kept until the answer, it would be the body a second time.
    """
    is_plain = message.flags & PLAIN
    if message.wire is not None and version == VERSION_1_1 and is_plain:
        return message.wire
    octets = b"".join(message_parts(message, version, id_prefix, serial_prefix))
    if version == VERSION_1_2 or (version == VERSION_1_1 and is_plain):
        message.wire = octets
    return octets
