"""Publishes messages to topics whose subscriptions do not all take every message."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Final

from engine.backlog.context import Context
from engine.backlog.lane import Lane
from engine.consumers.client import Client
from engine.consumers.turn_steps import Chore, Steps
from engine.selector.table import ASKED_AT_ONCE
from engine.sources.entry_readers import Feeds
from engine.sources.queue import Queue
from engine.sources.topics.topic import ALL_FEEDS, FEW_COPIES, Topic, up_to
from engine.sources.topics.topic_offers import TopicOffers, give
from engine.sources.topics.wildcard_joins import TopicJoins
from engine.values.message import DEAD_LETTER, Message

COMPARED_A_STEP: Final = 4  # wildcards with which a topic's name is compared
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

    def publish(self, topic: Topic, message: Message, sender: int, newest: int = ALL_FEEDS) -> None:
        """Give a message to every subscription of its topic that takes it, behind those that wait for a later turn.

        sender: client number, 0 for the broker.  Feeds after ``newest`` get nothing.
        """
        if topic.late is not None and newest == ALL_FEEDS:
            self.keep(topic, topic.late, message, sender)
            return
        topic.publish(message, self.memory, newest)
        if topic.is_choosy:
            self.offer(topic, message, sender, newest)

    def keep(self, topic: Topic, late: deque[tuple[Message, int, int]], message: Message, sender: int) -> None:
        """Publish a message of a topic in a later turn, to the subscriptions that there are now."""
        self.memory.hold(message)
        late.append((message, sender, self.feeds.newest()))
        self._charge(1, sender)

    def charge_batch(self, topic: Topic) -> None:
        """Count the copies of a message that a transaction is about to send to ``topic``.

        Without steps left, this message and those after it are published in later turns: their log records are one
        batch, their copies need not be.  A topic that sends on what nobody takes has to decide that in the batch.
        """
        copies = len(topic.plain) + len(topic.choosy)
        self.steps.left -= 1 + (copies // PLAIN_A_STEP if copies <= FEW_COPIES else 0)  # ``offer`` counts more
        if self.steps.left <= 0 and topic.late is None and not topic.is_sent_on:
            topic.late = deque()
            self.steps.begin(LatePublication(self, topic, topic.late))
            self.steps.need_a_turn()

    def offer(self, topic: Topic, message: Message, sender: int, newest: int = ALL_FEEDS) -> None:
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
            selected.offers.offer(message, self.steps, newest)
        if topic.choosy:
            self._offer_to_choosy(topic, message, sender, newest)
        if topic.account is not None and message.queue_offset >= 0:
            topic.account.see_durable(self.store)

    def _charge(self, count: int, sender: int) -> None:
        """Count the steps of a message's copies; without steps left its sender's next input waits for a later turn."""
        self.steps.left -= count
        if self.steps.left <= 0 and sender in self.clients:
            self.clients[sender].end_input()

    def _offer_to_choosy(self, topic: Topic, message: Message, sender: int, newest: int) -> None:
        properties = self.readers.properties(message, 1, False)
        choosy = topic.choosy if newest == ALL_FEEDS else up_to(newest, topic.choosy)
        for queue in choosy.values():
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

    def join_now(self, topic: Topic, sender: int) -> None:
        """Join ``topic``, which is about to get a message, to wildcards that are still joining."""
        waiting = self.joins[bisect_right(self.joins, topic.joined, key=_serial) :]
        if waiting:
            topic.joined = waiting[-1].serial
            for joins in waiting:
                if joins.wildcard.matches(topic.name):
                    joins.join_one(topic)
            self._charge(len(waiting) // COMPARED_A_STEP, sender)

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


def _serial(joins: TopicJoins) -> int:
    return joins.serial


class LatePublication(Chore):
    """Publishes what waits for one topic, in order, over several turns."""

    __slots__ = ("_publication", "_topic", "_late")

    def __init__(self, publication: TopicPublication, topic: Topic, late: deque[tuple[Message, int, int]]) -> None:
        self._publication = publication
        self._topic = topic
        self._late = late

    def go_on(self, steps: Steps) -> bool:
        late = self._late
        topic = self._topic
        memory = self._publication.memory
        if memory.is_relieved:
            return False
        least = steps.left_to_others()
        while late:
            if steps.left <= least:
                return False
            message, sender, newest = late.popleft()
            if not topic.is_closed:
                self._publication.join_now(topic, 0)  # a wildcard that has ended since takes nothing more
                self._publication.charge_batch(topic)
                self._publication.publish(topic, message, sender, newest)
            else:
                steps.left -= 1
            memory.release(message)
        topic.late = None
        return True
