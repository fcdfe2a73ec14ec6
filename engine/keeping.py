"""Queues that keep what is acknowledged: each consumer has a view of its own of what is there and of what comes.

Source: Artemis "non-destructive queues".  What leaves such a queue has expired, was replaced (last-value, ring) or
purged; an acknowledgement only opens the consumer's window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.message import Message

if TYPE_CHECKING:
    from engine.broker import Broker
    from engine.queue import Queue


class Audience:
    """The views of one such queue's consumers."""

    __slots__ = ("broker", "views")

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.views: list[Queue] = []

    def show(self, message: Message) -> None:
        """Give a message that has just come to everybody who wants it."""
        broker = self.broker
        for view in self.views:
            if broker.subscriptions.select(view, message):
                broker.memory.hold(message)
                view.enqueue(message)
                if view.rotation:
                    view.mark_dirty()
