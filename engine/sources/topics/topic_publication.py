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
from engine.sources.topics.late_memory import LateMemory
from engine.sources.topics.topic import FEW_COPIES, LateMessage, Topic
from engine.sources.topics.topic_offers import TopicOffers, give
from engine.sources.topics.wildcard_joins import TopicJoins
from engine.values.message import DEAD_LETTER, Message

COMPARED_A_STEP: Final = 4  # wildcards with which a topic's name is compared
LATE_PERCENT: Final = 150  # of the steps of a message's copies, for its sender, if it is published later
NO_FEEDS: Final[frozenset[int]] = frozenset()
PLAIN_A_STEP: Final = 4  # plain subscriptions; fewer in a turn would make many small writes to their sockets


class TopicPublication:
    """clients: by number.  joins: of wildcards that have not joined all topics yet.

    joined: by a topic's number, the serial of the newest of them with which a message to it was compared.
    newest_joined: the largest of these.
    unrouted: messages just published that nobody takes, of topics that send them on.
    late_memory: of the messages that wait for later turns.
    shunning: by the topic's number, what ``LateMessage`` says about the sender of the transaction that is applied just
    now; None if there is none.
    """

    __slots__ = (
        "store",
        "memory",
        "readers",
        "feeds",
        "steps",
        "clients",
        "joins",
        "joined",
        "newest_joined",
        "unrouted",
        "late_memory",
        "shunning",
    )

    def __init__(
        self, context: Context, feeds: Feeds, steps: Steps, clients: dict[int, Client], late_memory: LateMemory
    ) -> None:
        self.store = context.store
        self.memory = context.memory
        self.readers = context.readers
        self.feeds = feeds
        self.steps = steps
        self.clients = clients
        self.joins: list[TopicJoins] = []
        self.joined: dict[int, int] = {}
        self.newest_joined = 0
        self.unrouted: list[tuple[Topic, Message]] = []
        self.late_memory = late_memory
        self.shunning: dict[int, frozenset[int]] | None = None

    def publish(self, topic: Topic, message: Message, sender: int) -> None:
        """Give a message to every subscription of its topic that takes it, behind those that wait for a later turn.

        sender: client number, 0 for the broker.
        """
        if topic.late is not None:
            self.publish_later(topic, topic.late, message, sender)
            return
        topic.publish(message, self.memory)
        if topic.is_choosy:
            self.offer(topic, message, sender)

    def publish_late(self, topic: Topic, late: LateMessage) -> None:
        """Do the same with a message of an earlier turn, counting its copies; drop it if all who would get it left."""
        self._charge_few(topic)
        if topic.has_readers():
            topic.publish(late.message, self.memory, late)
            if topic.is_choosy:
                self.offer(topic, late.message, late.sender, late)
        self.late_memory.remove(late.holder, late.message)
        self.memory.release(late.message)

    def publish_later(self, topic: Topic, late: deque[LateMessage], message: Message, sender: int) -> None:
        """Publish a message in a later turn, to the subscriptions that there are now."""
        shunning = NO_FEEDS
        steps = 1
        if self.shunning is None:
            # More than its copies will cost: what waits grows shorter, however much is sent.
            steps += (len(topic.choosy) + len(topic.plain) // PLAIN_A_STEP) * LATE_PERCENT // 100
            shunning = _shunning(topic, sender)
        elif sender:
            found = self.shunning.get(topic.destination_id)
            if found is None:
                found = self.shunning[topic.destination_id] = _shunning(topic, sender)
            shunning = found
        self._note_unrouted(topic, message, sender)
        topic.enqueued_count += 1
        self.memory.hold(message)
        client = self.clients.get(sender)
        holder = "" if client is None else client.holder
        self.late_memory.add(holder, message)
        late.append(LateMessage(message, sender, holder, self.feeds.newest(), shunning))
        self._charge(steps, sender)

    def begin_transaction(self) -> None:
        """Publish for a transaction from now on: its sends are not charged for what later turns do."""
        self.shunning = {}

    def end_transaction(self) -> None:
        self.shunning = None

    def charge_batch(self, topic: Topic) -> None:
        """Count the copies of a message that a transaction is about to send to ``topic``.

        Without steps left, this message and those after it are published in later turns: their log records are one
        batch, their copies need not be.
        """
        self._charge_few(topic)
        if self.steps.left <= 0 and topic.late is None and topic.has_readers():
            topic.late = deque()
            self.steps.begin(LatePublication(self, topic, topic.late))
            self.steps.need_a_turn()

    def _charge_few(self, topic: Topic) -> None:
        """Count what ``offer`` does not: the few copies of a message, and the message."""
        copies = len(topic.plain) + len(topic.choosy)
        self.steps.left -= 1 + (copies // PLAIN_A_STEP if copies <= FEW_COPIES else 0)

    def offer(self, topic: Topic, message: Message, sender: int, late: LateMessage | None = None) -> None:
        """Give a message to the choosy subscriptions that want it; note it if nobody does and the topic sends it on."""
        if late is None:
            self._note_unrouted(topic, message, sender)
        if len(topic.plain) + len(topic.choosy) > FEW_COPIES:
            self._charge(len(topic.choosy) + len(topic.plain) // PLAIN_A_STEP, sender)
        selected = topic.selected
        if not topic.choosy and not selected.queues:
            return
        if selected.queues:
            if selected.offers is None:
                selected.offers = TopicOffers(selected, self.readers, self.memory)
            selected.offers.offer(message, self.steps, late)
        if topic.choosy:
            self._offer_to_choosy(topic, message, sender, late)
        if topic.account is not None and message.queue_offset >= 0:
            topic.account.see_durable(self.store)

    def _charge(self, count: int, sender: int) -> None:
        """Count the steps of a message's copies; without steps left its sender's next input waits for a later turn."""
        steps = self.steps
        steps.left -= count
        if steps.left <= steps.input_floor and sender in self.clients:
            self.clients[sender].end_input()

    def _offer_to_choosy(self, topic: Topic, message: Message, sender: int, late: LateMessage | None) -> None:
        properties = self.readers.properties(message, 1, False)
        choosy = topic.choosy if late is None else late.meant(topic.choosy)
        for queue in choosy.values():
            feed = queue.feed
            is_shunned = sender > 0 and feed.shunned == sender if late is None else feed.number in late.shunning
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
        newest = self.joins[-1].serial
        joined = self.joined.get(topic.destination_id, 0)
        if joined < newest:
            if self.joins[0].serial > self.newest_joined:
                self.joined.clear()  # of wildcards that have all joined everything
            self.joined[topic.destination_id] = self.newest_joined = newest
            waiting = self.joins[bisect_right(self.joins, joined, key=_serial) :]
            for joins in waiting:
                if joins.wildcard.matches(topic.name):
                    joins.join_one(topic)
            self._charge(len(waiting) // COMPARED_A_STEP, sender)

    def take_unrouted(self) -> list[tuple[Topic, Message]]:
        """Return the published messages that nobody takes; the caller sends them on."""
        unrouted, self.unrouted = self.unrouted, []
        return unrouted

    def _note_unrouted(self, topic: Topic, message: Message, sender: int) -> None:
        """Note a message for the dead-letter address, in its batch, if nobody takes it and its topic wants that."""
        if topic.is_sent_on and not message.flags & DEAD_LETTER and not self._is_taken(topic, message, sender):
            self.unrouted.append((topic, message))

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


def _shunning(topic: Topic, sender: int) -> frozenset[int]:
    return frozenset([number for number, queue in topic.choosy.items() if 0 < queue.feed.shunned == sender])


class LatePublication(Chore):
    """Publishes what waits for one topic, in order, over several turns."""

    __slots__ = ("_publication", "_topic", "_late")

    def __init__(self, publication: TopicPublication, topic: Topic, late: deque[LateMessage]) -> None:
        self._publication = publication
        self._topic = topic
        self._late = late

    def go_on(self, steps: Steps) -> bool:
        late = self._late
        if self._publication.memory.is_relieved and self._topic.has_readers():
            return False
        least = steps.left_to_others()
        while late:
            if steps.left <= least:
                return False
            self._publication.publish_late(self._topic, late.popleft())
        self._topic.late = None
        return True
