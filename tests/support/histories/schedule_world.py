"""Schedules over random histories: stops of every kind, a failing disk, changed clocks; a seed decides everything.

Laws: nothing fires before its time.  A confirmed schedule fires exactly as often as it should, whatever stops in
between.  After a confirmed cancellation it never fires again.  A firing and its settlement in the schedule stay or go
together.
"""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Final

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.broker_options import BrokerOptions
from engine.consumers.consumer import AUTO
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import Plan
from engine.features.scheduler.scheduler import RETRY_MS
from engine.open_transaction import Transaction, TransactionLimits
from engine.ports.store import Store
from engine.store.file_store import FileStore
from engine.store.settings import StoreSettings
from engine.store.verify.store_check import verify
from engine.values import gates
from engine.values.destination import QUEUE, SCHEDULE_QUEUE
from engine.values.message import PERSISTENT, STOMP, Message
from engine.values.options import SubscribeOptions
from tests.support.disk.faulty_files import Crashed, FaultyFiles
from tests.support.engine.broker_view import BrokerView
from tests.support.fakes import FakeClient, VirtualClock, VirtualTimers
from tests.support.world.bodies import Violation, make_body, uid_of
from tests.support.world.seeds import telling
from tests.support.world.store import StoreWrapper, census
from tests.support.world.time import VirtualWorkers

TARGETS: Final = ("a", "b")
NOISE: Final = "noise"  # a consumer takes its messages at once
NOISE_UIDS: Final = 1_000_000
DELAYS_MS: Final = (0, 1, 40, 700, 2_500, 9_000, 30_000, 400_000)
PERIODS_MS: Final = (100, 250, 3_000)
FAULTS: Final = (
    ("fdatasync", errno.EIO),
    ("pwrite", errno.ENOSPC),
    ("pread", errno.EIO),
    ("open_to_read", errno.EMFILE),
)
END_TURNS: Final = 20_000


@dataclass(slots=True)
class Asked:
    """One schedule.  due_ms: first.  end, cancelled_end: log offsets that its confirmations wait for.

    fired_at_cancel: how often it had fired when it was cancelled, -1 for never cancelled.
    """

    uid: int
    target: str
    due_ms: int
    period_ms: int
    times: int
    end: int
    is_confirmed: bool = False
    place: int = -1
    cancelled_end: int = -1
    is_cancel_confirmed: bool = False
    fired_at_cancel: int = -1


class WatchingStore(StoreWrapper):
    """Informs the world of each message that enters a target."""

    def __init__(self, inner: Store, world: ScheduleWorld) -> None:
        super().__init__(inner)
        self._world = world

    def append(self, message: Message) -> None:
        self.inner.append(message)
        self._world.appended(message)


class ScheduleWorld(BrokerView):
    """One run; ``stop_count``, ``fired_count`` and ``sparse_count`` count its events."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.disk = FaultyFiles(seed)
        self.clock = VirtualClock(now_ms=0)
        self.asked: dict[int, Asked] = {}
        self.fired: Counter[int] = Counter()  # in the log, by the knowledge of this start's engine
        self.stop_count = 0
        self.fired_count = 0
        self.sparse_count = 0  # segments found thinned at all starts
        self._is_open = False
        self._uids = count(1)
        self._numbers: dict[int, str] = {}
        self._start()

    def wrap(self, store: Store) -> Store:
        """Return the layer between the engine and the store; planted bugs replace it."""
        return store

    # -- a run

    def run(self) -> None:
        """Raises: Violation."""
        for _ in range(self.chance.randint(60, 250)):
            try:
                self._step()
            except Crashed:
                self._stopped()
        self._finish()

    def _step(self) -> None:
        chance = self.chance
        draw = chance.random()
        self._open_turn()
        if draw < 0.35:
            self._schedule()
        elif draw < 0.40:
            self._cancel()
        elif draw < 0.45:
            self._make_noise()
        elif draw < 0.60:
            for _ in range(chance.randint(1, 5)):
                self.workers.step_any(chance)
        elif draw < 0.85:
            self._let_time_pass()
        elif draw < 0.88:
            self.clock.set_wall(chance.choice((-5_000, -300, 300, 20_000)))
        elif draw < 0.92:
            operation, error = chance.choice(FAULTS)
            self.disk.fail(operation, error, count=chance.randint(1, 3))
        elif draw < 0.95:
            self.disk.heal()
        elif draw < 0.975:
            raise Crashed
        else:
            self._stop_in_order()
        self._end_turn()
        if chance.random() < 0.3:
            self.broker.sync()

    def _schedule(self) -> None:
        chance = self.chance
        broker = self.broker
        in_transaction = chance.random() < 0.2
        transaction = Transaction(FakeClient(), "t", TransactionLimits())
        sent: list[Asked] = []
        messages: list[Message] = []
        for _ in range(chance.randint(1, 5)):
            uid = next(self._uids)
            name = chance.choice(TARGETS)
            repeat = chance.choice((0, 0, 0, 1, 3))
            plan = Plan(chance.choice(DELAYS_MS), chance.choice(PERIODS_MS) if repeat else 0, repeat)
            if not plan.delay_ms and not plan.period_ms:
                plan = Plan(time_ms=broker.wall_ms + chance.choice(DELAYS_MS) + 1)
            target = delayed(self.queue(name), plan.checked(self.schedule.limits(), broker.wall_ms))
            body = make_body(uid, chance.choice((30, 400, 5_000)))
            message = Message(0, STOMP, PERSISTENT, chance.randrange(10), 0, 0, 0, b"", b"", body)
            due_ms = plan.first_ms(broker.wall_ms, self.schedule.limits().zone)
            asked = Asked(uid, name, due_ms, plan.period_ms, repeat + 1, 0)
            if in_transaction:
                broker.send_in(transaction, target, message)
            elif broker.send(target, message) != gates.OPEN:
                return
            sent.append(asked)
            messages.append(message)
            if not in_transaction:
                self._accepted(asked, message)
        if in_transaction:
            if broker.commit_refusal(transaction)[0] != gates.OPEN or chance.random() < 0.3:
                broker.abort(transaction)
                return
            broker.commit(transaction)
            for asked, message in zip(sent, messages, strict=True):
                self._accepted(asked, message)

    def _accepted(self, asked: Asked, message: Message) -> None:
        asked.end = self.store.append_offset()
        asked.place = message.log_offset
        self.asked[asked.uid] = asked

    def _cancel(self) -> None:
        scheduler = self.broker.scheduler
        waiting = [one for one in self.asked.values() if scheduler.pending.find(one.place) is not None]
        if waiting and self.store.is_accepting():
            asked = self.chance.choice(waiting)
            found = scheduler.pending.find(asked.place)
            assert found is not None
            scheduler.cancel([found])
            asked.cancelled_end = self.store.append_offset()
            asked.fired_at_cancel = self.fired[asked.uid]

    def _make_noise(self) -> None:
        """Fill segments with messages that are consumed at once, so that they are dropped or become sparse."""
        queue = self.queue(NOISE)
        for _ in range(self.chance.randint(1, 6)):
            body = make_body(NOISE_UIDS + next(self._uids), 3_000)
            message = Message(queue.destination_id, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", body)
            if self.broker.send(queue, message) != gates.OPEN:
                return

    def _let_time_pass(self) -> None:
        next_ms = self.timers.next_ms()
        step_ms = self.chance.choice((1, 10, 100, 1_000, 5_000))
        if next_ms is not None and self.chance.random() < 0.6:
            step_ms = max(0, min(next_ms - self.clock.now_ms, 5_000))
        self._end_turn()
        self.clock.now_ms += step_ms
        self._open_turn()
        self.timers.advance(0)

    def appended(self, message: Message) -> None:
        """A message enters a queue: check the laws of a firing."""
        name = self._numbers.get(message.destination_id)
        if name is None:
            known = self.destination(message.destination_id)
            name = known.name if known is not None and known.name in TARGETS else ""
            self._numbers[message.destination_id] = name
        if not name:
            return
        uid = uid_of(message)
        self.fired[uid] += 1
        self.fired_count += 1
        asked = self.asked.get(uid)
        if asked is None:
            return  # it was already due when it was sent
        if self.broker.wall_ms < asked.due_ms + (self.fired[uid] - 1) * asked.period_ms:
            raise Violation(f"message {uid} is fired {asked.due_ms - self.broker.wall_ms} ms before its time")
        if self.fired[uid] > asked.times:
            raise Violation(f"message {uid} is fired {self.fired[uid]} times, {asked.times} were asked for")

    # -- turns

    def _open_turn(self) -> None:
        if not self._is_open:
            self._is_open = True
            self.broker.begin_turn()

    def _end_turn(self) -> None:
        if self._is_open:
            self.broker.end_turn()
            self._is_open = False
        durable = self.store.durable_offset()
        for asked in self.asked.values():
            asked.is_confirmed = asked.is_confirmed or asked.end <= durable
            if 0 <= asked.cancelled_end <= durable:
                asked.is_cancel_confirmed = True

    # -- stops

    def _stopped(self) -> None:
        self._end_turn_quietly()
        if self.chance.random() < 0.5:
            self.disk.write_back()
        self.disk = self.disk.killed() if self.chance.random() < 0.3 else self.disk.crash()
        self._start()

    def _end_turn_quietly(self) -> None:
        """Note the durable state at a stop."""
        self._is_open = False
        self._end_turn()

    def _stop_in_order(self) -> None:
        self.disk.heal()
        self._end_turn()
        self.workers.drain()
        self.broker.flush_settlements()
        self.store.close()
        self._end_turn_quietly()
        self.disk = self.disk.killed()
        self._start()

    def _start(self) -> None:
        self.stop_count += 1
        self.disk.heal()
        self.workers = VirtualWorkers()
        self.timers = VirtualTimers(self.clock)
        settings = StoreSettings(
            segment_bytes=16 << 10,
            retention_bytes=64 << 10,
            retention_interval_ms=1_000,
            compaction_live_percent=self.chance.choice((0, 30, 80)),
            compaction_min_age_ms=0,
            compaction_interval_ms=500,
        )
        file_store = FileStore(
            "data", self.disk, settings=settings, workers=self.workers, timers=self.timers, clock=self.clock
        )
        self.sparse_count += sum(segment.is_sparse for segment in file_store._log.files.segments)
        self._check_found(file_store)
        self._numbers = {}
        self.store: Store = WatchingStore(self.wrap(file_store), self)
        self.broker = Broker(self.store, self.clock, self.timers, AddressMatcher(()), 1 << 30, BrokerOptions(self.seed))
        client = FakeClient()
        self.broker.connect(client)
        queue = self.own_queue(NOISE)
        self.broker.subscribe(client, queue, SubscribeOptions(AUTO)).start()
        self.clock.set_wall(self.chance.choice((0, 0, 1_000, -1_000)))

    def _check_found(self, store: Store) -> None:
        """Compare the state after a start with the confirmations; continue from that state."""
        found: Counter[int] = Counter()
        waiting: set[int] = set()
        image = census(store, self.workers)
        for (number, _), lane in image.lanes.items():
            for one in lane.waiting.values():
                if image.destinations[number] == (QUEUE, SCHEDULE_QUEUE):
                    if one.uid in waiting:
                        raise Violation(f"message {one.uid} is scheduled twice")
                    waiting.add(one.uid)
                else:
                    found[one.uid] += 1
        for asked in list(self.asked.values()):
            times = found[asked.uid]
            is_waiting = asked.uid in waiting
            if asked.is_confirmed and not is_waiting and times < asked.times and asked.cancelled_end < 0:
                raise Violation(f"message {asked.uid} was confirmed, has fired {times} times and is gone")
            if is_waiting and times >= asked.times:
                raise Violation(f"message {asked.uid} has fired {times} times and is still scheduled")
            if asked.is_cancel_confirmed and (is_waiting or times != asked.fired_at_cancel):
                raise Violation(f"message {asked.uid} was cancelled after {asked.fired_at_cancel} firings; now {times}")
            if not asked.is_confirmed and not is_waiting and not times:
                del self.asked[asked.uid]
            elif asked.cancelled_end >= 0 and is_waiting:
                asked.cancelled_end = asked.fired_at_cancel = -1  # a cancellation that was not durable
            if is_waiting or times:
                asked.is_confirmed = True
        self.fired = found

    def _finish(self) -> None:
        """Let everything fire, and count."""
        self.disk.heal()
        scheduler = self.broker.scheduler
        for _ in range(END_TURNS):
            if not len(scheduler.pending):
                break
            self._open_turn()
            self.workers.drain()
            self._end_turn()
            self.clock.now_ms += 5_000 if self.store.is_accepting() else RETRY_MS
            self._open_turn()
            self.timers.advance(0)
        else:
            raise Violation(f"after {END_TURNS} turns {list(scheduler.pending)[:5]} are still pending")
        self._end_turn()
        self._stop_in_order()
        for asked in self.asked.values():
            wanted = asked.times if asked.fired_at_cancel < 0 else asked.fired_at_cancel
            if self.fired[asked.uid] != wanted:
                raise Violation(f"message {asked.uid} has fired {self.fired[asked.uid]} times, {wanted} were due")
        pending = len(self.schedule)
        if pending or self.schedule.read_ahead.loaded or self.schedule.counts():
            raise Violation(f"everything has fired, and yet {pending} are pending")
        findings = verify(self.disk, "data").findings
        if findings:
            raise Violation(f"the store that is left behind is not sound: {'; '.join(map(str, findings[:5]))}")


def run_seed(seed: int, make: type[ScheduleWorld] = ScheduleWorld) -> ScheduleWorld:
    world = make(seed)
    with telling("schedule", seed):
        world.run()
    return world
