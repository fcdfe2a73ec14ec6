"""Queues of durable subscriptions, which settle a topic's messages under numbers of their own; retroactive starts.

The subscriptions themselves are in engine.sources.topics.topic_subscriptions.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.backlog.context import Context
from engine.sources.entry_readers import Feeds
from engine.sources.feed import DurableCursor
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.sources.topics.named_subscription import NamedSubscription
from engine.sources.topics.topic import Topic
from engine.values.destination import TOPIC
from engine.values.options import SubscribeOptions
from engine.values.stored import DestinationState, waiting_from
from engine.values.wildcard import Wildcard


@dataclass(slots=True, eq=False)
class DurableCursors:
    """Opens them, and restores them after a start."""

    context: Context
    destinations: Destinations
    feeds: Feeds

    def open(self, subscription: NamedSubscription, topic: Topic, options: SubscribeOptions | None) -> Queue:
        """Begin a durable subscription to one topic, at the next message or at an earlier one."""
        store = self.context.store
        starts = {} if options is None else self._starts(topic, options)
        number = store.open_subscription(
            topic.destination_id, subscription.full_name(), subscription.description(), starts or None
        )
        queue = self.queue(subscription, number, topic.destination_id, topic.name)
        if subscription.carrier is not None:
            queue.feed.shunned = subscription.carrier.feed.shunned
        subscription.roster.add(topic.destination_id, queue)
        topic.add(queue, True, False)
        self.take_up(queue, store.state_of(number))
        return queue

    def queue(self, subscription: NamedSubscription, number: int, topic_id: int, name: str) -> Queue:
        destinations = self.destinations
        settings = destinations.addresses.settings_for(TOPIC, name)
        feed = DurableCursor(
            self.feeds.number(), topic_id, number, subscription.selector, subscription, subscription.full_name()
        )
        queue = destinations.reader_queue(number, TOPIC, name, settings, True, feed)
        queue.extras.shares = destinations.shares
        return queue

    def begin_retroactive(self, queue: Queue, source: Topic | Wildcard, options: SubscribeOptions) -> None:
        """Let a subscription in memory begin with its topic's recent messages."""
        if isinstance(source, Wildcard):
            return
        starts = self._starts(source, options)
        if not starts:
            return
        time_ms = source.settings.retroactive.recovery_time_ms
        if time_ms >= 0:
            queue.feed.since_ms = self.context.store_time_ms - time_ms
        for found in self.context.store.state_of(source.destination_id).lanes:
            start = starts.get(found.priority, found.tail)
            if start < found.tail:
                queue.lane(found.priority).restore(found.tail, start, [], {})

    def _starts(self, topic: Topic, options: SubscribeOptions) -> dict[int, int]:
        """Return the first entry of a retroactive subscription, by priority."""
        policy = topic.settings.retroactive
        count = policy.message_count
        if options.is_retroactive or policy.always:
            wanted = policy.recovery_message_count
            count = -1 if wanted < 0 else max(count, wanted)
        if count == 0 or not topic.is_logged:
            return {}
        lanes = self.context.store.state_of(topic.destination_id).lanes
        return {lane.priority: 0 if count < 0 else max(0, lane.tail - count) for lane in lanes}

    def take_up(self, queue: Queue, state: DestinationState) -> None:
        for found in state.lanes:
            lane = queue.lane(found.priority)
            attempts = waiting_from(found.attempts, self.context.wall_ms)
            queue.depth += lane.restore(found.tail, found.cursor, found.settled, attempts)
