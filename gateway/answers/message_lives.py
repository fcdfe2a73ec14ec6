"""The messages that an id means: one by the store's id, or those to which their sender gave it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from engine.store.read.found_message import NO_END
from engine.store.read.message_history import Biography, biography
from engine.store.read.query import StoreQuery
from engine.store.read.reader import StoreReader
from engine.store.read.records import UnknownMessage, is_own_id
from engine.store.read.sender_id_search import FOUND_MAX, SEARCH_BYTES_MAX, Searched, SenderIdSearch
from gateway.settings.message_keys import MESSAGE_KEYS, SENDER_IDS

SENDER_ID_MAX: Final = 1024  # characters


@dataclass(frozen=True, slots=True)
class Search:
    """How a sender's id was found.  from_offset, to_offset: the part of the log that was searched.

    is_whole: nothing of the log is below it.
    named_by: ids of messages that have the id as their correlation id or as a word of ``keys``, such as replies.
    """

    sender_id: str
    from_offset: int
    to_offset: int
    is_whole: bool
    named_by: list[str]


class SearchGoesOn(UnknownMessage):
    """The part of the log that one call searches has no such message.  before: where the next call begins."""

    def __init__(self, text: str, before: int) -> None:
        super().__init__(text)
        self.before = before


@dataclass(frozen=True, slots=True)
class Lives:
    """lives: the newest first, at least one.  search: None if the store's id was given."""

    lives: list[Biography]
    search: Search | None = None


def lives_of(
    reader: StoreReader,
    message_id: str,
    before: int = NO_END,
    is_cancelled: Callable[[], bool] = lambda: False,
    most_bytes: int = SEARCH_BYTES_MAX,
) -> Lives:
    """Return the messages that have an id.

    before: log offset below which a sender's id is searched for.
    Raises: UnknownMessage, SearchGoesOn, RangeGone, StoreCorrupt.
    """
    if is_own_id(message_id, reader.store_id):
        return Lives([biography(reader, message_id)])
    if len(message_id) > SENDER_ID_MAX:
        raise UnknownMessage(f"the id has {len(message_id)} characters; allowed are {SENDER_ID_MAX}")
    message_id = message_id.encode("utf-8", "replace").decode()  # a lone surrogate is in no message
    search = SenderIdSearch(reader, message_id, SENDER_IDS, is_cancelled, most_bytes)
    searched = search.run(before)
    places = dict.fromkeys(searched.places)
    named_by: list[str] = []
    with StoreQuery(reader, MESSAGE_KEYS) as query:
        for record in islice(query.indexed(message_id), FOUND_MAX):
            if search.has(record):
                places[record.offset] = None
            else:
                named_by.append(_id(reader, record.offset))
    if not places:
        text = _not_found(reader, message_id, searched, named_by)
        raise UnknownMessage(text) if searched.is_whole else SearchGoesOn(text, searched.from_offset)
    lives = [biography(reader, _id(reader, place)) for place in sorted(places, reverse=True)]
    return Lives(lives, Search(message_id, searched.from_offset, searched.to_offset, searched.is_whole, named_by))


def search_lines(search: Search, count: int) -> list[str]:
    """Say how many messages were found, and where."""
    found = "1 message has" if count == 1 else f"{count} messages, the newest first, have"
    lines = [f"{found} the id {search.sender_id!r} from the sender; {_part(search)}"]
    if search.named_by:
        lines.append(f"  it is a key or the correlation id of {', '.join(search.named_by)}")
    return lines


def _id(reader: StoreReader, place: int) -> str:
    return f"ID:{reader.store_id}-{place}"


def _not_found(reader: StoreReader, message_id: str, searched: Searched, named_by: list[str]) -> str:
    search = Search(message_id, searched.from_offset, searched.to_offset, searched.is_whole, named_by)
    text = (
        f"{message_id[:200]!r} is not an id of this store, whose ids begin with ID:{reader.store_id}-, and no message "
        f"has it from its sender: {_part(search)}"
    )
    if named_by:
        text += f"; it is a key or the correlation id of {', '.join(named_by)}"
    if searched.is_whole:
        text += "; the log has no non-persistent messages, and no acknowledged ones that retention has dropped"
    return text


def _part(search: Search) -> str:
    if search.is_whole:
        return f"all of the log below offset {search.to_offset} was searched"
    return (
        f"the log was searched from offset {search.from_offset} to {search.to_offset}, as much as one call reads; "
        f"--before {search.from_offset} goes on"
    )
