"""Random work on a store with a failing disk and a crashing machine, and the law for each start.

The law: a start finds the state after some prefix of the history, never shorter than the confirmed part, and never a
part of a transaction.  Every pending message can then be read, octet by octet, by the queue and by each durable
subscription.  The live bytes are the sum of the pending messages.

A start is refused and changes nothing if the disk fails or an octet that it needs has changed.  After the repair the
next start finds everything.  Reading a damaged place gives an error, never other octets.
"""

from __future__ import annotations

import errno
import hashlib
import random

from engine.ports.store import Store
from engine.store.disk.files import Files
from engine.store.file_store import FileStore
from engine.store.settings import ASYNC, SYNC, StoreSettings
from engine.store.verify.store_check import verify
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import StoreCorrupt, StoreError
from engine.values.message import KEYED, PERSISTENT, STOMP, Message
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NACK, CAUSE_NONE
from engine.values.stored import DestinationState, Range
from gateway.settings.message_keys import MESSAGE_KEYS
from tests.support.disk.disk_faults import BIT_FLIP
from tests.support.disk.faulty_files import Crashed, FaultyFiles
from tests.support.fakes import HeldWorkers, VirtualClock, VirtualTimers
from tests.support.store.store_damage import Rot, break_disk
from tests.support.store.store_model import (
    Appended,
    Closed,
    Failed,
    Model,
    Opened,
    Operation,
    ProgressModel,
    Settled,
    Step,
)
from tests.support.store.store_world import Page, RecordingListener
from tests.support.world.seeds import telling

TOPICS = ("news", "prices")
NAMES = ("orders", "bills", "audit", *TOPICS)
SUBSCRIPTIONS = ("mail", "archive", "screen")
PRIORITIES = (4, 4, 4, 7)


class Bug:
    """A planted bug: its replacements for the product's own parts.  This one plants nothing."""

    def files(self, disk: FaultyFiles) -> Files:
        """Return the layer between the store and the disk."""
        return disk

    def store(self, store: Store) -> Store:
        """Return the layer between the history and the store."""
        return store

    def confirmed_offset(self, store: Store, listener: RecordingListener) -> int:
        """Return the offset up to which sends were confirmed."""
        return listener.durable_offset

    def disk_found(self, disk: FaultyFiles) -> None:
        """Change the disk to what a careless recovery would read."""


class History:
    """One seed's life of a store, over many starts.

    flush: "" for the seed's choice.  without: faults of disk_faults.py that the disk does not have.
    verifies: each store left behind must also pass ``store verify``.
    told: the events, for readers of a failing seed.
    """

    def __init__(
        self,
        seed: int,
        flush: str = "",
        bug: Bug | None = None,
        verifies: bool = True,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self.chance = random.Random(seed)
        self.flush = flush = flush or (ASYNC if self.chance.random() < 0.2 else SYNC)
        self.bug = bug or Bug()
        self.verifies = verifies
        self.told: list[str] = []
        self.files = FaultyFiles(seed, without=without)
        self.clock = VirtualClock()
        self.steps: list[Step] = []
        self.confirmed_offset = 0
        self.highest_offset = 0  # offsets of all messages ever written: a later one must not have any of them
        self.starts = 0
        self.crashes = 0
        self.refused_starts = 0
        self.read_failures = 0
        self.rot: Rot | None = None
        self.is_rotting = self.chance.random() < 0.3 and BIT_FLIP not in without
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
            index_slots=self.chance.choice((0, 0, 5)),
            index_entries=20,
            page_open_files=2,
            compaction_live_percent=self.chance.choice((0, 50, 100)),
            compaction_min_age_ms=0,
            compaction_bytes_per_second=1 << 30,
            compaction_interval_ms=100,
            whole_sync_files=self.chance.choice((1, 2, 1000)),
        )

    def run(self, step_count: int = 40) -> None:
        """Live; a crash ends one start and begins the next."""
        self.start()
        for _ in range(step_count):
            try:
                self._do()
            except Crashed:
                self.crash()
        self.crash()

    def note(self, line: str) -> None:
        self.told.append(f"{self.files.operations}: {line}")

    def digest(self) -> str:
        """Return the digest that is the same in two runs of one seed."""
        return hashlib.sha256("\n".join(self.told).encode()).hexdigest()

    def start(self) -> None:
        """Open the store, despite power cuts, a failing disk and changed octets, and check its state."""
        has_queues = True
        while True:
            self.timers = VirtualTimers(self.clock)
            self.workers = HeldWorkers()
            self.listener = RecordingListener()
            self.files.crash_at = 0
            self.bug.disk_found(self.files)
            if self.starts and self.verifies and has_queues and self.rot is None and not self.files.is_faulty():
                findings = verify(self.files, "data", MESSAGE_KEYS).findings
                assert findings == [], f"the store is not sound: {findings[0]}"
                has_queues = self.chance.random() > 0.1
                if not has_queues:
                    self._delete_derived()
            self._endanger_start()
            is_faulty = self.files.is_faulty()
            try:
                self.store = self._open()
                break
            except Crashed:
                self.note("power cut during recovery")
                has_queues = self._mend_rot() and has_queues
                self.files = self.files.crash() if self.chance.random() < 0.6 else self.files.killed()
            except StoreCorrupt as error:
                if self.rot is None:
                    raise AssertionError("a sound store is taken for a corrupt one") from error
                self.note(f"refused: {error}")
                self.refused_starts += 1
                has_queues = self._mend_rot() and has_queues
            except StoreError as error:
                if not is_faulty:
                    raise AssertionError("a start fails on a disk that works") from error
                self.note(f"cannot start: {error}")
                self.refused_starts += 1
                self.files.heal()
                if self.chance.random() < 0.3:
                    has_queues = self._mend_rot() and has_queues
                    self.files = self.files.crash() if self.chance.random() < 0.6 else self.files.killed()
        self.files.heal()
        self.files.crash_at = 0
        self.starts += 1
        self.store.attach(self.listener)
        self._check()
        self._mend_rot()
        if self.chance.random() < 0.5:
            self.files.crash_at = self.files.operations + self.chance.randint(1, 400)

    def _open(self) -> Store:
        files = self.bug.files(self.files)
        store = FileStore("data", files, self.workers, self.clock, self.timers, self.settings, keys=MESSAGE_KEYS)
        return self.bug.store(store)

    def _endanger_start(self) -> None:
        chance = self.chance
        draw = chance.random()
        if draw < 0.2:
            self.files.crash_at = self.files.operations + chance.randint(1, 120)
        elif draw < 0.3:
            self.note(break_disk(self.files, chance, 40))
        elif draw < 0.36:
            skip = chance.randint(0, 30)
            self.files.fail("pread", errno.EIO, count=chance.choice((1, 1_000)), skip=skip)
            self.note(f"reads fail after {skip}")

    def _delete_derived(self) -> None:
        """Delete consume queues and key index: they are made again from the log, so a start only takes longer."""
        for path in self.files.paths():
            if path.endswith(".cq") or "/index/" in path:
                self.files.unlink(path)
        self.note("consume queues and key index deleted")

    def _mend_rot(self) -> bool:
        """Change the octet back; return whether consume queues still match the checkpoint.

        A refused start that found an older checkpoint has cut them to that one.
        """
        rot = self.rot
        if rot is None:
            return True
        rot.mend(self.files)
        self.rot = None
        return not rot.path.endswith("/checkpoint")

    def crash(self) -> None:
        self.crashes += 1
        self._confirm()
        is_cut = self.chance.random() < 0.6
        self.note("power cut" if is_cut else "kill")
        self.files = self.files.crash() if is_cut else self.files.killed()
        if not is_cut:
            self._spoil()
        self.start()

    def _spoil(self) -> None:
        """Change an octet of the store that was left behind.

        Not after a power cut: it may restore an older checkpoint, and damage in records above that looks like a torn
        write.
        """
        if self.is_rotting and self.chance.random() < 0.5:
            self.rot = Rot.draw(self.files, self.chance)
            self.note(f"changed: {self.rot}")

    def _confirm(self) -> None:
        if self.flush == SYNC:
            self.confirmed_offset = max(self.confirmed_offset, self.bug.confirmed_offset(self.store, self.listener))
        for step in self.steps:
            if step.end <= self.store.written_offset():
                self.highest_offset = max(self.highest_offset, step.end)

    # Laws after a start.

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
        """Check that every pending written message can be read."""
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
                if self.listener.page_failures:
                    assert self.rot is not None, self.listener.page_failures
                    self.listener.page_failures.clear()
                    self.listener.failed_readers.clear()
                    self.read_failures += 1
                    break
                (page,) = self.listener.pages
                assert page.reader == reader
                self._check_page(page, name, priority, first)
                assert page.next_offset > first
                first = page.next_offset

    def _check_page(self, page: Page, name: str, priority: int, first: int) -> None:
        """Check that a page has the sent messages, and lacks none that its holder needs."""
        holder = self.model.holders[name]
        messages = self.model.lane(holder.source, priority).messages
        progress = holder.lane(priority)
        got = {message.queue_offset: message.body for message in page.messages}
        for entry in range(first, page.next_offset):
            is_needed = entry not in progress.settled and entry >= progress.counted_from
            assert entry in got or not is_needed, f"entry {entry} of {name} is missing"
            assert got.get(entry, messages[entry][0]) == messages[entry][0], f"entry {entry} of {name}"

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
        elif work < 0.68:
            self._read_some()
        elif work < 0.85:
            self.workers.run_one()
        elif work < 0.88:
            self.timers.advance(chance.choice((10, 60, 250)))
        elif work < 0.90:
            self.files.short_writes = chance.randint(1, 4)
        elif work < 0.93:
            self.note(break_disk(self.files, chance))
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

    def _read_some(self) -> None:
        """Ask for a page from any disk: an error is a valid answer, other octets are not."""
        places = self.model.places()
        if not places:
            return
        name, priority = self.chance.choice(places)
        number = self.model.numbers[self.model.holders[name].source]
        first = self.chance.choice(self.model.pending(name, priority))
        self.workers.run_all()
        self.listener.pages.clear()
        self.store.request(number, priority, first, self.chance.randint(1, 50), 5000)
        self.workers.run_all()
        if self.listener.page_failures:
            assert self.files.is_faulty(), self.listener.page_failures
            self.listener.page_failures.clear()
            self.listener.failed_readers.clear()
            self.read_failures += 1
        else:
            (page,) = self.listener.pages
            self._check_page(page, name, priority, first)

    def _mend_disk(self) -> None:
        """Repair the disk; everything must heal within some retries, two for each segment with a loss."""
        self.note("the disk heals")
        self.files.heal()
        for _ in range(100):
            if self.store.is_accepting() and self.store.durable_offset() == self.store.append_offset():
                break
            self.store.write()
            self.store.sync()
            self.timers.advance(60)
            self.workers.run_all()
        assert self.store.is_accepting(), self.listener.failures
        assert self.store.durable_offset() == self.store.append_offset() or self.flush == ASYNC
        assert self.listener.healed_count == len(self.listener.failures)
        self._confirm()

    def _stop(self) -> None:
        """Stop in order; a broken disk makes this an unclean stop."""
        self.workers.run_all()
        end = self.store.append_offset()
        try:
            self.store.close()
        except StoreError as error:
            self.note(f"cannot be closed: {error}")
        else:
            self.note("stopped")
            self.confirmed_offset = end
        self._confirm()
        self.files.heal()
        self.files.crash_at = 0
        draw = self.chance.random()
        if draw < 0.25:
            self.files = self.files.crash()
        else:
            self.files = self.files.killed()
            self._spoil()
        self.start()

    def _number(self, name: str) -> int:
        """Return the number of a queue or topic, opened if it does not exist."""
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
        headers = f"name:{name}\nkeys:all size-{len(body)}\n".encode()
        return Message(self._number(name), STOMP, PERSISTENT | KEYED, priority, 0, 0, 0, b"", headers, body)

    def _append(self, message: Message) -> Operation:
        self.store.append(message)
        name = message.headers.decode().partition("\n")[0].removeprefix("name:")
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
        # Some are larger than any segment's room, without an announcement to the store.
        messages = [self._message() for _ in range(self.chance.choice((1, 2, 3, 4, 5, 5, 40)))]
        self.store.begin()
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
            one = sizes if len(sizes) == 1 else ()
            ranges = [Range(picked.priority, picked.first, picked.count, 0, sum(sizes), one)]
            self.store.settle(number, 0, ACKNOWLEDGED, CAUSE_NONE, ranges)
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
        """Open a durable subscription, perhaps with earlier messages, or close one."""
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
        try:
            number = self.store.open_subscription(topic_id, name, {"client_id": name}, starts)
        except StoreError:
            assert starts and self.files.is_faulty()
            return
        # Messages that retention has dropped stay settled.
        kept = {lane.priority: lane.cursor for lane in self.store.state_of(number).lanes}
        places = {priority: (max(starts.get(priority, tail), kept[priority]), tail) for priority, tail in tails.items()}
        self._end(Opened(name, number, topic, False, places))

    def _close(self) -> None:
        name = self.chance.choice(NAMES)
        number = self.model.numbers.get(name, 0)
        if number:
            self.store.close_destination(number)
            self._end(Closed(name))


def run_seed(seed: int, steps: int = 40) -> History:
    history = History(seed)
    again = f"python -m pytest tests/simulation/test_store.py -k longer_lives --long --seed {seed} --seeds 1"
    with telling("store", seed, history.told, "" if steps == 40 else again):
        history.run(steps)
    return history
