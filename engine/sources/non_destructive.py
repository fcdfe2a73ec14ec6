"""Queues that keep acknowledged messages: each consumer has a view of its own of present and future messages.

Source: Artemis "non-destructive queues".  A message leaves such a queue if it expires, is replaced (last-value, ring)
or is purged.  An acknowledgement only opens the consumer's window.
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
        """Show a message that has just arrived in each view that wants it.

        is_on_disk: views that are behind read it from disk later, so a slow view keeps no more in memory than others.
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
                    memory.unload(message)  # views settle nothing and count what they hold
                    memory.hold(message)
                    view.depth += 1
                if message.expires_ms:
                    view.has_expiring = True
            elif is_wanted:
                memory.hold(message)
                view.enqueue(message)
            if view.rotation:
                view.mark_dirty()
