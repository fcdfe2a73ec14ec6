"""Queues that keep acknowledged messages: each consumer has a view of its own of present and future messages.

Source: Artemis "non-destructive queues".  A message leaves such a queue if it expires, is replaced (last-value, ring)
or is purged.  An acknowledgement only opens the consumer's window.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.backlog.lane import Lane
from engine.backlog.memory_budget import MemoryBudget
from engine.selector.evaluate import Selector
from engine.sources.entry_readers import Feeds
from engine.sources.queue import Queue
from engine.sources.queue_rules import AudienceBase
from engine.sources.snapshot import BEHIND, IN_FRONT, Snapshot
from engine.values.message import Message


class KeptMessages(Snapshot):
    """Shows what such a queue keeps, and what arrives there."""

    __slots__ = ()

    def __init__(self, feeds: Feeds, source_id: int, selector: Selector | None) -> None:
        super().__init__(feeds, source_id, selector)
        self.is_consuming = True

    def shown_by(self) -> str:
        return "reader of a non-destructive queue"

    def puts_off(self) -> bool:
        """Say whether a message that arrives now is shown in a later turn: others come first, or no steps are left."""
        return bool(self.unseen) or (self.selector is not None and self._feeds.steps.left <= 0)

    def put_off(self, view: Queue, source: Lane, message: Message, is_on_disk: bool) -> None:
        """Show a message of ``source`` that has just arrived behind all that is not copied yet."""
        lane = view.lane(message.priority)
        waiting = source.newest(message)
        is_behind = lane.next_load < lane.tail
        if is_on_disk and (is_behind or waiting is None):
            lane.add_behind(message)
        elif waiting is not None:
            if is_on_disk:
                lane.pass_by(message)
            lane.last_position = waiting.position
            self.unseen.append((lane, iter((waiting,)), BEHIND if is_behind else IN_FRONT))
        self._feeds.steps.postpone(view)


@dataclass(slots=True, eq=False)
class Audience(AudienceBase):
    """The views of one such queue's consumers."""

    memory: MemoryBudget
    feeds: Feeds
    views: list[Queue] = field(default_factory=list)

    def count(self) -> int:
        return len(self.views)

    def show(self, message: Message, source: Lane, is_on_disk: bool) -> None:
        """Show a message that has just arrived in ``source`` in each view that wants it.

        is_on_disk: views that are behind read it from disk later, so a slow view keeps no more in memory than others.
        """
        memory = self.memory
        for view in self.views:
            feed = view.feed
            assert isinstance(feed, KeptMessages), "views show what is kept"
            if feed.puts_off():
                feed.put_off(view, source, message, is_on_disk)
                continue
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
