"""All destinations of the broker, by name and number; made at the first mention, or restored at the start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from config.matching import AddressMatcher
from config.policies import AddressSettings
from engine.backlog.address_account import Accounts
from engine.backlog.context import Context
from engine.backlog.lane_shares import LaneShares
from engine.backlog.spiller import Spiller, may_spill
from engine.sources.entry_readers import EntryReaders
from engine.sources.feed import Feed
from engine.sources.last_value_and_ring import Keeper
from engine.sources.observer import Observer
from engine.sources.queue import STATISTICS_PREFIX, DirtyQueues, QuestionQueue, Queue, is_management
from engine.sources.queue_ends import forget_lanes
from engine.sources.queue_rules import is_keeping
from engine.sources.roster import Roster
from engine.sources.topics.topic import Topic
from engine.values.destination import (
    ADVISORY_PREFIX,
    INTERNAL_QUEUES,
    QUEUE,
    SUBSCRIPTION,
    TEMP_QUEUE,
    TEMP_TOPIC,
    TOPIC,
    check_name,
    is_topic,
    uri,
)
from engine.values.errors import InvalidDestination, LimitReached
from engine.values.stored import waiting_from
from engine.values.wildcard import Wildcard, is_wildcard

TEMPORARY_DESTINATIONS_MAX: Final = 1_000  # of one client


@dataclass(slots=True, eq=False)
class Destinations:
    """Queues and topics.

    count_max: queues and topics together that clients may make.  temporary_max: temporary ones of one client.
    accounts: of destinations with limits on what they hold.
    dirty_queues: queues to dispatch at the end of this turn; each queue has a reference to them.
    waiting_keepers: keepers to run before that, shared in the same way.
    queue_roster, topic_roster: ``queues`` and ``topics``, for work on all of them.
    temporaries: by name.  Their numbers, and those of advisory topics, are negative: they are not in the store.
    readers: queues of subscriptions, browsers and replays.
    lasting: names of the queues in the configuration; they stay though nobody uses them.
    advisory_count: advisory topics that the broker has made; they do not count against the clients' limit.
    owned: client -> its temporary destinations.
    by_id: all of these, by the number that their messages carry.
    """

    context: Context
    addresses: AddressMatcher
    accounts: Accounts
    observers: list[Observer]
    count_max: int
    temporary_max: int
    spiller: Spiller | None = None
    shares: LaneShares = field(init=False)
    dirty_queues: DirtyQueues = field(default_factory=DirtyQueues)
    waiting_keepers: list[Keeper] = field(default_factory=list)
    queues: dict[str, Queue] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    queue_roster: Roster[str, Queue] = field(init=False)
    topic_roster: Roster[str, Topic] = field(init=False)
    temporaries: dict[str, Queue | Topic] = field(default_factory=dict)
    readers: EntryReaders = field(default_factory=EntryReaders)
    owned: dict[int, list[Queue | Topic]] = field(default_factory=dict)
    lasting: set[str] = field(default_factory=set)
    advisory_count: int = 0
    queues_by_id: dict[int, Queue] = field(default_factory=dict)
    by_id: dict[int, Queue | Topic] = field(default_factory=dict)
    _next_unlogged: int = -1

    def __post_init__(self) -> None:
        self.shares = LaneShares(self.context.memory.limit_bytes)
        self.queue_roster = Roster(self.queues)
        self.topic_roster = Roster(self.topics)
        self._restore()

    def queue(self, name: str) -> Queue:
        """Return the queue ``name``, made at its first mention.  Raises: InvalidDestination, LimitReached."""
        queue = self.queues.get(name)
        if queue is None:
            if name.startswith(STATISTICS_PREFIX):
                return self._question_queue(name)
            self.check_new([(QUEUE, name)])
            queue = self._add_queue(self.context.store.open_destination(QUEUE, name), QUEUE, name)
        return queue

    def own_queue(self, name: str, is_lasting: bool = False) -> Queue:
        """Return a queue that the broker uses; it is made despite the limit.

        is_lasting: the configuration lists it, so ``auto_delete`` does not remove it.
        """
        if is_lasting:
            self.lasting.add(name)
        queue = self.queues.get(name)
        if queue is None:
            queue = self._add_queue(self.context.store.open_destination(QUEUE, name), QUEUE, name)
        return queue

    def topic(self, name: str) -> Topic:
        """Return the topic ``name``, made at its first mention.  Raises: InvalidDestination, LimitReached."""
        topic = self.topics.get(name)
        if topic is None:
            self.check_new([(TOPIC, name)])
            topic = self.own_topic(name)
        return topic

    def own_topic(self, name: str) -> Topic:
        """Return a topic that the configuration names, or that the broker uses; it is made despite the limit."""
        topic = self.topics.get(name)
        if topic is None:
            if name.startswith(ADVISORY_PREFIX):
                number = self._unlogged_number()
            else:
                number = self.context.store.open_destination(TOPIC, name)
            topic = self._add_topic(number, TOPIC, name)
        return topic

    def advisory_topic(self, name: str) -> Topic:
        """Make an advisory topic for subscribers of a wildcard."""
        topic = self.own_topic(name)
        topic.is_advisory = True
        self.advisory_count += 1
        return topic

    def target(self, kind: int, name: str) -> Queue | Topic:
        """Return a destination to send to.  Raises: InvalidDestination, LimitReached."""
        if is_management(name):
            return self._question_queue(name)
        if kind == QUEUE:
            return self.queue(name)
        return self.topic(name) if kind == TOPIC else self.temporary(kind, name)

    def source(self, kind: int, name: str) -> Queue | Topic | Wildcard:
        """Return a source to subscribe to.  Raises: InvalidDestination, LimitReached."""
        if is_wildcard(name) and kind in (QUEUE, TOPIC):
            return Wildcard(kind, name)
        return self.target(kind, name)

    def is_new(self, kind: int, name: str) -> bool:
        """Say whether ``target`` would make a queue or topic."""
        if kind not in (QUEUE, TOPIC) or name in (self.queues if kind == QUEUE else self.topics):
            return False
        is_question = is_management(name) or (kind == QUEUE and name.startswith(STATISTICS_PREFIX))
        return not is_question and not is_wildcard(name)

    def temporary(self, kind: int, name: str) -> Queue | Topic:
        """Return a temporary destination of any connection.  Raises: InvalidDestination if it is gone."""
        found = self.temporaries.get(name)
        if found is None or found.kind != kind:
            raise InvalidDestination(
                f"{uri(kind, name[:200])} does not exist; a temporary destination ends with the connection that made it"
            )
        return found

    def open_temporary(self, kind: int, client_number: int, name: str = "") -> Queue | Topic:
        """Make a temporary destination.

        name: chosen by a client; "" for one that is unique over all stores and starts.
        Raises: LimitReached; InvalidDestination if the name is taken or names no single destination.
        """
        if len(self.owned.get(client_number, ())) >= self.temporary_max:
            raise LimitReached(
                f"the connection has {self.temporary_max} temporary destinations, which is the limit "
                "(temporary-destinations-max); close one to make another"
            )
        store = self.context.store
        own_prefix = f"ID:{store.store_id()}-"
        if name:
            check_name(name)
            if name in self.temporaries:
                raise InvalidDestination(f"the temporary destination {name} exists already")
            if name.startswith(own_prefix):
                raise InvalidDestination(f"{name} is a name that the gateway itself would choose; others are allowed")
        number = self._unlogged_number()
        name = name or f"{own_prefix}{store.start_count()}-{client_number}:{-number}"
        self._check_count(name)
        destination: Queue | Topic
        if kind == TEMP_QUEUE:
            destination = self._add_queue(number, kind, name)
        else:
            assert kind == TEMP_TOPIC, f"kind {kind} is not temporary"
            destination = self._add_topic(number, kind, name)
        destination.owner = client_number
        self.owned.setdefault(client_number, []).append(destination)
        return destination

    def remove(self, destination: Queue | Topic) -> None:
        """Forget a destination; parts that still refer to it find it closed."""
        destination.is_closed = True
        destination.is_indirect = True
        number = destination.destination_id
        name = destination.name
        del self.by_id[number]
        self.accounts.close(number)
        destination.account = None  # messages of it in a transaction are no longer counted
        if number < 0:
            self.temporaries.pop(name, None)
            if destination.owner in self.owned:
                self.owned[destination.owner].remove(destination)
        else:
            self.context.store.close_destination(number)
        if isinstance(destination, Queue):
            self.shares.leave(len(destination.used_lanes))
            forget_lanes(destination)
            del self.queues_by_id[number]
            if destination.kind == QUEUE:
                self.queue_roster.pop(name)
        elif destination.kind == TOPIC:
            self.topic_roster.pop(name)
            self.advisory_count -= destination.is_advisory
        for observer in self.observers:
            observer.destination_removed(destination)
        self.readers.source_removed(number)

    def uri_of(self, number: int) -> str:
        """Return the destination with this number; "" if it is gone."""
        found = self.by_id.get(number)
        return "" if found is None else found.uri()

    def queue_of(self, number: int, reader: int) -> Queue | None:
        """Return the queue that requested a page of destination ``number``, None if it has gone."""
        return self.readers.queues.get(reader) if reader > 0 else self.queues_by_id.get(number)

    def all_queues(self) -> list[Queue]:
        """Return the queues, including those of subscriptions and browsers."""
        return [*self.queues_by_id.values(), *self.readers.queues.values()]

    def matching(self, wildcard: Wildcard) -> list[Queue | Topic]:
        """Return the destinations that a wildcard matches now, oldest first."""
        found: dict[str, Queue] | dict[str, Topic] = self.queues if wildcard.kind == QUEUE else self.topics
        return [destination for name, destination in found.items() if wildcard.matches(name)]

    def reader_queue(
        self, number: int, kind: int, name: str, settings: AddressSettings, is_logged: bool, feed: Feed
    ) -> Queue:
        """Return the queue of a subscription, or one that shows messages of another destination."""
        queue = Queue(number, kind, name, settings, is_logged, self.dirty_queues, self.context.memory, feed)
        if may_spill(queue) and not feed.is_browser:
            queue.spiller = self.spiller
        self.readers.add(queue)
        return queue

    def check_new(self, named: list[tuple[int, str]]) -> None:
        """Raises: InvalidDestination, LimitReached if queues and topics that do not exist may not be made."""
        for more, (kind, name) in enumerate(named):
            check_name(name)
            self._check_count(name, more)
            if not self.addresses.settings_for(kind, name).queue.auto_create and not name.startswith(ADVISORY_PREFIX):
                raise InvalidDestination(f"{uri(kind, name)} does not exist, and auto_create is off for it")

    def _check_count(self, name: str, more: int = 0) -> None:
        """Require room for ``name`` and ``more`` others.  Raises: LimitReached."""
        if len(self.by_id) - self.advisory_count + more >= self.count_max:
            raise LimitReached(
                f"{self.count_max} destinations exist, which is the limit (destinations-max); "
                f"{name[:200]!r} would be one more"
            )

    def _unlogged_number(self) -> int:
        number = self._next_unlogged
        self._next_unlogged = number - 1
        return number

    def _question_queue(self, name: str) -> Queue:
        """Return a queue for a question about the broker; each question has its own, as they keep nothing."""
        settings = self.addresses.settings_for(QUEUE, name)
        queue = QuestionQueue(
            self._unlogged_number(), QUEUE, name, settings, False, self.dirty_queues, self.context.memory
        )
        queue.is_indirect = True
        return queue

    def _add_queue(self, destination_id: int, kind: int, name: str) -> Queue:
        settings = self.addresses.settings_for(QUEUE, name)
        queue = Queue(destination_id, kind, name, settings, destination_id > 0, self.dirty_queues, self.context.memory)
        queue.extras.shares = self.shares
        if may_spill(queue):
            queue.spiller = self.spiller
        queue.account = self.accounts.open(destination_id, queue.uri(), settings.full)
        if is_keeping(settings):
            queue.extras.keeper = Keeper(self.context, queue, self.waiting_keepers)
        self.queues_by_id[destination_id] = queue
        if kind == QUEUE:
            self.queue_roster.add(name, queue)
        self._added(queue)
        return queue

    def _add_topic(self, destination_id: int, kind: int, name: str) -> Topic:
        settings = self.addresses.settings_for(TOPIC, name)
        topic = Topic(destination_id, kind, name, settings, destination_id > 0)
        topic.account = self.accounts.open(destination_id, topic.uri(), settings.full)
        if topic.account is not None:
            topic.account.topic = topic
        if kind == TOPIC:
            self.topic_roster.add(name, topic)
        self._added(topic)
        return topic

    def _added(self, destination: Queue | Topic) -> None:
        self.by_id[destination.destination_id] = destination
        if destination.kind in (TEMP_QUEUE, TEMP_TOPIC):
            self.temporaries[destination.name] = destination
        for observer in self.observers:
            observer.destination_added(destination)

    def _restore(self) -> None:
        """Restore the destinations that recovery found; their messages are paged in when they are needed."""
        for state in self.context.store.recovered():
            if state.kind == SUBSCRIPTION:
                continue  # restored by Subscriptions
            if state.name in INTERNAL_QUEUES:
                continue  # restored by Scheduler, DuplicateIds and Branches
            if is_wildcard(state.name):
                continue  # belongs to a durable subscription to a wildcard
            if is_topic(state.kind):
                self._add_topic(state.destination_id, TOPIC, state.name)
                continue
            queue = self._add_queue(state.destination_id, QUEUE, state.name)
            for found in state.lanes:
                lane = queue.lane(found.priority)
                attempts = waiting_from(found.attempts, self.context.wall_ms)
                queue.depth += lane.restore(found.tail, found.cursor, found.settled, attempts)
            if queue.account is not None:
                queue.account.restore(state.live_bytes, queue.depth)
            if queue.extras.keeper is not None:
                queue.extras.keeper.restored()
