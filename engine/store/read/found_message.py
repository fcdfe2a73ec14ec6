"""A query and its answer: bounds, messages, pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.store.format.record import Record

LIMIT_DEFAULT: Final = 32
LIMIT_MAX: Final = 10_000
NO_END: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a query, all inclusive except ``before``.

    from_ms, to_ms: store time.  from_entry, to_entry: queue offset in each lane of the destination.
    before: log offset; used to request the next page of an answer.
    """

    from_ms: int = 0
    to_ms: int = NO_END
    from_entry: int = 0
    to_entry: int = NO_END
    before: int = NO_END
    limit: int = LIMIT_DEFAULT

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= LIMIT_MAX:
            raise ValueError(f"limit is {self.limit}, allowed is 1 to {LIMIT_MAX}")

    def holds(self, record: Record) -> bool:
        """Say whether a message is within."""
        if not (self.from_ms <= record.store_time_ms <= self.to_ms and record.offset < self.before):
            return False
        return self.from_entry <= record.message().queue_offset <= self.to_entry


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """One message.  destination: URI.  headers: as its sender wrote them, in ``encoding``.

    priority: the lane that ``queue_offset`` counts in.  jms_priority: what its sender set.
    """

    message_id: str
    destination: str
    priority: int
    queue_offset: int
    log_offset: int
    store_time_ms: int
    expires_ms: int
    encoding: int
    is_persistent: bool
    is_dead_letter: bool
    is_text: bool
    keys: list[str]
    annotations: bytes
    headers: bytes
    body: bytes
    jms_priority: int


@dataclass(frozen=True, slots=True)
class Page:
    """messages: newest first.  next_before: ``Bounds.before`` of the next page, 0 for none.

    scanned_bytes: octets of the log that were scanned because no index covers them.
    until_offset, until_ms: how far the log could be read.
    damaged: log offsets of messages that cannot be read.
    """

    messages: list[FoundMessage]
    next_before: int
    scanned_bytes: int
    until_offset: int
    until_ms: int
    damaged: list[int]
