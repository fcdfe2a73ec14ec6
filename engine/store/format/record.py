"""Decodes the fields of a record of the log, by its type.  Layout: layout.py.

record_cursor.py reads and checks the header; record_encoder.py and log/commit_log.py write records.

Spark workers load this module, so it imports nothing live.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from engine.store.format import layout

Unpack = Callable[[memoryview, int], tuple[int, ...]]

UNPACK_MESSAGE: Final[Unpack] = layout.MESSAGE_FIXED.unpack_from
UNPACK_SETTLEMENT: Final[Unpack] = layout.SETTLEMENT_FIXED.unpack_from
RANGES_AT: Final = layout.RECORD_HEADER_BYTES + layout.SETTLEMENT_FIXED_BYTES


@dataclass(slots=True)
class Record:
    """One record; ``data`` is all of it, header included, without padding.

    is_followed: the next record of the log follows in this segment; may be False in a sparse segment.
    """

    offset: int
    size: int
    type: int
    encoding: int
    flags: int
    destination_id: int
    sequence: int
    store_time_ms: int
    data: memoryview
    is_followed: bool = True

    def end(self) -> int:
        """Return the offset at which the next record starts, unless the segment ends here."""
        return self.offset + layout.padded(self.size)

    def payload(self) -> bytes:
        """Return the octets after the header."""
        return bytes(self.data[layout.RECORD_HEADER_BYTES :])

    def described(self) -> dict[str, Any]:
        """Return the JSON of a snapshot, a destination, a subscription, a consumer or an end.  Raises: ValueError."""
        found = json.loads(self.payload())
        if not isinstance(found, dict):
            raise ValueError(f"a {type(found).__name__} where a JSON object should be")
        return found

    def message(self) -> MessageParts:
        """Return the fields of a message's record."""
        return MessageParts(self.data)

    def settlement(self) -> Settlement:
        """Return the fields of a record of settlements or failed attempts.  Raises: ValueError."""
        return Settlement(self.data)

    def commit(self) -> tuple[int, int]:
        """Return the sequence of a transaction's first record, and the number of its records.  Raises: ValueError."""
        payload = self.payload()
        if len(payload) != layout.COMMIT_FIXED.size:
            raise ValueError(f"a commit record with {len(payload)} octets")
        first, count, _ = layout.COMMIT_FIXED.unpack(payload)
        return first, count


class MessageParts:
    """The fields of a message's record, and the parts that follow them."""

    __slots__ = (
        "annotation_bytes",
        "header_bytes",
        "body_bytes",
        "priority",
        "tag_hash",
        "group_hash",
        "expires_ms",
        "queue_offset",
        "_data",
    )

    def __init__(self, data: memoryview) -> None:
        self._data = data
        (
            self.annotation_bytes,
            self.header_bytes,
            self.body_bytes,
            self.priority,
            _,
            _,
            self.tag_hash,
            self.group_hash,
            self.expires_ms,
            self.queue_offset,
        ) = UNPACK_MESSAGE(data, layout.RECORD_HEADER_BYTES)

    def size(self) -> int:
        """Return the octets of annotations, headers and body."""
        return self.annotation_bytes + self.header_bytes + self.body_bytes

    def annotations(self) -> bytes:
        """Return the headers that the gateway added."""
        return self._part(0, self.annotation_bytes)

    def headers(self) -> bytes:
        """Return the sender's headers, as they were sent."""
        return self._part(self.annotation_bytes, self.header_bytes)

    def body(self) -> bytes:
        """Return the body, as it was sent."""
        return self._part(self.annotation_bytes + self.header_bytes, self.body_bytes)

    def _part(self, at: int, size: int) -> bytes:
        start = layout.MESSAGE_HEAD_BYTES + at
        return bytes(self._data[start : start + size])


class Settlement:
    """The fields of a record of settlements or of failed attempts.

    due_or_freed: see layout.py.  ranges: priority, first entry, number of entries, delivery count.
    """

    __slots__ = ("consumer_id", "outcome", "cause", "due_or_freed", "ranges")

    def __init__(self, data: memoryview) -> None:
        _, self.consumer_id, self.outcome, self.cause, _, count, self.due_or_freed = UNPACK_SETTLEMENT(
            data, layout.RECORD_HEADER_BYTES
        )
        ranges = data[RANGES_AT:]
        if len(ranges) != count * layout.RANGE_BYTES:
            raise ValueError(f"{count} ranges in {len(ranges)} octets")
        self.ranges: list[tuple[int, int, int, int]] = [
            (priority, first, entries, delivery_count)
            for first, entries, priority, _, delivery_count in layout.RANGE.iter_unpack(ranges)
        ]
