"""Every destination of the broker, by name and by number: made at its first mention, or found by recovery."""

from __future__ import annotations

from config.matching import AddressMatcher
from engine.accounts import Accounts
from engine.destination import NAME_MAX_BYTES, QUEUE, SUBSCRIPTION, TOPIC
from engine.errors import InvalidDestination, LimitReached
from engine.ports import Store
from engine.queue import Queue
from engine.topic import Topic


class Destinations:
    """Queues and topics.

    count_max: queues and topics together that clients may make.
    accounts: of those that have a limit on what they hold.
    dirty_queues: queues to dispatch at the end of this turn; each queue knows this list.
    """

    __slots__ = ("store", "addresses", "accounts", "count_max", "dirty_queues", "queues", "topics", "queues_by_id")

    def __init__(self, store: Store, addresses: AddressMatcher, accounts: Accounts, count_max: int) -> None:
        self.store = store
        self.addresses = addresses
        self.accounts = accounts
        self.count_max = count_max
        self.dirty_queues: list[Queue] = []
        self.queues: dict[str, Queue] = {}
        self.topics: dict[str, Topic] = {}
        self.queues_by_id: dict[int, Queue] = {}
        self._restore()

    def queue(self, name: str) -> Queue:
        """Return the queue ``name``, made at its first mention.  Raises: InvalidDestination, LimitReached."""
        queue = self.queues.get(name)
        if queue is None:
            self._check_name(name)
            self._check_count(name)
            queue = self._add_queue(self.store.open_destination(QUEUE, name), name)
        return queue

    def own_queue(self, name: str) -> Queue:
        """Return the queue of a dead-letter or expiry address: it is made whatever the limit, for it has a use."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self._add_queue(self.store.open_destination(QUEUE, name), name)
        return queue

    def topic(self, name: str) -> Topic:
        """Return the topic ``name``, made at its first mention.  Raises: InvalidDestination, LimitReached."""
        topic = self.topics.get(name)
        if topic is None:
            self._check_name(name)
            self._check_count(name)
            topic = self._add_topic(self.store.open_destination(TOPIC, name), name)
        return topic

    def own_topic(self, name: str) -> Topic:
        """Return the topic of a dead-letter address, made whatever the limit."""
        topic = self.topics.get(name)
        if topic is None:
            topic = self._add_topic(self.store.open_destination(TOPIC, name), name)
        return topic

    def all_queues(self) -> list[Queue]:
        """Return the queues and the queues of topic subscriptions."""
        queues = list(self.queues.values())
        for topic in self.topics.values():
            queues += topic.subscriptions.values()
        return queues

    def _check_count(self, name: str) -> None:
        if len(self.queues) + len(self.topics) >= self.count_max:
            raise LimitReached(
                f"{self.count_max} destinations are there, which is the limit (destinations-max); "
                f"{name[:200]!r} would be one more"
            )

    def _check_name(self, name: str) -> None:
        size = len(name.encode())
        if not 0 < size <= NAME_MAX_BYTES:
            raise InvalidDestination(f"a destination name has 1 to {NAME_MAX_BYTES} octets, this one has {size}")
        if any(character < " " or character in "*>#?," for character in name):
            raise InvalidDestination(
                f"destination name {name[:200]!r} has a control character or one of * > # ? , which name no single "
                "destination"
            )

    def _add_queue(self, destination_id: int, name: str) -> Queue:
        settings = self.addresses.settings_for(QUEUE, name)
        queue = Queue(destination_id, QUEUE, name, settings, True, self.dirty_queues)
        queue.account = self.accounts.open(destination_id, queue.uri(), settings.full)
        self.queues[name] = queue
        self.queues_by_id[destination_id] = queue
        return queue

    def _add_topic(self, destination_id: int, name: str) -> Topic:
        settings = self.addresses.settings_for(TOPIC, name)
        topic = Topic(destination_id, name, settings)
        topic.account = self.accounts.open(destination_id, topic.uri(), settings.full)
        self.topics[name] = topic
        return topic

    def _restore(self) -> None:
        """Take up the destinations that recovery found; their messages are paged in when somebody wants them."""
        for state in self.store.recovered():
            if state.kind == TOPIC:
                self._add_topic(state.destination_id, state.name)
                continue
            if state.kind == SUBSCRIPTION:
                continue  # nothing opens any yet
            queue = self._add_queue(state.destination_id, state.name)
            for found in state.lanes:
                lane = queue.lane(found.priority)
                queue.depth += lane.restore(found.tail, found.cursor, found.settled, found.attempts)
            if queue.account is not None:
                queue.account.restore(state.live_bytes, queue.depth)
