"""A simulation of prepared transactions over stops of every kind, on a real store with small segments.

Consumers take messages of ``orders``; branches acknowledge some of them and send others to ``out``.  They are prepared,
committed, rolled back, and left alone, while connections are lost and the gateway is killed or loses its power.  Run
one with

    BranchWorld(seed).run()

It raises Violation as soon as a law is broken.  After a start a branch is prepared, or its outcome is there whole; what
was confirmed is there.  Nobody sees what a prepared branch sends, and nobody gets what it has acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.consumers.consumer import CLIENT, Consumer
from engine.open_transaction import TransactionLimits
from engine.ports.store import Store
from engine.store.settings import StoreSettings
from engine.store.verify.store_check import verify
from engine.values.delivery import IN_FLIGHT, Delivery
from engine.values.destination import QUEUE
from engine.values.errors import StoreCorrupt
from engine.values.message import PERSISTENT, STOMP, Message
from engine.values.options import SubscribeOptions
from engine.values.xid import Xid
from tests.support.engine.broker_view import BrokerView
from tests.support.engine.engine_world import MIB, address
from tests.support.fakes import FakeClient
from tests.support.store.store_home import FileHome
from tests.support.world.bodies import Violation
from tests.support.world.seeds import telling

SEGMENT_BYTES: Final = 16 * 1024
READ_MOST: Final = 1 << 20
TURNS_MOST: Final = 12
PREFETCH: Final = 1_000
NONE: Final = "none"
PREPARED: Final = "prepared"
COMMITTED: Final = "committed"
ROLLED_BACK: Final = "rolled back"


@dataclass(slots=True)
class Branch:
    """sends, held: numbers of messages.  states: its states, each with the offset at which it is confirmed."""

    xid: Xid
    sends: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    states: list[tuple[str, int]] = field(default_factory=list)

    def state(self) -> str:
        return self.states[-1][0]

    def possible(self, durable: int) -> list[str]:
        """Return the states in which a start may find it after a stop."""
        sure = max([at for at, (_, end) in enumerate(self.states) if end <= durable])
        return [state for state, _ in self.states[sure:]]


class BranchWorld(BrokerView):
    """sent, settled: numbers of messages of ``orders``, each with the offset at which that is confirmed."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.home = FileHome(StoreSettings(segment_bytes=SEGMENT_BYTES), seed)
        self.branches_made: list[Branch] = []
        self.sent: dict[int, int] = {}
        self.settled: dict[int, int] = {}
        self.next_number = 1
        self.stop_count = 0
        self.found_prepared = 0
        self.decided_count = 0
        self._start()

    def wrap(self, store: Store) -> Store:
        """Return the store for the broker, for tests with a planted bug."""
        return store

    def run(self, steps: int = 200) -> None:
        """Raises: Violation."""
        actions = ((self._send, 4), (self._prepare, 4), (self._decide, 3), (self._acknowledge, 2), (self._turn, 8))
        rare = ((self._lose, 1), (self._stop_and_look, 1))
        kinds = [action for action, weight in (*actions, *rare) for _ in range(weight)]
        for _ in range(steps):
            self.chance.choice(kinds)()
        self._stop_and_look()
        for branch in [one for one in self.branches_made if one.state() == PREPARED]:
            self._decide_one(branch)
        self._settle()
        self._stop_and_look()

    # -- actions

    def _start(self) -> None:
        home = self.home
        matcher = AddressMatcher([address(">", redelivery__maximum_redeliveries=-1)])
        self.broker = Broker(self.wrap(home.store), home.clock, home.timers, matcher, 64 * MIB)
        self._connect()

    def _connect(self) -> None:
        self.client = FakeClient()
        self.broker.connect(self.client)
        options = SubscribeOptions(CLIENT, PREFETCH, "q")
        self.consumer: Consumer = self.broker.subscribe(self.client, self.queue("orders"), options)
        self.consumer.start()

    def _message(self, name: str, number: int) -> Message:
        body = b"%d " % number + b"." * self.chance.choice((1, 1, 300, 2_000))
        return Message(self.queue(name).destination_id, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", body)

    def _number(self) -> int:
        self.next_number += 1
        return self.next_number - 1

    def _send(self) -> None:
        numbers = [self._number() for _ in range(self.chance.randint(1, 6))]
        for number in numbers:
            self.broker.send(self.queue("orders"), self._message("orders", number))
        end = self.broker.flush_settlements()
        self.sent.update(dict.fromkeys(numbers, end))

    def _some(self) -> list[Delivery]:
        """Return some of what the consumer has, in order or not."""
        have = [one for one in self.consumer.ledger.values() if one.state == IN_FLIGHT]
        if self.chance.random() < 0.3:
            self.chance.shuffle(have)
        return have[: self.chance.choice((0, 1, 3, 10))]

    def _prepare(self) -> None:
        branch = Branch(Xid(1, b"%d" % len(self.branches_made), b"b"), states=[(NONE, 0)])
        self.branches_made.append(branch)
        self.branches.begin(self.client, branch.xid, TransactionLimits(1_000))
        own = self.branches.active(self.client, branch.xid)
        for _ in range(self.chance.choice((0, 1, 2, 8))):
            number = self._number()
            branch.sends.append(number)
            self.broker.send_in(own.transaction, self.queue("out"), self._message("out", number))
        some = self._some()
        own.transaction.add_accepted(some)
        branch.held = [_number_in(one.message) for one in some]
        if self.chance.random() < 0.1:
            return  # its connection ends before
        if self.branches.prepare(own):
            branch.states.append((PREPARED, self.broker.flush_settlements()))

    def _decide(self) -> None:
        prepared = [one for one in self.branches_made if one.state() == PREPARED]
        if prepared:
            self._decide_one(self.chance.choice(prepared))

    def _decide_one(self, branch: Branch) -> None:
        own = self.branches.require_prepared(self.client, branch.xid)
        self.decided_count += 1
        if self.chance.random() < 0.6:
            self.branches.commit(own)
            branch.states.append((COMMITTED, self.broker.flush_settlements()))
        else:
            self.branches.roll_back(own, is_heuristic=self.chance.random() < 0.3)
            branch.states.append((ROLLED_BACK, self.broker.flush_settlements()))

    def _acknowledge(self) -> None:
        some = self._some()
        for delivery in some:
            self.broker.acknowledge(delivery)
        self.settled.update(
            dict.fromkeys(map(_number_in, (one.message for one in some)), self.broker.flush_settlements())
        )

    def _lose(self) -> None:
        self.branches.client_left(self.client)
        self.broker.disconnect(self.client, is_lost=True)
        self._connect()

    def _turn(self) -> None:
        """End the turn; let the disk do some of the requested work."""
        self.broker.end_turn()
        if self.chance.random() < 0.6:
            self.broker.sync()
        for _ in range(self.chance.randrange(TURNS_MOST)):
            self.home.workers.run_one()
        self.home.clock.now_ms += 1
        self.broker.begin_turn()
        self.home.timers.advance(0)

    def _settle(self) -> None:
        """Let everything that is under way arrive."""
        for _ in range(100):
            self.broker.end_turn()
            self.home.workers.run_all()
            self.broker.begin_turn()
            self.home.timers.advance(10)

    # -- stops

    def _stop_and_look(self) -> None:
        home = self.home
        self.broker.end_turn()
        self.stop_count += 1
        durable = home.store.durable_offset()
        try:
            draw = self.chance.random()
            if draw < 0.4:
                home.kill()
            elif draw < 0.8:
                home.files = home.files.crash()
                home.begin()
            else:
                home.stop()
                home.begin()
                durable = home.store.durable_offset()
        except StoreCorrupt as error:
            raise Violation(f"the store does not open: {error}") from error
        findings = verify(home.files, "data").findings
        if findings:
            raise Violation(f"the store is not sound: {findings[0]}")
        orders, out = self._waiting("orders"), self._waiting("out")
        self._start()
        held = self._compare(durable, orders, out)
        self._settle()
        got = sorted(_number_in(one.message) for one in self.consumer.ledger.values())
        if got != sorted(orders - held):
            raise Violation(f"a consumer gets {got}; there are {sorted(orders)}, and {sorted(held)} are held")

    def _compare(self, durable: int, orders: set[int], out: set[int]) -> set[int]:
        """Compare what a start has found with what was confirmed; return what prepared branches hold."""
        prepared = {one.xid for one in self.branches.prepared()}
        held: set[int] = set()
        for branch in self.branches_made:
            found = self._found(branch, branch.xid in prepared, orders, out)
            if found not in branch.possible(durable):
                raise Violation(f"the branch {branch.xid} is {found}; possible are {branch.possible(durable)}")
            branch.states = [(found if found != ROLLED_BACK else branch.state(), 0)]
            if found == PREPARED:
                self.found_prepared += 1
                held.update(branch.held)
            elif found == COMMITTED:
                self.settled.update(dict.fromkeys(branch.held, 0))
        self._compare_orders(durable, orders)
        return held

    def _found(self, branch: Branch, is_prepared: bool, orders: set[int], out: set[int]) -> str:
        sent = [number in out for number in branch.sends]
        gone = [number not in orders for number in branch.held]
        if is_prepared:
            if any(sent) or any(gone):
                raise Violation(f"of the prepared branch {branch.xid} something is done: {sent}, {gone}")
            return PREPARED
        states = [state for state, _ in branch.states]
        if COMMITTED in states and (all(sent) and all(gone)):
            return COMMITTED
        if any(sent):
            raise Violation(f"the branch {branch.xid} is {states}, and of its messages are there {sent}, gone {gone}")
        return ROLLED_BACK if ROLLED_BACK in states else NONE

    def _compare_orders(self, durable: int, orders: set[int]) -> None:
        for number, end in list(self.sent.items()):
            is_settled = self.settled.get(number)
            if is_settled is None and number not in orders:
                if end <= durable:
                    raise Violation(f"message {number} was confirmed and is gone")
                del self.sent[number]  # it never was
            elif is_settled is not None and number in orders:
                if is_settled <= durable:
                    raise Violation(f"the settlement of message {number} was confirmed, and it is back")
                del self.settled[number]
        self.sent = dict.fromkeys(self.sent, 0)
        self.settled = dict.fromkeys(self.settled, 0)

    def _waiting(self, name: str) -> set[int]:
        """Return what waits in a queue of the store."""
        found: list[int] = []
        for state in self.home.store.recovered():
            if (state.kind, state.name) != (QUEUE, name):
                continue
            for lane in state.lanes:
                for first, end in lane.waiting_runs():
                    found += map(_number_in, self.home.store.read_messages(state.destination_id, 4, first, end - first))
        if len(set(found)) != len(found):
            raise Violation(f"{name} has a message twice: {sorted(found)}")
        return set(found)


def _number_in(message: Message) -> int:
    return int(message.body.split(b" ", 1)[0])


def run_seed(seed: int) -> BranchWorld:
    world = BranchWorld(seed)
    with telling("branch", seed):
        world.run()
    return world
