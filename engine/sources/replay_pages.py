"""What a replay reads: where in the log it begins, its progress in each consume queue, and how much it may request."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from engine.backlog.context import Context
from engine.backlog.lane_shares import LEAST_BYTES, LEAST_MESSAGES
from engine.backlog.memory_budget import MESSAGE_OVERHEAD_BYTES, MemoryBudget
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values.errors import InvalidOption
from engine.values.message import SHOWN, Message
from engine.values.options import FIRST, LAST, NEXT, ReplayStart
from engine.values.stored import SEEK_ENTRY, SEEK_LOG, SEEK_TIME, LanePlace

PAGE_MESSAGES: Final = 1_024  # per priority and request, and kept ready for hand-over
PAGE_BYTES: Final = 1024 * 1024
SHARED_PART: Final = 8  # all replays hold 1 / SHARED_PART of the memory budget, besides what is in flight


@dataclass(slots=True, eq=False)
class ReplayPages:
    """How much each replay may request: all of them share a part of the memory budget.

    size_bytes: of one page while memory is not short.
    """

    memory: MemoryBudget
    size_bytes: int = PAGE_BYTES

    def share(self, count: int) -> None:
        """Divide the part among ``count`` replays; each holds a page of one priority and a ready one."""
        part = self.memory.limit_bytes // SHARED_PART // (2 * max(1, count))
        self.size_bytes = max(LEAST_BYTES, min(PAGE_BYTES, part))

    def limits(self) -> tuple[int, int]:
        """Return how many octets and messages a replay may request now and keep ready."""
        if self.memory.is_short():
            return LEAST_BYTES, LEAST_MESSAGES
        return self.size_bytes, self.messages()

    def messages(self) -> int:
        """Return how many messages a replay may request while memory is not short."""
        return max(LEAST_MESSAGES, min(PAGE_MESSAGES, self.size_bytes // MESSAGE_OVERHEAD_BYTES))


class Reading:
    """Progress of a replay in one consume queue.

    loaded: messages of the last page that were not shown yet.  next_load: the first entry not yet loaded; above
    ``tail`` if the replay begins with a future message.
    """

    __slots__ = ("priority", "next_load", "tail", "loaded", "is_loading")

    def __init__(self, priority: int, next_load: int, tail: int) -> None:
        self.priority = priority
        self.next_load = next_load
        self.tail = tail
        self.loaded: deque[Message] = deque()
        self.is_loading = False

    def has_more(self) -> bool:
        return bool(self.loaded) or self.next_load < self.tail


def shown_copy(message: Message) -> Message:
    """Return a copy that no address counts; others may hold the message itself."""
    shown = message.twin(message.flags, message.annotations, message.headers, message.body)
    shown.serial = SHOWN
    shown.holders = 0
    return shown


def tails_of(context: Context, source: Queue | Topic) -> list[tuple[int, int]]:
    """Return (priority, entries ever appended) of each lane."""
    if isinstance(source, Queue):
        return [(lane.priority, lane.tail) for lane in source.used_lanes]
    return [(lane.priority, lane.tail) for lane in context.store.state_of(source.destination_id).lanes]


def log_offset_of(context: Context, message_id: str) -> int:
    """Return where in the log the message with an id is.  Raises: InvalidOption."""
    prefix = context.readers.id_prefix
    digits = message_id.removeprefix(prefix)
    if digits == message_id or not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise InvalidOption(
            f"the replay should begin with {message_id[:200]!r}; it must be the id of a persistent message of this "
            f"store: {prefix} and a number"
        )
    end = context.store.append_offset()
    if int(digits) >= end:
        raise InvalidOption(
            f"{message_id!r} is not in the log yet, which ends at {end}; a replay must begin before that"
        )
    return int(digits)


def seek(context: Context, destination_id: int, start: ReplayStart, reader: int) -> None:
    """Ask the store where a replay begins; the answer is sent to ``reader``."""
    if start.entry is not None:
        context.store.seek(destination_id, SEEK_ENTRY, start.entry, reader)
    elif start.message_id:
        context.store.seek(destination_id, SEEK_LOG, log_offset_of(context, start.message_id), reader)
    else:
        context.store.seek(destination_id, SEEK_TIME, start.time_ms or 0, reader)


def gone(context: Context, source_uri: str, start: ReplayStart, log_start: int, places: list[LanePlace]) -> str:
    """Return which requested messages are no longer kept, in words; "" for none."""
    if start.message_id and log_offset_of(context, start.message_id) < log_start:
        return (
            f"the messages of {source_uri} from {start.message_id} on are gone as far as log offset "
            f"{log_start}; from-offset first begins with the oldest that is kept"
        )
    if start.entry is None:
        return ""
    lacking = [
        f"{max(place.first, 0)} to {place.kept - 1} of priority {place.priority}"
        for place in places
        if place.first < place.kept
    ]
    if not lacking:
        return ""
    return (
        f"the messages of {source_uri} with the queue offsets {', '.join(lacking)} are gone; "
        "from-offset first begins with the oldest that is kept"
    )


def start_words(start: ReplayStart) -> str:
    if start.entry is not None:
        return f"queue offset {start.entry:,}"
    if start.message_id:
        return start.message_id
    return {FIRST: "the oldest that is kept", LAST: "the newest", NEXT: "new messages only"}.get(
        start.place, f"store time {start.time_ms} ms"
    )
