"""The queues of durable subscriptions: each settles a topic's messages in the log under a number of its own."""

from __future__ import annotations

from engine.backlog.context import Context
from engine.backlog.spiller import may_spill
from engine.sources.feed import DurableCursor
from engine.sources.feeds import Feeds
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.sources.topics.named_subscription import NamedSubscription
from engine.sources.topics.topic import Topic
from engine.values.destination import TOPIC
from engine.values.options import SubscribeOptions
from engine.values.stored import DestinationState


class DurableCursors:
    """Opens them, and restores them after a start."""

    __slots__ = ("context", "destinations", "feeds")

    def __init__(self, context: Context, destinations: Destinations, feeds: Feeds) -> None:
        self.context = context
        self.destinations = destinations
        self.feeds = feeds

    def open(self, subscription: NamedSubscription, topic: Topic, options: SubscribeOptions | None) -> Queue:
        """Begin a durable subscription to one topic, at the next message or at an earlier one."""
        store = self.context.store
        starts = {} if options is None else self.starts(topic, options)
        number = store.open_subscription(
            topic.destination_id, subscription.full_name(), subscription.description(), starts or None
        )
        queue = self.queue(subscription, number, topic.destination_id, topic.name)
        if subscription.carrier is not None:
            queue.feed.shunned = subscription.carrier.feed.shunned
        subscription.queues[topic.destination_id] = queue
        topic.add(queue, True, False)
        self.take_up(queue, store.state_of(number))
        return queue

    def queue(self, subscription: NamedSubscription, number: int, topic_id: int, name: str) -> Queue:
        destinations = self.destinations
        queue = Queue(
            number,
            TOPIC,
            name,
            destinations.addresses.settings_for(TOPIC, name),
            True,
            destinations.dirty_queues,
            self.context.memory,
            DurableCursor(
                self.feeds.number(), topic_id, number, subscription.selector, subscription, subscription.full_name()
            ),
        )
        queue.extras.shares = destinations.shares
        if may_spill(queue):
            queue.spiller = destinations.spiller
        destinations.readers.add(queue)
        return queue

    def starts(self, topic: Topic, options: SubscribeOptions) -> dict[int, int]:
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
            queue.depth += lane.restore(found.tail, found.cursor, found.settled, found.attempts)
