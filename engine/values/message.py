"""One message: JMS headers that the engine needs, everything else in its native encoding.

A message belongs to exactly one destination; a dead letter is a new message that names its origin.  ``headers`` and
``body`` are what the sender's protocol wrote and are never re-encoded for a receiver of the same protocol.
``annotations`` are headers that the broker added (why it was dead-lettered, where it came from): lines
``name:value\n`` in UTF-8 with the escapes of STOMP 1.2, whatever the native encoding is.
"""

from __future__ import annotations

import re
from typing import Final

# Encodings of ``headers`` and ``body``.
STOMP: Final = 1  # headers: lines ``name:value\n`` with the escapes of STOMP 1.2
AMQP_1_0: Final = 2
OPENWIRE: Final = 3  # a command without its size, in version 12 (protocols.openwire.mapping.stored_form)

# Flags, kept with the message in the log and in its consume-queue entry.
PERSISTENT: Final = 1  # JMSDeliveryMode
TEXT: Final = 2  # body is text in UTF-8: TextMessage, else BytesMessage
PLAIN: Final = 4  # headers and annotations hold no escape: the same octets in every version of STOMP
DEAD_LETTER: Final = 8  # moved here by the engine; annotations name the origin
IN_TRANSACTION: Final = 16  # valid only once the transaction's commit record is in the log
KEYED: Final = 32  # may have keys (engine.values.message_keys), so the key index reads it
INGRESS: Final = 64  # receivers get the time at which it was stored
SCHEDULED: Final = 128  # waits in the schedule: ``expires_ms`` is when it is due, annotations name its destination
# Higher bits: JMSPriority + 1, if ``priority`` is only the lane because the address does not order by priority.
PRIORITY_SHIFT: Final = 8

DEFAULT_PRIORITY: Final = 4
TIME_MOST_MS: Final = 2**63 - 1  # the last time that the types of the log and of the wire hold
NOT_LOGGED: Final = -1
SHOWN: Final = -1


class Message:
    """A message, immutable except for the places that the store assigns at append.

    priority: its lane; receivers see ``jms_priority``.
    expires_ms: wall clock, 0 is never.  store_time_ms: wall clock of the append, never decreasing in a log.
    log_offset: octets from the start of the commit log, NOT_LOGGED for a message that is only in memory.
    queue_offset: index of its entry in the consume queue of (destination, priority).
    serial: for a message outside the log, its number since this start; SHOWN for a logged one that a replay only
    shows, so that its address does not count it again.
    holders: how many deliveries keep it in memory without a copy on disk (engine.backlog.memory_budget).
    wire: cache of the protocol adapters (an encoded form shared by several deliveries); the engine never reads it.
    """

    __slots__ = (
        "destination_id",
        "encoding",
        "flags",
        "priority",
        "tag_hash",
        "group_hash",
        "expires_ms",
        "annotations",
        "headers",
        "body",
        "size",
        "store_time_ms",
        "log_offset",
        "queue_offset",
        "serial",
        "holders",
        "wire",
    )

    def __init__(
        self,
        destination_id: int,
        encoding: int,
        flags: int,
        priority: int,
        tag_hash: int,
        group_hash: int,
        expires_ms: int,
        annotations: bytes,
        headers: bytes,
        body: bytes,
    ) -> None:
        self.destination_id = destination_id
        self.encoding = encoding
        self.flags = flags
        self.priority = priority
        self.tag_hash = tag_hash
        self.group_hash = group_hash
        self.expires_ms = expires_ms
        self.annotations = annotations
        self.headers = headers
        self.body = body
        self.size = len(annotations) + len(headers) + len(body)
        self.store_time_ms = 0
        self.log_offset = NOT_LOGGED
        self.queue_offset = -1
        self.serial = 0
        self.holders = 0
        self.wire: bytes | None = None

    def copy_to(self, destination_id: int) -> Message:
        """Return a copy of the message for another destination."""
        return Message(
            destination_id,
            self.encoding,
            self.flags,
            self.priority,
            self.tag_hash,
            self.group_hash,
            self.expires_ms,
            self.annotations,
            self.headers,
            self.body,
        )

    def twin(self, flags: int, annotations: bytes, headers: bytes, body: bytes) -> Message:
        """Return the message with other content but the same place; ``size`` stays as it was accounted for."""
        twin = Message(
            self.destination_id,
            self.encoding,
            flags,
            self.priority,
            self.tag_hash,
            self.group_hash,
            self.expires_ms,
            annotations,
            headers,
            body,
        )
        twin.size = self.size
        twin.store_time_ms = self.store_time_ms
        twin.log_offset = self.log_offset
        twin.queue_offset = self.queue_offset
        twin.serial = self.serial
        twin.holders = self.holders
        return twin

    def jms_priority(self) -> int:
        """Return JMSPriority as it was sent."""
        return sent_priority(self.flags, self.priority)

    def content_bytes(self) -> int:
        """Return the octets that are in memory now."""
        return len(self.annotations) + len(self.headers) + len(self.body)

    def is_hollow(self) -> bool:
        """Say whether the content is only in the log."""
        return not (self.headers or self.body or self.annotations) and self.size > 0


def sent_priority(flags: int, lane: int) -> int:
    """Return the JMSPriority of a message with such flags in such a lane."""
    sent = flags >> PRIORITY_SHIFT
    return sent - 1 if sent else lane


def later_ms(since_ms: int, wait_ms: int) -> int:
    """Return the time ``wait_ms`` after ``since_ms``; at most the last time that can be written."""
    return min(since_ms + wait_ms, TIME_MOST_MS)


ORIGINAL_DESTINATION: Final = "original-destination"  # original destination of a message that the broker moved
DUPLICATE_ID_NAMES: Final = ("_AMQ_DUPL_ID", "_HQ_DUPL_ID")  # properties, in Artemis and in HornetQ
JOB_ID: Final = "scheduledJobId"  # of a message that was scheduled; ActiveMQ's name

# A NUL would end a STOMP frame; what came behind it would be a frame of the sender's making.
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c", "\0": " "})
_UNESCAPES: Final = {"\\\\": "\\", "\\r": "\r", "\\n": "\n", "\\c": ":"}
_ESCAPED: Final = re.compile(r"\\[\\rnc]")


def annotation(name: str, value: str) -> bytes:
    """Return one line; a NUL becomes a blank."""
    return f"{name.translate(_ESCAPES)}:{value.translate(_ESCAPES)}\n".encode()


def split_annotations(lines: bytes) -> list[tuple[str, str]]:
    """Return (name, value) of each line, in order."""
    found: list[tuple[str, str]] = []
    for line in lines.decode().split("\n"):
        if line:
            name, _, value = line.partition(":")
            found.append((unescaped(name), unescaped(value)))
    return found


def unescaped(text: str) -> str:
    """Return a name or a value without its escapes."""
    return _ESCAPED.sub(lambda match: _UNESCAPES[match[0]], text) if "\\" in text else text
