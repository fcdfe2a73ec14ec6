"""Message to the octets of a MESSAGE frame.  Source: ActiveMQ's header translation (wire/stomp.md 11.4)."""

from __future__ import annotations

from engine.message import PERSISTENT, PLAIN, TEXT, Message
from protocols.stomp.escapes import block_for
from protocols.stomp.versions import VERSION_1_0, VERSION_1_1


def message_octets(message: Message, version: int, id_prefix: str, serial_prefix: str, is_shared: bool) -> bytes:
    """Return what a MESSAGE has from its message-id on, the NUL included.

    is_shared: several receivers get this message; then it is kept in ``message.wire`` where it is the same for all of
    the version.  Of a queue's message nobody else gets it: kept until the answer, it would be the body a second time.
    """
    is_plain = message.flags & PLAIN
    headers = message.headers
    annotations = message.annotations
    if version < 12 and not is_plain:
        headers = block_for(headers, version)
        annotations = block_for(annotations, version)
    if message.log_offset >= 0:
        identity = f"{id_prefix}{message.log_offset}"
    else:
        identity = f"{serial_prefix}{message.serial}"
    if version != VERSION_1_0:
        identity = identity.replace(":", "\\c", 1)
    body = message.body
    octets = b"message-id:%b\npriority:%d\nexpires:%d\n%b%b%b%b%b\n%b\0\n" % (
        identity.encode(),
        message.priority,
        message.expires_ms,
        b"persistent:true\n" if message.flags & PERSISTENT else b"",
        # A text ends at its NUL, unless it holds one (amq-msg-type:text with a content-length).
        b"" if message.flags & TEXT and b"\0" not in body else b"content-length:%d\n" % len(body),
        b""
        if b"\ntimestamp:" in headers or headers.startswith(b"timestamp:")
        else b"timestamp:%d\n" % message.store_time_ms,
        annotations,
        headers,
        body,
    )
    if is_shared and (version == 12 or (version == VERSION_1_1 and is_plain)):
        message.wire = octets
    return octets
