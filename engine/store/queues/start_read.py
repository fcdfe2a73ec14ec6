"""Reads messages at once, for parts of the engine that need some before the first turn."""

from __future__ import annotations

from typing import Final

from engine.ports.store import StoreListener
from engine.store.log.open_files import OpenFiles
from engine.store.log.segment import LogMap
from engine.store.queues.entry_span import EntrySpan
from engine.store.queues.page_read import PageJob, Skipping
from engine.store.state.consume_queue import ConsumeQueue
from engine.values.errors import StoreCorrupt
from engine.values.message import Message

ALL_BYTES: Final = 1 << 62


class Collected(StoreListener):
    """The answer to one page, kept."""

    __slots__ = ("messages", "following", "reason")

    def __init__(self, first: int) -> None:
        self.messages: list[Message] = []
        self.following = first
        self.reason = ""

    def durable(self, offset: int) -> None:
        raise AssertionError("nothing is synced while pages are read at the start")

    def store_failed(self, reason: str) -> None:
        raise AssertionError("nothing is written while pages are read at the start")

    def store_healed(self) -> None:
        raise AssertionError("nothing is written while pages are read at the start")

    def page_loaded(
        self, destination_id: int, priority: int, first: int, next_offset: int, messages: list[Message], reader: int = 0
    ) -> None:
        self.messages = messages
        self.following = next_offset

    def page_failed(self, destination_id: int, priority: int, first: int, reason: str, reader: int = 0) -> None:
        self.reason = reason


def messages_at_once(
    root: str, lane: ConsumeQueue, first: int, end: int, open_files: OpenFiles, log_map: LogMap, skipping: Skipping
) -> list[Message]:
    """Return the messages of entries ``first`` to ``end`` (excluded), without those whose record is gone.

    root: directory of the consume queues.  Raises: StoreCorrupt.
    """
    found: list[Message] = []
    at = max(first, lane.kept_first)
    while at < end:
        collected = Collected(at)
        job = PageJob(collected, open_files, log_map, EntrySpan(root, lane, at, end), at, ALL_BYTES, skipping, 0)
        job.run()
        job.finish()
        if collected.reason:
            raise StoreCorrupt(collected.reason)
        if collected.following <= at:
            break
        found += collected.messages
        at = collected.following
    return found
