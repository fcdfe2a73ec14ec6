"""Where in the log a replay begins: the allowed starts, and starts that are no longer kept."""

from __future__ import annotations

from engine.backlog.context import Context
from engine.sources.composite import CompositeSource, Source
from engine.values.errors import InvalidOption
from engine.values.options import FIRST, LAST, NEXT, ReplayStart, SubscribeOptions
from engine.values.stored import SEEK_ENTRY, SEEK_LOG, SEEK_TIME, LanePlace
from engine.values.wildcard import Wildcard


def check_replay(source: Source, options: SubscribeOptions) -> None:
    """Raises: InvalidOption if a replay of ``source`` is not possible with these options."""
    if isinstance(source, CompositeSource | Wildcard):
        raise InvalidOption(f"{source.uri()} is several destinations; a replay reads one queue or topic")
    if options.is_durable or options.is_shared or options.subscription:
        raise InvalidOption(
            f"a replay of {source.uri()} settles nothing and cannot be durable or shared; "
            "leave out the subscription's name, or the start of the replay"
        )


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
