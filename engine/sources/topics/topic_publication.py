"""Publishes messages to topics whose subscriptions do not all take every message."""

from __future__ import annotations

from typing import Final

from engine.backlog.context import Context
from engine.backlog.lane import Lane
from engine.consumers.client import Client
from engine.consumers.turn_steps import Steps
from engine.selector.table import ASKED_AT_ONCE
from engine.sources.entry_readers import Feeds
from engine.sources.queue import Queue
from engine.sources.topics.topic import FEW_COPIES, Topic
from engine.sources.topics.topic_offers import TopicOffers, give
from engine.sources.topics.wildcard_joins import TopicJoins
from engine.values.message import DEAD_LETTER, Message

PLAIN_A_STEP: Final = 4  # plain subscriptions; fewer in a turn would make many small writes to their sockets


class TopicPublication:
    """clients: by number.  joins: of wildcards that have not joined all topics yet.

    unrouted: messages just published that nobody takes, of topics that send them on.
    """

    __slots__ = ("store", "memory", "readers", "feeds", "steps", "clients", "joins", "unrouted")

    def __init__(self, context: Context, feeds: Feeds, steps: Steps, clients: dict[int, Client]) -> None:
        self.store = context.store
        self.memory = context.memory
        self.readers = context.readers
        self.feeds = feeds
        self.steps = steps
        self.clients = clients
        self.joins: list[TopicJoins] = []
        self.unrouted: list[tuple[Topic, Message]] = []

    def publish(self, topic: Topic, message: Message, sender: int) -> None:
        """Give a message to every subscription of its topic that takes it.  sender: client number, 0 for the broker."""
        topic.publish(message, self.memory)
        if topic.is_choosy:
            self.offer(topic, message, sender)

    def offer(self, topic: Topic, message: Message, sender: int) -> None:
        """Give a message to the choosy subscriptions that want it; note it if nobody does and the topic sends it on."""
        if topic.is_sent_on and not message.flags & DEAD_LETTER and not self._is_taken(topic, message, sender):
            self.unrouted.append((topic, message))
        if len(topic.plain) + len(topic.choosy) > FEW_COPIES:
            self._charge(len(topic.choosy) + len(topic.plain) // PLAIN_A_STEP, sender)
        selected = topic.selected
        if not topic.choosy and not selected.queues:
            return
        if selected.queues:
            if selected.offers is None:
                selected.offers = TopicOffers(selected, self.readers, self.memory)
            selected.offers.offer(message, self.steps)
        if topic.choosy:
            self._offer_to_choosy(topic, message, sender)
        if topic.account is not None and message.queue_offset >= 0:
            topic.account.see_durable(self.store)

    def _charge(self, count: int, sender: int) -> None:
        """Count the steps of a message's copies; without steps left its sender's next input waits for a later turn."""
        self.steps.left -= count
        if self.steps.left <= 0 and sender in self.clients:
            self.clients[sender].end_input()

    def _offer_to_choosy(self, topic: Topic, message: Message, sender: int) -> None:
        properties = self.readers.properties(message, 1, False)
        for queue in topic.choosy.values():
            feed = queue.feed
            is_shunned = sender > 0 and feed.shunned == sender
            if feed.is_browser:
                feed.message_came(message, is_shunned)
                continue
            if queue.is_logged and message.queue_offset >= 0:
                lane = queue.lane(message.priority)
                is_next = lane.next_load == message.queue_offset
                # A subscription that is behind decides later, except about the sender: the log does not record it.
                if is_next and feed.is_costly and not is_shunned and self.steps.left <= 0:
                    self._keep_for_later(queue, lane, message)
                    continue
                if is_shunned or (is_next and feed.selector is not None and not feed.selector.matches(properties)):
                    lane.pass_by(message)
                    self.feeds.pass_by(queue, message)
                else:
                    self._give_logged(queue, lane, message)
            elif not is_shunned and (feed.selector is None or feed.selector.matches(properties)):
                give(queue, message, self.memory)
            if feed.selector is not None:
                self.steps.left -= feed.selector.last_cost()

    def join_now(self, topic: Topic) -> None:
        """Join ``topic``, which is about to get a message, to wildcards that are still joining."""
        for joins in self.joins:
            if joins.wildcard.matches(topic.name):
                joins.join_one(topic)

    def take_unrouted(self) -> list[tuple[Topic, Message]]:
        """Return the published messages that nobody takes; the caller sends them on."""
        unrouted, self.unrouted = self.unrouted, []
        return unrouted

    def _is_taken(self, topic: Topic, message: Message, sender: int) -> bool:
        """Say whether a subscription or a queue takes a message that is being published."""
        if topic.plain or topic.copies:
            return True
        properties = self.readers.properties(message, 1, False)
        selectors = topic.selected.selectors
        found = selectors.matching(properties)
        while selectors.unasked and not found:
            found = selectors.ask(selectors.unasked, properties, ASKED_AT_ONCE)
        self.steps.left -= selectors.take_asked()
        if found:
            return True
        for queue in topic.choosy.values():
            feed = queue.feed
            if (
                not feed.is_browser
                and not (sender > 0 and feed.shunned == sender)
                and (feed.selector is None or feed.selector.matches(properties))
            ):
                return True
        return False

    def _give_logged(self, queue: Queue, lane: Lane, message: Message) -> None:
        if queue.consumers:
            queue.enqueue(message)
            if queue.rotation:
                queue.mark_dirty()
        else:
            self._keep_for_later(queue, lane, message)

    def _keep_for_later(self, queue: Queue, lane: Lane, message: Message) -> None:
        """Leave a message on disk; whether the subscription wants it is decided when its page is read."""
        lane.add_behind(message)
        queue.depth += 1
        queue.enqueued_count += 1
        if queue.selection is not None:
            queue.selection.arrived(lane, message)
        if queue.rotation:
            queue.mark_dirty()
