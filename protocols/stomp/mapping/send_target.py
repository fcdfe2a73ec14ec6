"""SEND: from a frame to the parts of a Message.  Source: ActiveMQ's headers (docs/reference/stomp.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from engine.features.scheduler.delayed_send import delayed, is_logged_anyway
from engine.features.scheduler.plan import PROPERTIES, Plan
from engine.sources.composite import Destination, paced_part, reached
from engine.sources.identified import identified
from engine.sources.queue import Queue, is_management
from engine.sources.topics.topic import Topic
from engine.values.errors import InvalidOption
from engine.values.message import (
    DEFAULT_PRIORITY,
    DUPLICATE_ID_NAMES,
    JOB_ID,
    KEYED,
    PERSISTENT,
    PLAIN,
    TEXT,
    TIME_MOST_MS,
    annotation,
    later_ms,
)
from protocols.stomp.codec.frames import SEND, Head
from protocols.stomp.errors import InvalidHeader
from protocols.stomp.mapping.destination_header import address_in
from protocols.stomp.mapping.destination_resolver import DestinationResolver
from protocols.stomp.mapping.dialects import PENSTOCK, Dialect
from protocols.stomp.mapping.option_values import boolean, clamped, number
from protocols.stomp.mapping.schedule_headers import plan_in, without_job_id, without_schedule
from protocols.stomp.mapping.transformations import BYTES_TRANSFORMATION, looks_at_body, transformation_error

COPY_STEPS: Final = 7  # of a turn, for one of several destinations of a message
EXPIRATION_MOST_MS: Final = 2**53
SCHEDULED_KEPT: Final = 64  # targets of one connection that schedules; most differ only in their times


@dataclass(slots=True, eq=False)
class SendTarget:
    """The common part of all SENDs with the same head; made once per head, see ``Head.mapped``.

    paced: the first destination that measures the rate of its producers; None for none.
    steps: of a turn, for copies to several destinations.
    """

    destination: Destination
    flags: int
    priority: int
    expires_ms: int
    tag_hash: int
    group_hash: int
    block: bytes
    transaction: str | None
    destination_id: int = field(init=False)
    paced: Queue | Topic | None = field(init=False)
    steps: int = field(init=False)
    is_persistent: bool = field(init=False)

    def __post_init__(self) -> None:
        self.destination_id = self.destination.destination_id
        self.paced = paced_part(self.destination)
        self.steps = COPY_STEPS * len(reached(self.destination)) if self.destination.is_indirect else 0
        self.is_persistent = bool(self.flags & PERSISTENT) or is_logged_anyway(self.destination)

    def later(self, plan: Plan) -> SendTarget:
        """Return the same target with another plan.  Raises: InvalidDestination."""
        return self._with(delayed(self.destination, plan))

    def once(self, duplicate_id: str) -> SendTarget:
        """Return the target of a message with that id.  Raises: InvalidOption."""
        return self._with(identified(self.destination, duplicate_id))

    def _with(self, destination: Destination) -> SendTarget:
        return SendTarget(
            destination,
            self.flags,
            self.priority,
            self.expires_ms,
            self.tag_hash,
            self.group_hash,
            self.block,
            self.transaction,
        )


def send_target(
    head: Head, resolver: DestinationResolver, default_persistent: bool, dialect: Dialect = PENSTOCK, body: bytes = b""
) -> SendTarget:
    """Return the target of a SEND's head, and keep it in the head if it is valid for the next SEND too.

    body: read only if its transformation must be checked.  Raises: InvalidHeader, EngineError.
    """
    headers = head.headers
    if "destination" not in headers:
        raise InvalidHeader("SEND needs a header destination")
    plan = plan_in(headers, resolver.schedule_limits, resolver.context.wall_ms)
    target = (
        _asked_for(head, resolver, default_persistent, dialect, body)
        if plan is None
        else _later(head, plan, resolver, default_persistent, dialect, body)
    )
    duplicate_id = next((headers[name] for name in DUPLICATE_ID_NAMES if name in headers), None)
    if duplicate_id is not None:
        return target.once(duplicate_id)  # the next message has another id
    if not _is_its_own(headers):
        head.mapped = target
    return target


def _later(
    head: Head, plan: Plan, resolver: DestinationResolver, default_persistent: bool, dialect: Dialect, body: bytes
) -> SendTarget:
    """Return the target of a head that schedules by ``plan``.

    Such heads often differ only in their times, so the rest is made once.
    """
    rest = {name: text for name, text in head.headers.items() if name not in PROPERTIES}
    key = (head.content_length >= 0, *rest.items())
    known = resolver.scheduled.get(key)
    if not isinstance(known, SendTarget):
        plain = Head(SEND, rest, head.content_length, without_schedule(head.block))
        known = _asked_for(plain, resolver, default_persistent, dialect, body)
        if not _is_its_own(rest):
            if len(resolver.scheduled) >= SCHEDULED_KEPT:
                resolver.scheduled.clear()
            resolver.scheduled[key] = known
    return known.later(plan)


def _is_its_own(headers: dict[str, str]) -> bool:
    """Say whether the next SEND with this head may need another target.

    It may with an expiration relative to now (RabbitMQ), and with a transformation, which depends on the body.
    """
    return "expiration" in headers or looks_at_body(headers)


def _asked_for(
    head: Head, resolver: DestinationResolver, default_persistent: bool, dialect: Dialect, body: bytes
) -> SendTarget:
    """Return the target of a head without its schedule.  Raises: InvalidHeader, EngineError."""
    headers = head.headers
    address = address_in(headers["destination"], headers.get("destination-type"))
    block = head.block
    timestamp = headers.get("timestamp")
    is_plain = head.is_plain
    if timestamp is not None:
        # The sender's JMSTimestamp; without one it is ours.
        line = annotation("timestamp", timestamp)
        is_plain = is_plain and b"\\" not in line
        block += line
    error = transformation_error(headers, head.content_length >= 0, body)
    if error:
        line = annotation("transformation-error", error)
        is_plain = is_plain and b"\\" not in line
        block += line
    persistent = headers.get("persistent")
    flags = PLAIN if is_plain else 0
    if default_persistent if persistent is None else boolean("persistent", persistent):
        flags |= PERSISTENT
    if _is_text(head):
        flags |= TEXT
    if "correlation-id" in headers or "keys" in headers:
        flags |= KEYED
    priority, expires_ms = _priority_and_expiration(headers, dialect)
    if "expiration" in headers and not expires_ms:
        lives_ms = number("expiration", headers["expiration"], 0, EXPIRATION_MOST_MS)
        expires_ms = later_ms(resolver.context.wall_ms, lives_ms)
    if JOB_ID in headers and not all(is_management(part.name) for part in address.parts):
        block = without_job_id(block)  # only the gateway may name the schedule of a message
    # Created last, when no other part of the frame can be wrong.
    destination = resolver.target(address)
    reply_to = headers.get("reply-to")
    if reply_to is not None:
        block = resolver.with_reply_to(block, reply_to)
        if b"\\" in block:
            flags &= ~PLAIN
    tag_hash = text_hash(headers.get("type"))
    group_hash = text_hash(headers.get("JMSXGroupID"))
    return SendTarget(destination, flags, priority, expires_ms, tag_hash, group_hash, block, headers.get("transaction"))


def _priority_and_expiration(headers: dict[str, str], dialect: Dialect) -> tuple[int, int]:
    priority = headers.get("priority", str(DEFAULT_PRIORITY))
    expires = headers.get("expires", "0")
    if dialect.is_clamped:
        return clamped("priority", priority, 9, 32), clamped("expires", expires, TIME_MOST_MS, 64)
    return number("priority", priority, 0, 9), number("expires", expires, 0, TIME_MOST_MS)


def text_hash(text: str | None) -> int:
    """Return the value of a JMSType or a JMSXGroupID in consume-queue entries; 0 for none."""
    return crc32c(text.encode()) if text else 0


def _is_text(head: Head) -> bool:
    """Return whether a body is text.  ActiveMQ's rule: it is without a content-length, unless amq-msg-type differs."""
    kind = head.headers.get("amq-msg-type")
    if kind is None:
        return head.content_length < 0 and head.headers.get("transformation") != BYTES_TRANSFORMATION
    word = kind.strip().lower()
    if word not in ("text", "bytes"):
        raise InvalidOption(f"amq-msg-type is {kind[:80]!r}; allowed are text and bytes")
    return word == "text"
