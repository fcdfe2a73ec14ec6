"""Random work on a store with a disk that fails and a machine that crashes, and what must hold after each start.

The law: what a start finds is what some prefix of the history made, none shorter than what had been confirmed, and
never a part of a transaction.  Every message that is pending then can be read, octet by octet.
"""

from __future__ import annotations

import errno
import random

from engine.destination import QUEUE
from engine.errors import StoreError
from engine.message import PERSISTENT, STOMP, Message
from engine.ports import ACKNOWLEDGED, CAUSE_NACK, CAUSE_NONE, LaneState, Range
from engine.store.file_store import FileStore
from engine.store.settings import StoreSettings
from tests.support.faulty_files import Crashed, FaultyFiles
from tests.support.store_world import ManualClock, ManualTimers, ManualWorkers, RecordingListener

NAMES = ("orders", "bills", "audit")
PRIORITIES = (4, 4, 4, 7)


class LaneModel:
    """One consume queue as a set of numbers."""

    def __init__(self) -> None:
        self.bodies: dict[int, bytes] = {}
        self.tail = 0
        self.settled: set[int] = set()
        self.attempts: dict[int, tuple[int, int]] = {}


class Step:
    """One record, or all of a transaction; ``end``: the log offset just past it."""

    def __init__(self) -> None:
        self.end = 0
        self.appended: list[tuple[str, int, int, bytes]] = []
        self.settled: list[tuple[str, int, int, int]] = []
        self.failed: list[tuple[str, int, int, int, int]] = []


Model = dict[tuple[str, int], LaneModel]


def play(steps: list[Step]) -> Model:
    """Return what a history leads to."""
    model: Model = {}
    for step in steps:
        apply(model, step)
    return model


def apply(model: Model, step: Step) -> None:
    for name, priority, entry, body in step.appended:
        lane = model.setdefault((name, priority), LaneModel())
        assert entry == lane.tail, "entries of a queue are numbered without gaps"
        lane.bodies[entry] = body
        lane.tail = entry + 1
    for name, priority, entry, delivery_count, due_ms in step.failed:
        model[(name, priority)].attempts[entry] = (delivery_count, due_ms)
    for name, priority, first, count in step.settled:
        lane = model[(name, priority)]
        for entry in range(first, first + count):
            lane.settled.add(entry)
            lane.attempts.pop(entry, None)


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
        self.numbers: dict[str, int] = {}
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
        found = {
            (state.name, lane.priority): lane for state in self.store.recovered() for lane in state.lanes if lane.tail
        }
        self.numbers = {state.name: state.destination_id for state in self.store.recovered()}
        model: Model = {}
        kept = 0
        while kept < len(self.steps) and self.steps[kept].end <= self.confirmed_offset:
            apply(model, self.steps[kept])
            kept += 1
        while not self._agrees(model, found):
            assert kept < len(self.steps), "what was found is no prefix of the history from what was confirmed on"
            apply(model, self.steps[kept])
            kept += 1
        del self.steps[kept:]
        self.model = model
        assert self.store.append_offset() >= self.highest_offset, "an offset would name two records"
        self.confirmed_offset = max(self.confirmed_offset, self.steps[-1].end if self.steps else 0)
        self._read_all()

    def _agrees(self, model: Model, found: dict[tuple[str, int], LaneState]) -> bool:
        if set(model) != set(found):
            return False
        for key, lane in model.items():
            state = found[key]
            settled = set(range(state.cursor))
            for first, count in state.settled:
                settled.update(range(first, first + count))
            if state.tail != lane.tail or settled != lane.settled:
                return False
            if {entry: (known.count, known.due_ms) for entry, known in state.attempts.items()} != lane.attempts:
                return False
        return True

    def _read_all(self) -> None:
        """Everything pending and written can be read."""
        self.workers.run_all()
        for (name, priority), lane in self.model.items():
            first = min(set(range(lane.tail + 1)) - lane.settled)
            while first < lane.tail:
                self.listener.pages.clear()
                self.store.request(self.numbers[name], priority, first, self.chance.randint(1, 50), 5000)
                self.workers.run_all()
                assert not self.listener.page_failures, self.listener.page_failures
                (page,) = self.listener.pages
                got = {message.queue_offset: message.body for message in page.messages}
                for entry in range(first, page.next_offset):
                    assert entry in lane.settled or got[entry] == lane.bodies[entry], f"entry {entry} of {name}"
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
        elif work < 0.65:
            self._fail()
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

    def _message(self, step: Step) -> Message:
        name = self.chance.choice(NAMES)
        if name not in self.numbers:
            self.numbers[name] = self.store.open_destination(QUEUE, name)
        body = self.chance.randbytes(self.chance.choice((0, 10, 100, 700)))
        if self.chance.random() < 0.01:
            body = bytes(20_000)
        priority = self.chance.choice(PRIORITIES)
        return Message(self.numbers[name], STOMP, PERSISTENT, priority, 0, 0, 0, b"", name.encode(), body)

    def _append(self, step: Step, message: Message) -> None:
        self.store.append(message)
        name = message.headers.decode()
        step.appended.append((name, message.priority, message.queue_offset, message.body))

    def _end(self, step: Step) -> None:
        step.end = self.store.append_offset()
        self.steps.append(step)
        apply(self.model, step)

    def _batch(self) -> None:
        for _ in range(self.chance.randint(1, 12)):
            step = Step()
            self._append(step, self._message(step))
            self._end(step)

    def _transaction(self) -> None:
        step = Step()
        messages = [self._message(step) for _ in range(self.chance.randint(1, 5))]
        room = sum(self.store.record_bytes(message) for message in messages)
        self.store.begin(room + self.store.settlement_bytes(1))
        for message in messages:
            self._append(step, message)
        picked = self._pick()
        if picked is not None and self.chance.random() < 0.5:
            name, priority, first, count = picked
            self.store.settle(self.numbers[name], 0, ACKNOWLEDGED, CAUSE_NONE, [Range(priority, first, count)])
            step.settled.append(picked)
        self.store.commit()
        self._end(step)

    def _pick(self) -> tuple[str, int, int, int] | None:
        """Choose consecutive pending entries of a queue, mostly the oldest."""
        lanes = [(key, lane) for key, lane in sorted(self.model.items()) if len(lane.settled) < lane.tail]
        if not lanes:
            return None
        (name, priority), lane = self.chance.choice(lanes)
        pending = sorted(set(range(lane.tail)) - lane.settled)
        first = pending[0] if self.chance.random() < 0.7 else self.chance.choice(pending)
        count = 1
        while first + count in pending and count < 30 and self.chance.random() < 0.9:
            count += 1
        return name, priority, first, count

    def _settle(self) -> None:
        picked = self._pick()
        if picked is not None:
            name, priority, first, count = picked
            step = Step()
            self.store.settle(self.numbers[name], 0, ACKNOWLEDGED, CAUSE_NONE, [Range(priority, first, count)])
            step.settled.append(picked)
            self._end(step)

    def _fail(self) -> None:
        picked = self._pick()
        if picked is not None:
            name, priority, first, _ = picked
            delivery_count = self.chance.randint(1, 6)
            due_ms = self.chance.choice((0, self.clock.wall_ms() + 1000))
            step = Step()
            ranges = [Range(priority, first, 1, delivery_count)]
            self.store.fail_attempts(self.numbers[name], 0, CAUSE_NACK, due_ms, ranges)
            step.failed.append((name, priority, first, delivery_count, due_ms))
            self._end(step)
