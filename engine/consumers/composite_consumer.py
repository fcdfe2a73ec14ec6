"""One subscription to several destinations: consumers that share a window, a ledger and an adapter."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mypy_extensions import mypyc_attr

from engine.consumers.consumer import Consumer, SiblingsBase, consumer_of
from engine.consumers.turn_steps import Chore, Steps
from engine.consumers.wakes import Wakes
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.topics.named_subscription import NamedSubscription
from engine.values.options import SubscribeOptions
from engine.values.wildcard import Wildcard

START_STEPS: Final = 2  # for one consumer that takes its first turn
GATE_STEPS: Final = 2  # for the gate of one consumer


@dataclass(slots=True, eq=False)
class Starts(Chore):
    """Lets the consumers of a subscription take their first turns; thousands may have joined before its receipt."""

    _siblings: Siblings
    _index: int = 0

    def go_on(self, steps: Steps) -> bool:
        siblings = self._siblings
        lead = siblings.lead
        least = steps.left_to_others()
        while self._index < len(siblings.members) and not siblings.is_closed:
            if steps.left <= least:
                return False
            steps.left -= START_STEPS
            consumer = siblings.members[self._index]
            self._index += 1
            consumer.adapter = lead.adapter
            consumer.outlet = lead.outlet
            consumer.queue.start_consumer(consumer)
        return True


class Siblings(SiblingsBase):
    """The consumers of one subscription, one per queue, and the queues that may join later.

    wildcards: of queues; a new queue that matches one of them joins.
    subscription: the durable subscription to a wildcard of topics whose queues these are, else None.
    waits_for: numbers of queues that have no place for more consumers now (engine.limits.max_consumers).
    """

    __slots__ = ("wildcards", "subscription", "options", "waits_for", "_queues", "_wakes")

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
        for wildcard in self.wildcards:
            if wildcard.matches(queue.name):
                return queue not in self._queues and not self.is_closed
        return False

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

    def start(self) -> None:
        self.rest_room.outlet = self.lead.outlet
        self._wakes.steps.take_up(Starts(self), self.lead.client.client_number)

    def beyond(self, first: int, held_by: frozenset[int]) -> int:
        steps = self._wakes.steps
        members = self.members
        first = max(first, 1)  # the lead's own queue holds nothing
        while first < len(members) and steps.left > 0:
            steps.left -= GATE_STEPS
            if members[first].gate() in held_by:
                break
            first += 1
        return first

    def opened(self) -> None:
        self._wakes.open(self.rest_room)

    def close(self) -> list[Consumer]:
        """Close the window and divide the ledger; return the consumers that must return messages now, the lead first.

        The furthest acknowledged tag counts for all of them.
        """
        self.is_closed = True
        self.lead.window.close()
        self.note_seen()
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


@mypyc_attr(allow_interpreted_subclasses=True)
class ConsumerOwner(Observer):
    """The registry of consumers, as chores see it: it closes them, and adds them to subscriptions to several queues."""

    @abstractmethod
    def unsubscribe(self, consumer: Consumer, is_lost: bool) -> None:
        """Close a consumer; what it held returns to its place, or is discarded with its subscription."""

    @abstractmethod
    def give_back_some(self, consumer: Consumer, count: int, is_lost: bool) -> bool:
        """Let a leaving consumer return the first ``count`` messages it holds; say whether there were any."""

    @abstractmethod
    def join_one(self, siblings: Siblings, queue: Queue) -> None:
        """Let a subscription to several destinations take from one more queue."""


JOIN_STEPS: Final = 10  # for one more consumer; comparing the name of a queue costs one step


@dataclass(slots=True, eq=False)
class Joins(Chore):
    """Lets subscriptions take from queues, some in each turn.

    A wildcard may match any number of queues, and any number of wildcards may match a new queue.

    pairs: those that are not done; None stands for one that has gone.
    is_asked: a subscription takes only from queues that match its wildcards.
    """

    owner: ConsumerOwner
    pairs: Iterator[tuple[Siblings | None, Queue | None]]
    is_asked: bool

    def go_on(self, steps: Steps) -> bool:
        least = steps.left_to_others()
        if steps.left <= least:
            return False
        for siblings, queue in self.pairs:
            steps.left -= 1
            if siblings is not None and queue is not None and (not self.is_asked or siblings.wants(queue)):
                steps.left -= JOIN_STEPS
                self.owner.join_one(siblings, queue)
            if steps.left <= least:
                return False
        return True
