"""One subscription to several destinations: consumers that share a window, a ledger and an adapter."""

from __future__ import annotations

from engine import gates
from engine.consumer import Consumer
from engine.options import SubscribeOptions
from engine.subscription import Subscription
from engine.wildcard import Wildcard


class Siblings:
    """The consumers of one subscription, one a queue, and what may join them later.

    lead: what the client knows as its consumer.  Its own queue never holds anything.
    wildcards: of queues: those that come and match one of these are joined.
    subscription: the durable one to a wildcard of topics, to whose queues these are.
    looked_at_tag: when they close, up to where the client has looked at what they held, over all of them.
    """

    __slots__ = ("lead", "members", "wildcards", "subscription", "options", "looked_at_tag")

    def __init__(
        self,
        lead: Consumer,
        wildcards: list[Wildcard],
        subscription: Subscription | None,
        options: SubscribeOptions,
    ) -> None:
        self.lead = lead
        self.subscription = subscription
        self.members = [lead]
        self.wildcards = wildcards
        self.options = options
        self.looked_at_tag = 0
        lead.siblings = self

    def add(self, consumer: Consumer) -> None:
        lead = self.lead
        assert consumer.window is lead.window, "siblings share one window"
        consumer.ledger = lead.ledger
        consumer.unanswered = lead.unanswered
        consumer.adapter = lead.adapter
        consumer.siblings = self
        self.members.append(consumer)

    def start(self) -> None:
        """Let them all take their turns; what the adapter has hung on the lead is theirs too."""
        for consumer in self.members:
            consumer.adapter = self.lead.adapter
            consumer.queue.start_consumer(consumer)

    def close(self) -> None:
        """Note how far the client has looked, before one after the other gives back what it holds."""
        furthest = max(consumer.furthest_tag for consumer in self.members)
        self.looked_at_tag = next((tag for tag in self.lead.ledger if tag > furthest), furthest)
        for consumer in self.members:
            consumer.furthest_tag = furthest

    def gate(self) -> int:
        """Return what holds the client's one subscription: the gate of the first queue that has anything."""
        found = (consumer.gate() for consumer in self.members if consumer is not self.lead)
        return next((gate for gate in found if gate != gates.NOTHING_WAITING), gates.NOTHING_WAITING)

    def acknowledged_count(self) -> int:
        return sum(consumer.acknowledged_count for consumer in self.members)
