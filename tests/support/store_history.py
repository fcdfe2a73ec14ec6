"""Random work on a store with a disk that fails and a machine that crashes, and what must hold after each start.

The law: what a start finds is what some prefix of the history made, none shorter than what had been confirmed, and
never a part of a transaction.  Every message that is pending then can be read, octet by octet, by the queue and by each
durable subscription; and the live bytes are what the pending messages add up to.
"""

from __future__ import annotations

import errno
import random
from dataclasses import dataclass, field

from engine.destination import QUEUE, TOPIC
from engine.errors import StoreError
from engine.message import PERSISTENT, STOMP, Message
from engine.ports import ACKNOWLEDGED, CAUSE_NACK, CAUSE_NONE, DestinationState, Range
from engine.store.file_store import FileStore
from engine.store.settings import StoreSettings
from engine.store.verify import verify
from tests.support.faulty_files import Crashed, FaultyFiles
from tests.support.store_world import ManualClock, ManualTimers, ManualWorkers, RecordingListener

TOPICS = ("news", "prices")
NAMES = ("orders", "bills", "audit", *TOPICS)
SUBSCRIPTIONS = ("mail", "archive", "screen")
PRIORITIES = (4, 4, 4, 7)


class ProgressModel:
    """What a queue, or a subscription, has settled of one lane, as a set of numbers."""

    def __init__(self, first: int = 0, counted_from: int = 0) -> None:
        self.settled: set[int] = set(range(first))
        self.counted_from = counted_from
        self.attempts: dict[int, tuple[int, int]] = {}


class LaneModel:
    """One consume queue: the messages that were ever in it."""

    def __init__(self) -> None:
        self.messages: list[tuple[bytes, int]] = []  # body and size

    def tail(self) -> int:
        return len(self.messages)


class HolderModel:
    """A queue, or a durable subscription of the topic ``source``: its progress by priority."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lanes: dict[int, ProgressModel] = {}

    def lane(self, priority: int) -> ProgressModel:
        return self.lanes.setdefault(priority, ProgressModel())


class Model:
    """lanes: by name of the destination and priority.  holders: queues by their names, subscriptions by theirs."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.lanes: dict[str, dict[int, LaneModel]] = {}
        self.holders: dict[str, HolderModel] = {}

    def lane(self, name: str, priority: int) -> LaneModel:
        return self.lanes[name].setdefault(priority, LaneModel())

    def pending(self, holder: str, priority: int) -> list[int]:
        """Return the entries that a queue or a subscription has not settled."""
        model = self.holders[holder]
        lane = self.lane(model.source, priority)
        return sorted(set(range(lane.tail())) - model.lane(priority).settled)

    def places(self) -> list[tuple[str, int]]:
        """Return (queue or subscription, priority) where something is pending."""
        return [
            (name, priority)
            for name, holder in sorted(self.holders.items())
            for priority in sorted(self.lanes[holder.source])
            if self.pending(name, priority)
        ]

    def live_bytes(self, name: str) -> int:
        """Return what messages add up to that a queue, or any subscription of a topic, still has to settle."""
        holders = [holder for holder in self.holders.values() if holder.source == name]
        return sum(
            size
            for priority, lane in self.lanes[name].items()
            for entry, (_, size) in enumerate(lane.messages)
            if any(
                entry >= holder.lane(priority).counted_from and entry not in holder.lane(priority).settled
                for holder in holders
            )
        )


class Operation:
    """One change that a record makes."""

    def apply(self, model: Model) -> None:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Opened(Operation):
    """starts: of a subscription: (first entry, tail) by priority."""

    name: str
    number: int
    source: str
    is_topic: bool = False
    starts: dict[int, tuple[int, int]] = field(default_factory=dict)

    def apply(self, model: Model) -> None:
        model.numbers[self.name] = self.number
        if self.source == self.name:
            model.lanes[self.name] = {}
        if not self.is_topic:
            holder = model.holders[self.name] = HolderModel(self.source)
            for priority, (first, tail) in self.starts.items():
                holder.lanes[priority] = ProgressModel(first, tail)


@dataclass(frozen=True, slots=True)
class Closed(Operation):
    name: str

    def apply(self, model: Model) -> None:
        names = [self.name, *(name for name, holder in model.holders.items() if holder.source == self.name)]
        for name in dict.fromkeys(names):
            del model.numbers[name]
            model.lanes.pop(name, None)
            model.holders.pop(name, None)


@dataclass(frozen=True, slots=True)
class Appended(Operation):
    name: str
    priority: int
    queue_offset: int
    body: bytes
    size: int

    def apply(self, model: Model) -> None:
        lane = model.lane(self.name, self.priority)
        assert self.queue_offset == lane.tail(), "entries of a queue are numbered without gaps"
        lane.messages.append((self.body, self.size))


@dataclass(frozen=True, slots=True)
class Settled(Operation):
    holder: str
    priority: int
    first: int
    count: int

    def apply(self, model: Model) -> None:
        progress = model.holders[self.holder].lane(self.priority)
        for entry in range(self.first, self.first + self.count):
            progress.settled.add(entry)
            progress.attempts.pop(entry, None)


@dataclass(frozen=True, slots=True)
class Failed(Operation):
    holder: str
    priority: int
    entry: int
    delivery_count: int
    due_ms: int

    def apply(self, model: Model) -> None:
        model.holders[self.holder].lane(self.priority).attempts[self.entry] = (self.delivery_count, self.due_ms)


class Step:
    """One record, or all of a transaction; ``end``: the log offset just past it."""

    def __init__(self) -> None:
        self.end = 0
        self.operations: list[Operation] = []

    def apply(self, model: Model) -> None:
        for operation in self.operations:
            operation.apply(model)


class History:
    """One seed's life of a store, over many starts."""

    def __init__(self, seed: int, flush: str = "sync") -> None:
        self.chance = random.Random(seed)
        self.flush = flush
        self.files = FaultyFiles(seed)
        self.clock = ManualClock()
        self.steps: list[Step] = []
        self.confirmed_offset = 0
        self.highest_offset = 0  # of any message ever written: a later one must not have its offset
        self.starts = 0
        self.crashes = 0
        self.model = Model()
        self.is_open = False
        self.settings = StoreSettings(
            segment_bytes=self.chance.choice((4096, 8192, 16384)),
            flush=flush,
            flush_interval_ms=100,
            retry_interval_ms=50,
            retention_time_ms=self.chance.choice((0, 1 << 40)),
            retention_bytes=self.chance.choice((0, 20_000, 1 << 40)),
            retention_interval_ms=200,
        )

    def run(self, step_count: int) -> None:
        """Live; a crash ends one start and begins the next."""
        self.start()
        for _ in range(step_count):
            try:
                self._do()
            except Crashed:
                self.crash()
        self.crash()

    def start(self) -> None:
        while True:
            self.timers = ManualTimers(self.clock)
            self.workers = ManualWorkers()
            self.listener = RecordingListener()
            if self.starts:
                findings = verify(self.files, "data").findings
                assert findings == [], f"the store is not sound: {findings[0]}"
            if self.chance.random() < 0.2:
                self.files.crash_at = self.files.operations + self.chance.randint(1, 120)
            try:
                self.store = FileStore("data", self.files, self.workers, self.clock, self.timers, self.settings)
                break
            except Crashed:
                self.files = self.files.crash() if self.chance.random() < 0.6 else self.files.killed()
        self.files.crash_at = 0
        self.starts += 1
        self.store.attach(self.listener)
        self._check()
        if self.chance.random() < 0.5:
            self.files.crash_at = self.files.operations + self.chance.randint(1, 400)

    def crash(self) -> None:
        self.crashes += 1
        self._confirm()
        self.files = self.files.crash() if self.chance.random() < 0.6 else self.files.killed()
        self.start()

    def _confirm(self) -> None:
        if self.flush == "sync":
            self.confirmed_offset = max(self.confirmed_offset, self.listener.durable_offset)
        for step in self.steps:
            if step.end <= self.store.written_offset():
                self.highest_offset = max(self.highest_offset, step.end)

    # What must hold after a start.

    def _check(self) -> None:
        found = {state.name: state for state in self.store.recovered()}
        assert len(found) == len(self.store.recovered()), "a name stands for two numbers"
        model = Model()
        kept = 0
        while kept < len(self.steps) and self.steps[kept].end <= self.confirmed_offset:
            self.steps[kept].apply(model)
            kept += 1
        while not self._agrees(model, found):
            assert kept < len(self.steps), "what was found is no prefix of the history from what was confirmed on"
            self.steps[kept].apply(model)
            kept += 1
        del self.steps[kept:]
        self.model = model
        assert self.store.append_offset() >= self.highest_offset, "an offset would name two records"
        self.confirmed_offset = max(self.confirmed_offset, self.steps[-1].end if self.steps else 0)
        self._read_all()
        for name, number in model.numbers.items():
            if name in model.lanes:
                live_bytes = self.store.state_of(number).live_bytes
                assert live_bytes == model.live_bytes(name), f"{name} has {live_bytes} live bytes"

    def _agrees(self, model: Model, found: dict[str, DestinationState]) -> bool:
        if model.numbers != {name: state.destination_id for name, state in found.items()}:
            return False
        for name, state in found.items():
            holder = model.holders.get(name)
            lanes = model.lanes[name if holder is None else holder.source]
            if {lane.priority: lane.tail for lane in state.lanes if lane.tail} != {
                priority: lane.tail() for priority, lane in lanes.items() if lane.tail()
            }:
                return False
            for lane in state.lanes:
                settled = set(range(lane.cursor))
                for first, count in lane.settled:
                    settled.update(range(first, first + count))
                expected = ProgressModel(lane.tail) if holder is None else holder.lane(lane.priority)
                attempts = {entry: (known.count, known.due_ms) for entry, known in lane.attempts.items()}
                if settled != expected.settled or attempts != expected.attempts:
                    return False
        return True

    def _read_all(self) -> None:
        """Everything pending and written can be read."""
        self.workers.run_all()
        for name, priority in self.model.places():
            holder = self.model.holders[name]
            messages = self.model.lane(holder.source, priority).messages
            number = self.model.numbers[holder.source]
            first = self.model.pending(name, priority)[0]
            while first < len(messages):
                self.listener.pages.clear()
                reader = self.chance.randint(0, 3)
                self.store.request(number, priority, first, self.chance.randint(1, 50), 5000, reader)
                self.workers.run_all()
                assert not self.listener.page_failures, self.listener.page_failures
                (page,) = self.listener.pages
                assert page.reader == reader
                got = {message.queue_offset: message.body for message in page.messages}
                for entry in range(first, page.next_offset):
                    progress = holder.lane(priority)
                    is_needed = entry not in progress.settled and entry >= progress.counted_from
                    assert entry in got or not is_needed, f"entry {entry} of {name} is missing"
                    assert got.get(entry, messages[entry][0]) == messages[entry][0], f"entry {entry} of {name}"
                assert page.next_offset > first
                first = page.next_offset

    # Work.

    def _do(self) -> None:
        chance = self.chance
        work = chance.random()
        if work < 0.35:
            self._batch()
        elif work < 0.45:
            self._transaction()
        elif work < 0.6:
            self._settle()
        elif work < 0.63:
            self._fail()
        elif work < 0.66:
            self._subscribe()
        elif work < 0.663:
            self._close()
        elif work < 0.85:
            self.workers.run_one()
        elif work < 0.88:
            self.timers.advance(chance.choice((10, 60, 250)))
        elif work < 0.90:
            self.files.short_writes = chance.randint(1, 4)
        elif work < 0.93:
            self._break_disk()
        elif work < 0.97:
            self._mend_disk()
        elif work < 0.98:
            self._stop()
        elif work < 0.99:
            raise Crashed
        if chance.random() < 0.7:
            self.store.write()
            if chance.random() < 0.7:
                self.store.sync()

    def _break_disk(self) -> None:
        kind = self.chance.random()
        if kind < 0.4:
            self.files.fail("fdatasync", errno.EIO, count=self.chance.randint(1, 2))
        elif kind < 0.6:
            self.files.fail("pwrite", errno.EIO, count=self.chance.randint(1, 3), skip=self.chance.randint(0, 3))
        elif kind < 0.8:
            self.files.free_bytes = self.chance.randint(0, 9000)
        else:
            self.files.error_rate = 0.2

    def _mend_disk(self) -> None:
        """Once the disk works again, everything heals within some retries."""
        self.files.heal()
        for _ in range(8):
            self.store.write()
            self.store.sync()
            self.timers.advance(60)
            self.workers.run_all()
        assert self.store.is_accepting(), self.listener.failures
        assert self.store.durable_offset() == self.store.append_offset() or self.flush == "async"
        assert self.listener.healed_count == len(self.listener.failures)
        self._confirm()

    def _stop(self) -> None:
        """An orderly stop, which a broken disk makes an unclean one."""
        self.workers.run_all()
        end = self.store.append_offset()
        try:
            self.store.close()
        except StoreError:
            pass
        else:
            self.confirmed_offset = end
        self._confirm()
        self.files.heal()
        self.files.crash_at = 0
        if self.chance.random() < 0.5:
            self.files = self.files.crash() if self.chance.random() < 0.5 else self.files.killed()
        self.start()

    def _number(self, name: str) -> int:
        """Return the number of a queue or topic, opened if it is not there."""
        number = self.model.numbers.get(name, 0)
        if not number:
            is_topic = name in TOPICS
            number = self.store.open_destination(TOPIC if is_topic else QUEUE, name)
            self._end(Opened(name, number, name, is_topic))
        return number

    def _message(self) -> Message:
        name = self.chance.choice(NAMES)
        body = self.chance.randbytes(self.chance.choice((0, 10, 100, 700)))
        if self.chance.random() < 0.01:
            body = bytes(20_000)
        priority = self.chance.choice(PRIORITIES)
        return Message(self._number(name), STOMP, PERSISTENT, priority, 0, 0, 0, b"", name.encode(), body)

    def _append(self, message: Message) -> Operation:
        self.store.append(message)
        name = message.headers.decode()
        return Appended(name, message.priority, message.queue_offset, message.body, message.size)

    def _end(self, *operations: Operation) -> None:
        step = Step()
        step.operations += operations
        step.end = self.store.append_offset()
        self.steps.append(step)
        step.apply(self.model)

    def _batch(self) -> None:
        for _ in range(self.chance.randint(1, 12)):
            self._end(self._append(self._message()))

    def _transaction(self) -> None:
        messages = [self._message() for _ in range(self.chance.randint(1, 5))]
        room = sum(self.store.record_bytes(message) for message in messages)
        self.store.begin(room + self.store.settlement_bytes(1))
        operations = [self._append(message) for message in messages]
        picked = self._pick()
        if picked is not None and self.chance.random() < 0.5:
            operations.append(self._settle_picked(picked))
        self.store.commit()
        self._end(*operations)

    def _pick(self) -> Settled | None:
        """Choose consecutive pending entries of a queue or subscription, mostly the oldest."""
        places = self.model.places()
        if not places:
            return None
        name, priority = self.chance.choice(places)
        pending = self.model.pending(name, priority)
        first = pending[0] if self.chance.random() < 0.7 else self.chance.choice(pending)
        count = 1
        while first + count in pending and count < 30 and self.chance.random() < 0.9:
            count += 1
        return Settled(name, priority, first, count)

    def _settle_picked(self, picked: Settled) -> Operation:
        number = self.model.numbers[picked.holder]
        lane = self.model.lane(self.model.holders[picked.holder].source, picked.priority)
        sizes = [size for _, size in lane.messages[picked.first : picked.first + picked.count]]
        if self.chance.random() < 0.5 and (len(sizes) == 1 or picked.holder in self.model.lanes):
            args = (picked.priority, picked.first, picked.count, sum(sizes))
            self.store.settle_range(number, 0, ACKNOWLEDGED, CAUSE_NONE, *args)
        else:
            ranges = [Range(picked.priority, picked.first, picked.count, 0, sum(sizes), sizes)]
            self.store.settle(number, 0, ACKNOWLEDGED, CAUSE_NONE, ranges)
        return picked

    def _settle(self) -> None:
        picked = self._pick()
        if picked is not None:
            self._end(self._settle_picked(picked))

    def _fail(self) -> None:
        picked = self._pick()
        if picked is not None:
            delivery_count = self.chance.randint(1, 6)
            due_ms = self.chance.choice((0, self.clock.wall_ms() + 1000))
            ranges = [Range(picked.priority, picked.first, 1, delivery_count)]
            self.store.fail_attempts(self.model.numbers[picked.holder], 0, CAUSE_NACK, due_ms, ranges)
            self._end(Failed(picked.holder, picked.priority, picked.first, delivery_count, due_ms))

    def _subscribe(self) -> None:
        """Open a durable subscription, perhaps with what was published before it, or close one."""
        name = self.chance.choice(SUBSCRIPTIONS)
        number = self.model.numbers.get(name, 0)
        if number:
            if self.chance.random() < 0.4:
                self.store.close_destination(number)
                self._end(Closed(name))
            return
        topic = self.chance.choice(TOPICS)
        topic_id = self._number(topic)
        tails = {priority: lane.tail() for priority, lane in self.model.lanes[topic].items() if lane.tail()}
        wanted = {priority: self.chance.randint(0, tail) for priority, tail in tails.items()}
        starts = wanted if self.chance.random() < 0.3 else {}
        number = self.store.open_subscription(topic_id, name, {"client_id": name}, starts)
        places = {priority: (starts.get(priority, tail), tail) for priority, tail in tails.items()}
        self._end(Opened(name, number, topic, False, places))

    def _close(self) -> None:
        name = self.chance.choice(NAMES)
        number = self.model.numbers.get(name, 0)
        if number:
            self.store.close_destination(number)
            self._end(Closed(name))
