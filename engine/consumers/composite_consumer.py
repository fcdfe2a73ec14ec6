"""One subscription to several destinations: consumers that share a window, a ledger and an adapter."""

from __future__ import annotations

from engine.consumers.consumer import Consumer, SiblingsBase, consumer_of
from engine.consumers.wakes import Wakes
from engine.sources.queue import Queue
from engine.sources.topics.named_subscription import NamedSubscription
from engine.values.options import SubscribeOptions
from engine.values.wildcard import Wildcard


class Siblings(SiblingsBase):
    """The consumers of one subscription, one per queue, and the queues that may join later.

    wildcards: of queues; a new queue that matches one of them joins.
    subscription: the durable subscription to a wildcard of topics whose queues these are, else None.
    waits_for: numbers of queues that have no place for more consumers now (engine.limits.max_consumers).
    """

    __slots__ = (
        "wildcards",
        "subscription",
        "options",
        "waits_for",
        "_queues",
        "_wakes",
    )

    def __init__(
        self,
        lead: Consumer,
        wildcards: list[Wildcard],
        subscription: NamedSubscription | None,
        options: SubscribeOptions,
        wakes: Wakes,
    ) -> None:
        super().__init__(lead)
        self.subscription = subscription
        self.wildcards = wildcards
        self.options = options
        self.waits_for: list[int] = []
        self._queues: set[Queue] = set()
        self._wakes = wakes
        lead.siblings = self

    def wants(self, queue: Queue) -> bool:
        """Say whether ``queue`` matches one of its wildcards and has not joined yet."""
        if queue in self._queues or self.is_closed:
            return False
        return any(wildcard.matches(queue.name) for wildcard in self.wildcards)

    def add(self, consumer: Consumer, queue: Queue) -> None:
        """Add the consumer of one more queue; the consumer's own queue may be a view of that one."""
        lead = self.lead
        assert consumer.window is lead.window, "siblings share one window"
        consumer.ledger = lead.ledger
        consumer.unanswered = lead.unanswered
        consumer.adapter = lead.adapter
        consumer.outlet = lead.outlet
        consumer.siblings = self
        consumer.queue.extras.has_siblings = True
        self.members.append(consumer)
        self._queues.add(queue)

    def opened(self) -> None:
        """Wake as many of them as the open window has room for."""
        self._wakes.open(self.resting)

    def close(self) -> list[Consumer]:
        """Close the window and divide the ledger; return the consumers that must return messages now, the lead first.

        The furthest acknowledged tag counts for all of them.
        """
        self.is_closed = True
        self.lead.window.close()
        self.look_back()
        furthest = max([consumer.furthest_tag for consumer in self.members])
        ledger = self.lead.ledger
        holders: dict[int, Consumer] = {self.lead.consumer_id: self.lead}
        for tag, delivery in ledger.items():
            holder = consumer_of(delivery)
            if holder.ledger is ledger:
                holder.ledger = {}
                holder.furthest_tag = furthest
                holders[holder.consumer_id] = holder
            holder.ledger[tag] = delivery
        ledger.clear()  # the ledger is shared, and some siblings close after these deliveries have moved on
        self.lead.ledger = {}
        return list(holders.values())
