"""The simulated world: one gateway without sockets, threads or a real disk, its clients, and all kinds of faults.

A seed decides everything: the actions of clients, when jobs of worker threads run and are handed over, when the disk
fails, when the power is cut.  The same seed gives the same history, octet for octet.  Run one with

    World(seed).run()

It raises Violation as soon as a law of ``oracle.py`` or ``store.py`` is broken.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable
from random import Random
from typing import Final

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.broker_options import BrokerOptions
from engine.consumers.user_quota import UserLimits
from engine.limits.producer_gates import GlobalLimits
from engine.ports.store import Store
from engine.sources.queue import Queue
from engine.store.file_store import FileStore
from engine.store.settings import ASYNC, SYNC, StoreSettings
from engine.store.verify.store_check import verify
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import StoreCorrupt, StoreError
from tests.support.disk.faulty_files import Crashed, FaultyFiles
from tests.support.engine.broker_view import BrokerView
from tests.support.engine.idle_law import check_nobody_idles
from tests.support.fakes import VirtualClock, VirtualTimers
from tests.support.world.accounts import Accounts
from tests.support.world.amqp import AmqpPeer
from tests.support.world.bodies import Violation
from tests.support.world.broker_peer import BrokerPeer
from tests.support.world.clients import Peer
from tests.support.world.drain import Drain
from tests.support.world.observation import Observation
from tests.support.world.oracle import ACKED, Oracle
from tests.support.world.profile import (
    ALONE,
    GROUPED,
    QUEUES,
    SELECTED,
    TOPIC_DEAD_LETTERS,
    TOPICS,
    Profile,
    profile_for,
)
from tests.support.world.replays import KeptLog, LogBook, Replay, draw_replay
from tests.support.world.seeds import telling
from tests.support.world.stomp import StompPeer
from tests.support.world.store import Image, RecordingStore, census
from tests.support.world.time import VirtualWorkers
from tests.support.world.views import Fact

DATA: Final = "data"
LITTLE_STEPS: Final = (0, 1, 12)  # steps left in a turn that others have used up
DISK_FAULTS: Final = (
    ("fdatasync", errno.EIO),
    ("fsync", errno.EIO),
    ("pwrite", errno.EIO),
    ("pwrite", errno.ENOSPC),
    ("preallocate", errno.ENOSPC),
    ("create", errno.EMFILE),
    ("open", errno.EIO),
    ("open_to_read", errno.EMFILE),
    ("pread", errno.EIO),
    ("rename", errno.EIO),
    ("unlink", errno.EROFS),
    ("sync_directory", errno.EIO),
)


class Bug:
    """A planted bug: its replacements for the product's own parts.  This one plants nothing."""

    def store(self, store: Store) -> Store:
        """Return the layer between the engine and the real store."""
        return store

    def broker_class(self) -> type[Broker]:
        return Broker

    def disk_found(self, disk: FaultyFiles) -> None:
        """Change the disk to what a careless recovery would read."""


class World(BrokerView):
    """One run.  ``history`` has its steps; ``digest`` is the same in two runs of one seed.

    compares_store: the state after a restart must be exactly that of a prefix of the store's operations.  Without it
    only the promises to clients count.
    """

    def __init__(
        self,
        seed: int,
        profile: Profile | None = None,
        bug: Bug | None = None,
        is_stomp: bool = False,
        compares_store: bool = True,
        has_amqp: bool = False,
    ) -> None:
        self.seed = seed
        self.profile = profile or profile_for(seed, is_stomp, has_amqp)
        self.bug = bug or Bug()
        self.compares_store = compares_store
        self.chance = Random(seed)
        self._little = Random(seed * 31 + 7)
        self.history: list[str] = []
        self.clock = VirtualClock(now_ms=0)
        self.timers = VirtualTimers(self.clock)
        self.workers = VirtualWorkers()
        self.addresses = AddressMatcher(self.profile.addresses())
        self.oracle = Oracle(self.addresses, frozenset((TOPIC_DEAD_LETTERS,)), not self.profile.is_stomp)
        self.disk = FaultyFiles(seed)
        self.has_replays = self.profile.has_replays and compares_store  # shows what a stop has removed
        self.book = LogBook()
        self.destinations: list[tuple[int, str]] = [
            (QUEUE, name) for name in self.chance.sample(QUEUES, self.chance.randint(1, 4))
        ]
        if self.chance.random() < 0.6:
            self.destinations.append((TOPIC, self.chance.choice(TOPICS)))
        if not self.profile.is_stomp:
            special = (SELECTED, *GROUPED, ALONE)
            self.destinations += [(QUEUE, name) for name in self.profile.special or special if self._draws_special()]
        self.peers: list[Peer] = []
        self.stop_count = 0
        self.refusing_count = 0  # clients whose negative answers continue, at the beginning of a turn
        self.traced_count = 0  # hand-overs that a tracer heard of until everything was settled
        self.timed_count = 0  # those whose times were measured until then
        self.paged_count = 0  # turns at whose end a queue had entries that were not in memory
        self._next_peer = 1
        self._is_open = False
        self._is_clean_expected = False
        self._least_unit = 0
        self._least_after_cut = 0
        self._recorder: RecordingStore | None = None
        self.accounts = Accounts(self)
        self.observation = Observation(self)
        self._turn_units = 0

    def _draws_special(self) -> bool:
        return bool(self.profile.special) or self.chance.random() < 0.3

    def note(self, line: str) -> None:
        self.history.append(line)

    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.history).encode()).hexdigest()

    def wall_ms(self) -> int:
        return self.clock.wall_ms()

    # -- a run

    def run(self) -> None:
        """Raises: Violation."""
        self._start(is_after_cut=False)
        for _ in range(self.profile.steps):
            try:
                self._step()
            except Crashed:
                self._stopped()
        self._finish()

    def _step(self) -> None:
        chance = self.chance
        profile = self.profile
        draw = chance.random()
        if draw < profile.stop_share:
            self._stop()
            return
        if draw < profile.stop_share + profile.fault_share:
            self._fault()
            return
        draw = chance.random()
        if draw < 0.62:
            self._let_peers_act()
        elif draw < 0.88:
            self.open_turn()
            for _ in range(chance.randint(1, 4)):
                self.workers.step_any(chance)
        else:
            self.end_turn()
            self._let_time_pass()
        if chance.random() < 0.8:
            self.end_turn()
        if chance.random() < 0.1:
            self.broker.sync()

    def _let_peers_act(self) -> None:
        chance = self.chance
        self.peers = [peer for peer in self.peers if not (peer.is_closed and peer.is_at_rest())]
        acting = [peer for peer in self.peers if not peer.is_closed and not peer.is_leaving]
        if len(acting) < self.profile.peer_count:
            acting.append(self.add_peer())
        self.open_turn()
        if self.profile.has_short_turns and self._little.random() < 0.3:
            self.leave_steps(self._little.choice(LITTLE_STEPS))  # so that refusals continue beside later steps
        for _ in range(chance.randint(1, 4)):
            peer = chance.choice(acting)
            if not peer.is_closed and not peer.is_leaving:
                peer.act()

    def _let_time_pass(self) -> None:
        next_ms = self.timers.next_ms()
        step_ms = self.chance.choice((1, 5, 50, 400))
        if next_ms is not None and self.chance.random() < 0.5:
            step_ms = max(0, min(next_ms - self.clock.now_ms, 5_000))
        self.advance(step_ms)

    def advance(self, step_ms: int) -> None:
        """Let time pass between two turns."""
        self.clock.now_ms += step_ms
        self.open_turn()
        self.timers.advance(0)

    def add_peer(self) -> Peer:
        number = self._next_peer
        self._next_peer += 1
        peer: Peer
        if self.profile.has_amqp and self.chance.random() < 0.5:
            peer = AmqpPeer(self, number)
        elif self.profile.is_stomp:
            peer = StompPeer(self, number)
        else:
            peer = BrokerPeer(self, number)
        self.peers.append(peer)
        return peer

    def new_replay(self, kind: int, name: str, may_be_refused: bool) -> Replay:
        """Return a replay of a queue or topic, from a start that the seed chooses."""
        destinations = self.broker.destinations
        number = (destinations.queue(name) if kind == QUEUE else destinations.topic(name)).destination_id
        return draw_replay(
            self.chance,
            self.book.of(number),
            self.book.tails(number),
            self.id_prefix(),
            self.clock.wall_ms(),
            KeptLog(lambda store=self._file_store: store._log.files.segments),  # type: ignore[misc]
            self.oracle.has_expired,
            may_be_refused,
        )

    def add_durable_peer(self) -> Peer:
        """Return a client that can share durable subscriptions."""
        number = self._next_peer
        self._next_peer += 1
        peer = AmqpPeer(self, number) if self.profile.has_amqp else BrokerPeer(self, number)
        self.peers.append(peer)
        return peer

    # -- turns, as in the gateway's loop

    def open_turn(self) -> None:
        if not self._is_open:
            self._is_open = True
            self.broker.begin_turn()
            self.oracle.wall_ms = self.clock.wall_ms()
            self._turn_units = len(self.recorder().units)
            self.refusing_count += sum(client.is_refusing for client in self.connections())

    def end_turn(self) -> None:
        """Dispatch, write, send everything that may be sent."""
        self.open_turn()
        broker = self.broker
        for _ in range(1_000):
            offset = broker.end_turn()
            for peer in self.peers:
                peer.turn_ended()
            confirmed_offset = self.store.confirmed_offset()
            for peer in list(self.peers):
                peer.flush(offset, confirmed_offset)
            if self.awaiting():
                self.store.sync()
            if not broker.has_more_to_do():
                break
        else:
            raise Violation("turns never end: the engine keeps its queues dirty")
        self._is_open = False
        self.accounts.check_turn()
        self.observation.check_turn()
        check_nobody_idles(self.broker)

    def confirmed(self, facts: list[Fact]) -> None:
        """Check a confirmation of ``facts``: the store must have them, and must keep them."""
        recorder = self.recorder()
        for fact in facts:
            number = recorder.number_of(fact.kind, fact.name)
            if fact.what == "opened" and number in recorder.base.destinations:
                continue
            units = {
                "sent": recorder.sent_in,
                "settled": recorder.settled_in,
                "failed": recorder.failed_in,
                "opened": recorder.opened_in,
            }[fact.what]
            unit = units.get((number, fact.uid, fact.count))
            if unit is None:
                raise Violation(f"confirmed, but the store was never told: {fact}")
            self._least_unit = max(self._least_unit, unit + 1)
        self.oracle.confirm(facts)

    def recorder(self) -> RecordingStore:
        assert self._recorder is not None, "the gateway runs"
        return self._recorder

    def durable_queues(self) -> list[tuple[str, Queue]]:
        """Return the queue of each durable subscription, with the name of its topic."""
        return [
            (subscription.source, queue)
            for subscription in self.subscriptions().values()
            for queue in subscription.queues.values()
        ]

    # -- faults

    def _fault(self) -> None:
        chance = self.chance
        disk = self.disk
        draw = chance.random()
        if draw < 0.25:
            disk.heal()
            self.note("the disk heals")
        elif draw < 0.7:
            operation, error = chance.choice(DISK_FAULTS)
            count = chance.choice((1, 1, 2, 5, 1_000))
            disk.fail(operation, error, count=count, skip=chance.randint(0, 3))
            self.note(f"{operation} fails {count} times with {error}")
        elif draw < 0.8:
            disk.error_rate = chance.choice((0.05, 0.3, 1.0))
            self.note(f"the disk fails at {disk.error_rate}")
        elif draw < 0.9:
            disk.free_bytes = chance.randint(0, 30_000)
            self.note(f"the disk has {disk.free_bytes} octets left")
        else:
            disk.short_writes += chance.randint(1, 5)
            self.note("writes are short")

    def _stop(self) -> None:
        draw = self.chance.random()
        if draw < 0.2:
            self._stop_in_order()
        elif draw < 0.5:
            # The power is cut at some later operation on a file.
            self.disk.crash_at = self.disk.operations + self.chance.randint(1, 40)
        else:
            raise Crashed

    def _stopped(self) -> None:
        """Stop the gateway: its machine loses power, or only the process is killed."""
        is_killed = self.profile.is_async or self.chance.random() < 0.25
        self.note(f"{'kill' if is_killed else 'power cut'} at {self.clock.now_ms}")
        if self.profile.is_stomp and self._is_open:
            for peer in self.peers:
                peer.turn_ended()
            self._forgive_automatic()
        self._require(self.store.durable_offset())
        self._least_after_cut = self._least_unit
        if is_killed:
            self._require(self.store.written_offset())
        if not is_killed and self.chance.random() < 0.6:
            self.disk.write_back()  # so that the log is torn near its end more often than by chance
        self.disk = self.disk.killed() if is_killed else self.disk.crash()
        self._start(is_after_cut=True)

    def _forgive_automatic(self) -> None:
        """Settle the deliveries to automatic subscribers of the interrupted turn, although no octet was sent."""
        recorder = self.recorder()
        for name in self.queue_names():
            number = recorder.number_of(QUEUE, name)
            view = self.oracle.view(name)
            for uid in list(view.places):
                is_settled = recorder.settled_in.get((number, uid, 0), -1) >= self._turn_units
                if is_settled and not self.oracle.may_have_expired(self.oracle.messages[uid]):
                    del view.places[uid]
                    view.gone[uid] = ACKED

    def _stop_in_order(self) -> None:
        for peer in self.peers:
            if not peer.is_closed:
                peer.lose()
        self.end_turn()
        self.workers.drain()
        self.note(f"stop at {self.clock.now_ms}")
        self.broker.flush_settlements()
        try:
            self.store.close()
        except StoreError as error:
            self.note(f"it could not be closed: {error}")
            self._require(self.store.durable_offset())
        else:
            self._least_unit = len(self.recorder().units)
            self._is_clean_expected = True
        self.disk = self.disk.killed()
        self._start(is_after_cut=False)

    def _require(self, offset: int) -> None:
        """Require that everything below ``offset`` is found again."""
        for number, unit in enumerate(self.recorder().units):
            if unit.end <= offset:
                self._least_unit = max(self._least_unit, number + 1)

    def _start(self, is_after_cut: bool) -> None:
        """Open the store, perhaps with another power cut meanwhile, and check its state."""
        self.peers = []
        self._is_open = False
        self.stop_count += 1
        while True:
            if is_after_cut and self.chance.random() < 0.3:
                self.disk.crash_at = self.disk.operations + self.chance.randint(1, 60)
            try:
                image = self._open()
                break
            except Crashed:
                self.note("power cut during recovery")
                self._is_clean_expected = False
                if self.profile.is_async:
                    self.disk = self.disk.killed()
                else:
                    self._least_unit = self._least_after_cut
                    self.disk = self.disk.crash()
            except StoreCorrupt as error:
                raise Violation(f"recovery takes a torn log for a corrupt one: {error}") from error
        self.disk.crash_at = 0
        if self._recorder is not None and self.compares_store:
            self._compare(self._recorder, image)
        self._recorder = RecordingStore(self._opened, image, self.book)
        self.store: Store = self._recorder
        self._least_unit = 0
        self.accounts = Accounts(self)
        self.observation = Observation(self)
        self.oracle.restarted(image)
        self.broker = self.bug.broker_class()(
            self.store,
            self.clock,
            self.timers,
            self.addresses,
            self.profile.memory_limit_bytes,
            BrokerOptions(
                self.seed,
                limits=GlobalLimits(-1, self.profile.all_messages),
                user_limits=UserLimits(unsettled_bytes=self.profile.memory_limit_bytes // 3),
                has_message_times=self.observation.has_times,
                tracing=self.observation.book,
            ),
        )
        self._lazy_end()

    def _open(self) -> Image:
        profile = self.profile
        self.workers = VirtualWorkers()
        self.timers = VirtualTimers(self.clock)
        self.bug.disk_found(self.disk)
        settings = StoreSettings(
            segment_bytes=profile.segment_bytes,
            flush=ASYNC if profile.is_async else SYNC,
            retention_bytes=profile.retention_bytes,
            retention_interval_ms=1_000,
            page_open_files=3,
        )
        self._file_store = FileStore(
            DATA, self.disk, settings=settings, workers=self.workers, timers=self.timers, clock=self.clock
        )
        self.note(f"started {self._file_store.start_count()}")
        if self._is_clean_expected and not self._file_store.report.is_clean:
            raise Violation("after a stop in order the log is recovered as after a crash")
        self._is_clean_expected = False
        self._opened = self.bug.store(self._file_store)
        return census(self._opened, self.workers)

    def _compare(self, recorder: RecordingStore, image: Image) -> None:
        cut_at = recorder.find_prefix(image, self._least_unit)
        if cut_at is None:
            raise Violation(
                f"what a restart has found is no state that the store was in after {self._least_unit} of "
                f"{len(recorder.units)} units or later:\n  {recorder.describe_difference(image, self._least_unit)}"
            )
        self.book.cut(cut_at)
        self.note(f"found {cut_at} of {len(recorder.units)} units, {self._least_unit} had to be")

    def _lazy_end(self) -> None:
        """Let the engine's first turn begin with the present time."""
        self.open_turn()
        self.end_turn()

    # -- the end of a run

    def _finish(self) -> None:
        self.note("the end begins")
        self.disk.heal()
        if self.profile.fault_share:
            # A consumer that waits for an unreadable page must get it without another request.
            self.disk.fail("pread", errno.EIO, count=self.chance.randint(1, 3))
        self.disk.short_writes = 0
        self.disk.crash_at = 0
        self.open_turn()
        for peer in self.peers:
            if peer.is_closed or peer.is_leaving:
                continue
            if self.chance.random() < 0.5 and not peer.is_stuck():
                peer.disconnect()
            else:
                peer.lose()
        self.end_turn()
        for peer in self.peers:
            if not peer.is_closed:
                peer.lose()  # it waits at a gate that only its own subscriptions could open
        self.end_turn()
        drain = Drain(self)
        drain.take_selected()
        drain.take_everything()
        self.accounts.check_empty()
        self.observation.check_empty()
        self._stop_in_order()
        left = {key: lane.waiting for key, lane in self.recorder().base.lanes.items() if lane.waiting}
        if left:
            raise Violation(f"after everything was settled a restart finds {left}")
        if self.compares_store:
            findings = verify(self.disk, DATA).findings
            if findings:
                raise Violation(f"the store that is left behind is not sound: {'; '.join(map(str, findings[:5]))}")


def run_seed(
    seed: int, is_stomp: bool = False, make_bug: Callable[[], Bug] | None = None, has_amqp: bool = False
) -> World:
    world = World(seed, bug=make_bug() if make_bug else None, is_stomp=is_stomp, has_amqp=has_amqp)
    with telling("amqp" if has_amqp else "stomp" if is_stomp else "broker", seed, world.history):
        world.run()
    return world
