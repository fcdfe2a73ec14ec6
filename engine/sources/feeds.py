"""Decides which messages of its source a subscription's or a browser's queue takes."""

from __future__ import annotations

from engine.backlog.settlement import SettlementBatch
from engine.consumers.consumer import Consumer
from engine.consumers.turn_steps import Steps
from engine.selector.readers import PropertyReaders
from engine.sources.queue import Queue
from engine.values.message import Message


class Feeds:
    """Numbers the feeds, and decides which messages are for them.

    settling: batches with something to flush.
    """

    __slots__ = ("steps", "_readers", "_settling", "_next_number")

    def __init__(
        self, readers: PropertyReaders, settling: list[tuple[SettlementBatch, Consumer | None]], steps: Steps
    ) -> None:
        self.steps = steps
        self._readers = readers
        self._settling = settling
        self._next_number = 1

    def number(self) -> int:
        """Return a number for a new feed."""
        number = self._next_number
        self._next_number = number + 1
        return number

    def select(self, queue: Queue, message: Message) -> bool:
        """Say whether a message of a page is for ``queue``; settle it if it never will be."""
        feed = queue.feed
        if message.store_time_ms < feed.since_ms:
            return False
        if feed.selector is None:
            return True
        is_wanted = feed.selector.matches(self._readers.properties(message, 1, False))
        self.steps.left -= feed.selector.last_cost()
        if is_wanted:
            return True
        if queue.is_logged:
            queue.depth -= 1
            self.pass_by(queue, message)
        return False

    def pass_by(self, queue: Queue, message: Message) -> None:
        """Settle an entry of a durable subscription that is not for it."""
        batch = queue.feed.pass_by(message)
        if batch is not None:
            self._settling.append((batch, None))
