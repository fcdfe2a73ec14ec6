"""The registry of consumers, as chores that work on consumers see it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from engine.consumers.composite_consumer import Siblings
    from engine.consumers.consumer import Consumer
    from engine.sources.queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class ConsumerOwner:
    """Closes consumers, and adds them to subscriptions to several queues."""

    @abstractmethod
    def unsubscribe(self, consumer: Consumer, is_lost: bool) -> None:
        """Close a consumer; what it held returns to its place, or is discarded with its subscription."""

    @abstractmethod
    def give_back_some(self, consumer: Consumer, count: int, is_lost: bool) -> bool:
        """Let a leaving consumer return the first ``count`` messages it holds; say whether there were any."""

    @abstractmethod
    def join_one(self, siblings: Siblings, queue: Queue) -> None:
        """Let a subscription to several destinations take from one more queue."""
