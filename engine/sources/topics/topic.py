"""A topic: every subscription gets its own delivery of each message published while it exists."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from config.policies import AddressSettings
from engine.backlog.address_account import Account, SharedAddress
from engine.backlog.intake import intake_for
from engine.backlog.memory_budget import MemoryBudget
from engine.consumers.consumer import AUTO
from engine.selector.evaluate import Selector, selector_of
from engine.selector.table import SelectorTable
from engine.sources.queue import FateCounts, Queue
from engine.sources.queue_rules import has_send_advisories, is_watched
from engine.sources.topics.topic_offers import TopicOffers
from engine.values.destination import uri
from engine.values.message import Message

FEW_COPIES: Final = 50  # queues that get a message without a count in the steps of the turn
AT_ONCE_MOST: Final = 200  # queues that get a message in the turn of its publication, selectors aside
EVERYTHING: Final = selector_of("TRUE")


@dataclass(slots=True, eq=False)
class SelectedQueues:
    """Queues in memory that take what their selector matches, and those that are too many to get a message at once.

    queues, selectors: by the number of their feed.  newest: the last of these numbers.
    offers: messages that not all selectors have been asked about, None before the first of them.
    """

    queues: dict[int, Queue] = field(default_factory=dict)
    selectors: SelectorTable = field(default_factory=SelectorTable)
    newest: int = 0
    offers: TopicOffers | None = None

    def add(self, queue: Queue, selector: Selector) -> None:
        number = queue.feed.number
        self.queues[number] = queue
        self.selectors.add(number, selector)
        self.newest = max(self.newest, number)

    def remove(self, number: int) -> None:
        if self.queues.pop(number, None) is not None:
            self.selectors.remove(number)


@dataclass(slots=True, eq=False)
class LateMessage:
    """A message that is published in a later turn, and who gets it: that was decided at its arrival.

    sender: client number, 0 for the broker.  holder: for whom ``LateMemory`` counts it, "" for nobody.
    newest: number of the newest feed there was.
    shunning: numbers of the feeds that leave out what the sender sends.
    """

    message: Message
    sender: int
    holder: str
    newest: int
    shunning: frozenset[int]

    def meant(self, queues: dict[int, Queue]) -> dict[int, Queue]:
        """Return the queues that were there, by the number of their feed, and have not ended since."""
        newest = self.newest
        return {number: queue for number, queue in queues.items() if number <= newest and not queue.is_closed}


class TopicFates(FateCounts):
    """Counts messages that nobody took, and ended subscriptions; live ones have counts of their own."""

    __slots__ = ("delivered_count", "acknowledged_count")

    def __init__(self) -> None:
        super().__init__()
        self.delivered_count = 0
        self.acknowledged_count = 0

    def subscription_ended(self, queue: Queue) -> None:
        self.delivered_count += queue.delivered_count
        self.acknowledged_count += queue.acknowledged_count
        self.add(queue.fates)


class Topic(SharedAddress):
    """Fan-out to subscriptions, each a queue of its own.

    account: what all subscriptions together hold against the limits of the address, None without limits.
    is_logged: persistent messages are logged, even without subscribers; False for temporary and advisory topics.
    Subscriptions only hold references.
    is_indirect: publishing takes more than this class does: the topic has ended, others get copies, advisories report
    each message (has_send_advisories), or the message may be sent on.
    is_advisory: made by the broker for its advisories.
    owner: number of the client whose temporary topic this is, 0 for none.
    subscriptions: of this topic alone, by the number of their feed; those of wildcards have counts of their own.
    plain: queues in memory that take every message for one consumer, also those of wildcards; AT_ONCE_MOST at most.
    selected: queues in memory with a selector, and those beyond ``plain``.  choosy: all others.
    is_choosy: some subscriptions are not plain, or they are many, or the topic is_sent_on: messages that nobody takes
    are sent to the dead-letter address in their own batch, so such a topic is indirect, too.
    copies: queues that get a copy of each message (virtual topics).
    late: messages to be published in later turns, None unless a transaction sent more than a turn can publish.  Later
    messages wait behind them.
    """

    __slots__ = (
        "kind",
        "name",
        "settings",
        "account",
        "intake",
        "is_logged",
        "is_closed",
        "is_indirect",
        "is_advisory",
        "owner",
        "subscriptions",
        "plain",
        "selected",
        "choosy",
        "is_choosy",
        "is_sent_on",
        "copies",
        "late",
        "enqueued_count",
        "fates",
    )

    def __init__(self, destination_id: int, kind: int, name: str, settings: AddressSettings, is_logged: bool) -> None:
        super().__init__(destination_id)
        self.kind = kind
        self.name = name
        self.settings = settings
        self.account: Account | None = None
        self.intake = intake_for(settings)
        self.is_logged = is_logged
        self.is_closed = False
        self.is_sent_on = is_logged and settings.dead_letters.send_to_dla_on_no_route
        self.is_indirect = has_send_advisories(settings) or self.is_sent_on
        self.owner = 0
        self.is_advisory = False
        self.subscriptions: dict[int, Queue] = {}
        self.plain: dict[int, Queue] = {}
        self.selected = SelectedQueues()
        self.choosy: dict[int, Queue] = {}
        self.is_choosy = self.is_sent_on
        self.copies: list[Queue] = []
        self.late: deque[LateMessage] | None = None
        self.enqueued_count = 0
        self.fates = TopicFates()

    def uri(self) -> str:
        return uri(self.kind, self.name)

    def publish(self, message: Message, memory: MemoryBudget, late: LateMessage | None = None) -> None:
        """Give ``message`` to each plain subscription: to the socket at once if nothing waits, else behind the backlog.

        A logged message waits for the end of the turn, when it has been written.  late: about one of an earlier turn.
        """
        if late is None:
            self.enqueued_count += 1
            plain = self.plain
        else:
            plain = late.meant(self.plain)
        is_direct = message.log_offset < 0 and not message.expires_ms
        for queue in plain.values():
            if is_direct and queue.rotation and not queue.depth:
                consumer = queue.rotation[0]
                if (
                    consumer.ack_mode == AUTO
                    and not consumer.outlet.is_output_full
                    and message.size <= consumer.window.counted_above
                ):
                    consumer.client.deliver_settled(consumer, message, False, 1)
                    queue.enqueued_count += 1
                    queue.delivered_count += 1
                    queue.acknowledged_count += 1
                    consumer.acknowledged_count += 1
                    continue
            memory.hold(message)
            queue.enqueue(message)
            if queue.rotation:
                queue.mark_dirty()

    def add(self, queue: Queue, is_own: bool, is_plain: bool) -> None:
        """Let ``queue`` have messages published from now on.  is_own: no other topic feeds it."""
        feed = queue.feed
        if is_watched(self.settings) and not feed.is_browser:  # a wildcard's queue has the settings of the wildcard
            queue.extras.is_watched = queue.extras.has_choosy_settings = queue.is_choosy = True
            is_plain = False
        number = feed.number
        if is_own:
            self.subscriptions[number] = queue
        if not is_plain:
            self.choosy[number] = queue
        elif feed.selector is None and len(self.plain) < AT_ONCE_MOST:
            self.plain[number] = queue
        else:
            selector = feed.selector or EVERYTHING
            assert selector is not None, "this selector has a text"
            self.selected.add(queue, selector)
        self._judge()

    def _judge(self) -> None:
        self.is_choosy = self.is_sent_on or bool(self.choosy or self.selected.queues) or len(self.plain) > FEW_COPIES

    def has_readers(self) -> bool:
        """Say whether a message has anybody to go to."""
        return bool(self.plain or self.choosy or self.selected.queues)

    def readers(self) -> Iterator[Queue]:
        """Return the queues of its own subscriptions, then those of wildcards in memory."""
        yield from self.subscriptions.values()
        for queue in chain(self.plain.values(), self.selected.queues.values(), self.choosy.values()):
            if queue.feed.number not in self.subscriptions:
                yield queue

    def longest_durable(self) -> int:
        return max([queue.depth for queue in self.subscriptions.values() if queue.is_logged], default=0)

    def feeds(self, number: int) -> bool:
        """Say whether the subscription with this number gets what is published."""
        return number in self.plain or number in self.selected.queues or number in self.choosy

    def remove(self, number: int) -> None:
        """End a subscription; its counts stay with the topic."""
        self.plain.pop(number, None)
        self.choosy.pop(number, None)
        self.selected.remove(number)
        self._judge()
        queue = self.subscriptions.pop(number, None)
        if queue is None:
            return
        self.fates.subscription_ended(queue)
