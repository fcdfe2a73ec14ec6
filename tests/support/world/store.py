"""Operations on the store, and its state after a stop, which must be that of a prefix of them.

``RecordingStore`` is between the engine and the store and notes every operation that changes the state after a restart.
A batch between ``begin`` and ``commit`` is one unit.  After a crash, ``census`` reads everything back through the
store's own port, and ``find_prefix`` returns the unit after which the log was cut, if there is one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.ports.store import Store, StoreListener
from engine.values.destination import QUEUE, SUBSCRIPTION, TOPIC
from engine.values.message import Message
from engine.values.stored import DestinationState, EntryColumns, Range, single_ranges
from tests.support.world.bodies import Violation, uid_of
from tests.support.world.replays import LogBook
from tests.support.world.time import VirtualWorkers

PAGE_COUNT = 1_000
PAGE_BYTES = 64 << 20


class StoreWrapper(Store):
    """Forwards every call; planted bugs are subclasses of it."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    def store_id(self) -> str:
        return self.inner.store_id()

    def start_count(self) -> int:
        return self.inner.start_count()

    def attach(self, listener: StoreListener) -> None:
        self.inner.attach(listener)

    def recovered(self) -> list[DestinationState]:
        return self.inner.recovered()

    def open_destination(self, kind: int, name: str) -> int:
        return self.inner.open_destination(kind, name)

    def open_subscription(
        self, topic_id: int, name: str, description: dict[str, str], starts: dict[int, int] | None = None
    ) -> int:
        return self.inner.open_subscription(topic_id, name, description, starts)

    def close_destination(self, number: int) -> None:
        self.inner.close_destination(number)

    def state_of(self, number: int) -> DestinationState:
        return self.inner.state_of(number)

    def live_bytes(self, number: int) -> int:
        return self.inner.live_bytes(number)

    def open_consumer(self, destination_id: int, description: dict[str, str]) -> int:
        return self.inner.open_consumer(destination_id, description)

    def close_consumer(self, number: int) -> None:
        self.inner.close_consumer(number)

    def consumer_description(self, number: int) -> dict[str, str]:
        return self.inner.consumer_description(number)

    def set_time(self, wall_ms: int) -> None:
        self.inner.set_time(wall_ms)

    def append(self, message: Message) -> None:
        self.inner.append(message)

    def settle(self, destination_id: int, consumer_id: int, outcome: int, cause: int, ranges: list[Range]) -> None:
        self.inner.settle(destination_id, consumer_id, outcome, cause, ranges)

    def fail_attempts(
        self, destination_id: int, consumer_id: int, cause: int, due_ms: int, ranges: list[Range]
    ) -> None:
        self.inner.fail_attempts(destination_id, consumer_id, cause, due_ms, ranges)

    def begin(self) -> None:
        self.inner.begin()

    def commit(self) -> None:
        self.inner.commit()

    def write(self) -> None:
        self.inner.write()

    def sync(self) -> None:
        self.inner.sync()

    def append_offset(self) -> int:
        return self.inner.append_offset()

    def written_offset(self) -> int:
        return self.inner.written_offset()

    def durable_offset(self) -> int:
        return self.inner.durable_offset()

    def confirmed_offset(self) -> int:
        return self.inner.confirmed_offset()

    def is_accepting(self) -> bool:
        return self.inner.is_accepting()

    def request(
        self, destination_id: int, priority: int, first: int, count: int, limit_bytes: int, reader: int = 0
    ) -> None:
        self.inner.request(destination_id, priority, first, count, limit_bytes, reader)

    def look_for_expired(self, destination_id: int, priority: int, first: int, count: int, wall_ms: int) -> None:
        self.inner.look_for_expired(destination_id, priority, first, count, wall_ms)

    def seek(self, destination_id: int, what: int, value: int, reader: int) -> None:
        self.inner.seek(destination_id, what, value, reader)

    def entries(self, destination_id: int, priority: int, first: int, count: int) -> EntryColumns:
        return self.inner.entries(destination_id, priority, first, count)

    def read_messages(self, destination_id: int, priority: int, first: int, count: int) -> list[Message]:
        return self.inner.read_messages(destination_id, priority, first, count)

    def close(self) -> None:
        self.inner.close()


class TornApart(StoreWrapper):
    """What belongs together is not written as one batch."""

    def begin(self) -> None:
        pass

    def commit(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Waiting:
    """One message on a queue after a restart.  due_ms: wall clock, 0 for at once."""

    uid: int
    log_offset: int
    failed_attempts: int = 0
    due_ms: int = 0


@dataclass(slots=True)
class LaneImage:
    tail: int = 0
    waiting: dict[int, Waiting] = field(default_factory=dict)


@dataclass(slots=True)
class Image:
    """The state after a restart.  Lanes by (destination, priority); topics have a tail and no waiting messages.

    A durable subscription has the name of its topic here, because no topic of the World has two.  topics: subscription
    -> topic.
    """

    destinations: dict[int, tuple[int, str]] = field(default_factory=dict)
    topics: dict[int, int] = field(default_factory=dict)
    lanes: dict[tuple[int, int], LaneImage] = field(default_factory=dict)

    def lane(self, destination_id: int, priority: int) -> LaneImage:
        return self.lanes.setdefault((destination_id, priority), LaneImage())

    def on_queue(self, kind: int, name: str) -> dict[int, Waiting]:
        """Return the waiting messages by uid.  Raises: Violation if one waits there twice."""
        found: dict[int, Waiting] = {}
        for (destination_id, _), lane in sorted(self.lanes.items()):
            if self.destinations[destination_id] == (kind, name):
                for waiting in lane.waiting.values():
                    if waiting.uid in found:
                        raise Violation(f"after a restart message {waiting.uid} is on {name} twice")
                    found[waiting.uid] = waiting
        return found

    def copy(self) -> Image:
        lanes = {key: LaneImage(lane.tail, dict(lane.waiting)) for key, lane in self.lanes.items()}
        return Image(dict(self.destinations), dict(self.topics), lanes)


class Operation:
    """One change of an image."""

    def apply(self, image: Image) -> None:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Opened(Operation):
    destination_id: int
    kind: int
    name: str

    def apply(self, image: Image) -> None:
        image.destinations[self.destination_id] = (self.kind, self.name)


@dataclass(frozen=True, slots=True)
class Subscribed(Operation):
    number: int
    topic_id: int
    topic: str

    def apply(self, image: Image) -> None:
        image.destinations[self.number] = (SUBSCRIPTION, self.topic)
        image.topics[self.number] = self.topic_id
        for (destination_id, priority), lane in list(image.lanes.items()):
            if destination_id == self.topic_id:
                image.lane(self.number, priority).tail = lane.tail


@dataclass(frozen=True, slots=True)
class Closed(Operation):
    number: int

    def apply(self, image: Image) -> None:
        del image.destinations[self.number]
        image.topics.pop(self.number, None)
        for key in [key for key in image.lanes if key[0] == self.number]:
            del image.lanes[key]


@dataclass(frozen=True, slots=True)
class Appended(Operation):
    destination_id: int
    priority: int
    queue_offset: int
    uid: int
    log_offset: int

    def apply(self, image: Image) -> None:
        lane = image.lane(self.destination_id, self.priority)
        lane.tail = self.queue_offset + 1
        if image.destinations[self.destination_id][0] != TOPIC:
            lane.waiting[self.queue_offset] = Waiting(self.uid, self.log_offset)
            return
        for number, topic_id in image.topics.items():
            if topic_id == self.destination_id:
                of_subscription = image.lane(number, self.priority)
                of_subscription.tail = lane.tail
                of_subscription.waiting[self.queue_offset] = Waiting(self.uid, self.log_offset)


@dataclass(frozen=True, slots=True)
class Settled(Operation):
    destination_id: int
    entries: tuple[tuple[int, int], ...]  # (priority, queue offset)

    def apply(self, image: Image) -> None:
        for priority, entry in self.entries:
            image.lane(self.destination_id, priority).waiting.pop(entry, None)


@dataclass(frozen=True, slots=True)
class Failed(Operation):
    destination_id: int
    due_ms: int
    entries: tuple[tuple[int, int, int], ...]  # (priority, queue offset, delivery count)

    def apply(self, image: Image) -> None:
        for priority, entry, count in self.entries:
            waiting = image.lane(self.destination_id, priority).waiting
            known = waiting.get(entry)
            if known is not None:
                waiting[entry] = Waiting(known.uid, known.log_offset, count, self.due_ms)


@dataclass(slots=True)
class Unit:
    """Operations that are recovered together.  end: log offset just past them."""

    operations: list[Operation]
    end: int


class RecordingStore(StoreWrapper):
    """Notes the engine's calls of the store; ``base``: the recovered state; ``book``: notes each message.

    sent_in, settled_in, failed_in: (destination, uid, delivery count) -> number of the unit with that operation.
    opened_in: the same for the opening of a durable subscription, uid 0.
    """

    def __init__(self, inner: Store, base: Image, book: LogBook) -> None:
        super().__init__(inner)
        self.base = base
        self.book = book
        self.units: list[Unit] = []
        self.sent_in: dict[tuple[int, int, int], int] = {}
        self.settled_in: dict[tuple[int, int, int], int] = {}
        self.failed_in: dict[tuple[int, int, int], int] = {}
        self.opened_in: dict[tuple[int, int, int], int] = {}
        self._topics = dict(base.topics)
        self._settled: set[tuple[int, int, int]] = set()  # by destination, priority and entry
        self._uids: dict[tuple[int, int, int], int] = {}
        self._ids = {place: number for number, place in base.destinations.items()}
        self._open: list[Operation] | None = None
        for (destination_id, priority), lane in base.lanes.items():
            for entry, waiting in lane.waiting.items():
                self._uids[self._source(destination_id), priority, entry] = waiting.uid

    def number_of(self, kind: int, name: str) -> int:
        """Return a destination's number, 0 if the store does not know it."""
        return self._ids.get((kind, name), 0)

    def _source(self, number: int) -> int:
        """Return the destination of a number's entries: for a subscription, its topic."""
        return self._topics.get(number, number)

    def _note(self, operation: Operation) -> None:
        if self._open is None:
            self.units.append(Unit([operation], self.inner.append_offset()))
        else:
            self._open.append(operation)

    def open_destination(self, kind: int, name: str) -> int:
        number = self.inner.open_destination(kind, name)
        if (kind, name) not in self._ids:
            self._ids[kind, name] = number
            self._note(Opened(number, kind, name))
        return number

    def open_subscription(
        self, topic_id: int, name: str, description: dict[str, str], starts: dict[int, int] | None = None
    ) -> int:
        assert not starts, "no subscription of the World looks back"
        number = self.inner.open_subscription(topic_id, name, description, starts)
        topic = next(place[1] for place, known in self._ids.items() if known == topic_id)
        self._ids[SUBSCRIPTION, topic] = number
        self._topics[number] = topic_id
        self.opened_in[number, 0, 0] = len(self.units)
        self._note(Subscribed(number, topic_id, topic))
        return number

    def close_destination(self, number: int) -> None:
        self.inner.close_destination(number)
        self._ids = {place: known for place, known in self._ids.items() if known != number}
        self._note(Closed(number))

    def append(self, message: Message) -> None:
        self.inner.append(message)
        uid = uid_of(message)
        place = (message.destination_id, message.priority, message.queue_offset)
        self._uids[place] = uid
        self.sent_in[message.destination_id, uid, 0] = len(self.units)
        self.book.appended(message, uid, len(self.units))
        self._note(Appended(*place, uid, message.log_offset))

    def settle(self, destination_id: int, consumer_id: int, outcome: int, cause: int, ranges: list[Range]) -> None:
        runs = single_ranges(ranges)
        entries = tuple((one.priority, entry) for one in runs for entry in range(one.first, one.first + one.count))
        self.inner.settle(destination_id, consumer_id, outcome, cause, ranges)
        self._check_known(consumer_id)
        for priority, entry in entries:
            uid = self._uids[self._source(destination_id), priority, entry]
            if (destination_id, priority, entry) in self._settled:
                raise Violation(f"message {uid} of destination {destination_id} is settled twice in the log")
            self._settled.add((destination_id, priority, entry))
            self.settled_in[destination_id, uid, 0] = len(self.units)
        self._note(Settled(destination_id, entries))

    def fail_attempts(
        self, destination_id: int, consumer_id: int, cause: int, due_ms: int, ranges: list[Range]
    ) -> None:
        entries = tuple(
            (one.priority, entry, one.delivery_count)
            for one in ranges
            for entry in range(one.first, one.first + one.count)
        )
        self.inner.fail_attempts(destination_id, consumer_id, cause, due_ms, ranges)
        self._check_known(consumer_id)
        for priority, entry, count in entries:
            uid = self._uids[self._source(destination_id), priority, entry]
            self.failed_in[destination_id, uid, count] = len(self.units)
        self._note(Failed(destination_id, due_ms, entries))

    def _check_known(self, consumer_id: int) -> None:
        """Raises: Violation for a record of a consumer that the store has forgotten, and a restart could not name."""
        if consumer_id and not self.inner.consumer_description(consumer_id):
            raise Violation(f"a record names consumer {consumer_id}, which is forgotten")

    def begin(self) -> None:
        self.inner.begin()
        assert self._open is None, "batches do not nest at the store's interface"
        self._open = []

    def commit(self) -> None:
        assert self._open is not None, "a batch is committed that was not begun"
        self.inner.commit()
        operations, self._open = self._open, None
        # An empty one keeps its number, which was in use while it was open.
        self.units.append(Unit(operations, self.inner.append_offset()))

    def find_prefix(self, found: Image, least: int) -> int | None:
        """Return the number of units, at least ``least``, after which the log was cut; None if ``found`` fits none."""
        image = self.base.copy()
        for number in range(len(self.units) + 1):
            if number >= least and image == found:
                return number
            if number < len(self.units):
                for operation in self.units[number].operations:
                    operation.apply(image)
        return None

    def describe_difference(self, found: Image, least: int) -> str:
        """Describe how ``found`` differs from the state after ``least`` units, for readers of a failing seed."""
        image = self.base.copy()
        for unit in self.units[:least]:
            for operation in unit.operations:
                operation.apply(image)
        lines: list[str] = []
        for number in sorted(image.destinations.keys() | found.destinations.keys()):
            if image.destinations.get(number) != found.destinations.get(number):
                lines.append(
                    f"destination {number}: {image.destinations.get(number)}, {found.destinations.get(number)}"
                )
        for key in sorted(image.lanes.keys() | found.lanes.keys()):
            wanted = image.lanes.get(key, LaneImage())
            seen = found.lanes.get(key, LaneImage())
            if wanted.tail != seen.tail:
                lines.append(f"lane {key}: tail {wanted.tail}, found {seen.tail}")
            for entry in sorted(wanted.waiting.keys() | seen.waiting.keys()):
                if wanted.waiting.get(entry) != seen.waiting.get(entry):
                    lines.append(
                        f"lane {key} entry {entry}: {wanted.waiting.get(entry)}, found {seen.waiting.get(entry)}"
                    )
        return "\n  ".join(lines[:20])


class _Census(StoreListener):
    """Collects pages; ``next_offset``: the end of the last answer."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.next_offset = -1

    def durable(self, offset: int) -> None:
        pass

    def page_loaded(
        self, destination_id: int, priority: int, first: int, next_offset: int, messages: list[Message], reader: int = 0
    ) -> None:
        self.messages += messages
        self.next_offset = next_offset

    def page_failed(self, destination_id: int, priority: int, first: int, reason: str, reader: int = 0) -> None:
        raise Violation(f"a page cannot be read after a restart: {reason}")

    def store_failed(self, reason: str) -> None:
        pass

    def store_healed(self) -> None:
        pass


def census(store: Store, workers: VirtualWorkers) -> Image:
    """Return the recovered state, read through the store's own port."""
    image = Image()
    listener = _Census()
    store.attach(listener)
    for destination in store.recovered():
        source_id = destination.topic_id or destination.destination_id
        name = image.destinations[source_id][1] if destination.topic_id else destination.name
        image.destinations[destination.destination_id] = (destination.kind, name)
        if destination.topic_id:
            image.topics[destination.destination_id] = source_id
        live_bytes = 0
        for found in destination.lanes:
            if not found.tail:
                continue
            lane = image.lane(destination.destination_id, found.priority)
            lane.tail = found.tail
            settled = {entry for first, count in found.settled for entry in range(first, first + count)}
            at = found.cursor
            while at < found.tail:
                listener.messages.clear()
                listener.next_offset = -1
                store.request(source_id, found.priority, at, PAGE_COUNT, PAGE_BYTES)
                while listener.next_offset < 0:
                    if workers.is_idle():
                        raise Violation("a request for a page is never answered")
                    workers.step(*workers.choices()[0])
                if listener.next_offset <= at:
                    raise Violation(f"entries from {at} on of {destination.name} are not there after a restart")
                at = listener.next_offset
                for message in listener.messages:
                    if message.queue_offset in settled:
                        continue
                    live_bytes += message.size
                    known = found.attempts.get(message.queue_offset)
                    attempts, due_ms = (0, 0) if known is None else (known.count, known.due_ms)
                    lane.waiting[message.queue_offset] = Waiting(uid_of(message), message.log_offset, attempts, due_ms)
        if destination.kind == QUEUE and live_bytes != destination.live_bytes:
            raise Violation(f"{destination.name} has {destination.live_bytes} live bytes, {live_bytes} wait there")
    return image
