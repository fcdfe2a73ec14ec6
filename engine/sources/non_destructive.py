"""Queues that keep what is acknowledged: each consumer has a view of its own of what is there and of what comes.

Source: Artemis "non-destructive queues".  What leaves such a queue has expired, was replaced (last-value, ring) or
purged; an acknowledgement only opens the consumer's window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.backlog.memory import MemoryBudget
from engine.sources.feeds import Feeds
from engine.sources.queue_rules import AudienceBase
from engine.values.message import Message

if TYPE_CHECKING:
    from engine.sources.queue import Queue


class Audience(AudienceBase):
    """The views of one such queue's consumers."""

    __slots__ = ("memory", "feeds", "views")

    def __init__(self, memory: MemoryBudget, feeds: Feeds) -> None:
        self.memory = memory
        self.feeds = feeds
        self.views: list[Queue] = []

    def count(self) -> int:
        return len(self.views)

    def show(self, message: Message, is_on_disk: bool) -> None:
        """Give a message that has just come to everybody who wants it.

        is_on_disk: whoever is behind reads it when it comes there, so that a slow one keeps no more than others.
        """
        memory = self.memory
        for view in self.views:
            is_wanted = self.feeds.select(view, message)
            if is_on_disk:
                lane = view.lane(message.priority)
                if not is_wanted:
                    lane.pass_by(message)
                    continue
                loaded = lane.next_load
                lane.add_logged(message)
                if lane.next_load > loaded:
                    memory.unload(message)  # a view settles nothing: it holds what it shows
                    memory.hold(message)
                    view.depth += 1
                if message.expires_ms:
                    view.has_expiring = True
            elif is_wanted:
                memory.hold(message)
                view.enqueue(message)
            if view.rotation:
                view.mark_dirty()
