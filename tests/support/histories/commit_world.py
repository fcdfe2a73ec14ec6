"""A simulation of transactions on a store with small segments: each is found whole or not at all after any stop.

A real Broker works on a real FileStore over a disk in memory.  Durable subscriptions pass messages over (selector,
noLocal), refused messages are dead-lettered, messages without a route are sent on, schedules are added: everything that
a COMMIT can put into the log.  Run one with

    CommitWorld(seed).run()

It raises Violation as soon as a law is broken.  After a start all messages of a transaction are there or none is, its
acknowledgements are settled exactly if they are, and a transaction whose COMMIT was confirmed is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.consumers.consumer import INDIVIDUAL
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import Plan
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.queue import queue_of
from engine.store.log.segment import load_segment
from engine.store.settings import StoreSettings
from engine.store.verify.store_check import verify
from engine.values.delivery import IN_FLIGHT, Refusal
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import StoreCorrupt
from engine.values.message import PERSISTENT, STOMP, Message
from engine.values.options import SubscribeOptions
from tests.support.engine.broker_view import BrokerView
from tests.support.engine.engine_world import MIB, address
from tests.support.fakes import FakeClient
from tests.support.store.store_home import FileHome
from tests.support.world.bodies import Violation
from tests.support.world.seeds import telling

SEGMENT_BYTES: Final = 16 * 1024
READ_MOST: Final = 1 << 20
SUBSCRIBERS: Final = (("red", "colour = 'red'", False), ("blue", "colour = 'blue'", False), ("other", "", True))
DEAD: Final = Refusal("dead-letter", text="no use")
TURNS_MOST: Final = 12


@dataclass(slots=True)
class Committed:
    """A transaction.  bodies: (destination, body); settled: entries of the queue; end: offset for its receipt."""

    bodies: list[tuple[str, bytes]] = field(default_factory=list)
    settled: list[int] = field(default_factory=list)
    end: int = 0


class CommitWorld(BrokerView):
    """own_segments: transactions that got a segment of their own, because the current one had no room."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.home = FileHome(StoreSettings(segment_bytes=SEGMENT_BYTES), seed)
        self.committed: list[Committed] = []
        self.crash_count = 0
        self.own_segments = 0
        self._start()

    def run(self, steps: int = 220) -> None:
        """Raises: Violation."""
        for _ in range(steps):
            draw = self.chance.random()
            if draw < 0.7:
                self._commit()
            elif draw < 0.8:
                self._send()
            elif draw < 0.97:
                self._turn()
            else:
                self._stop_and_look()
        self._stop_and_look()

    # -- actions

    def _start(self) -> None:
        home = self.home
        matcher = AddressMatcher(
            [
                address("lonely.>", dead_letters__send_to_dla_on_no_route=True, dead_letter_address="DLQ"),
                address(">", dead_letter_address="DLQ"),
            ]
        )
        broker = self.broker = Broker(home.store, home.clock, home.timers, matcher, 64 * MIB)
        self.client = FakeClient("both", "both")
        broker.connect(self.client)
        for name, selector, is_no_local in SUBSCRIBERS:
            options = SubscribeOptions(
                INDIVIDUAL, 50, name, subscription=name, is_durable=True, selector=selector, is_no_local=is_no_local
            )
            broker.subscribe(self.client, BrokerView(broker).topic("news"), options).start()
        broker.subscribe(self.client, BrokerView(broker).queue("orders"), SubscribeOptions(INDIVIDUAL, 50, "q")).start()
        self._turn()

    def _message(self, name: str, is_topic: bool, body: bytes) -> tuple[Message, object]:
        destinations = self.broker.destinations
        target = destinations.topic(name) if is_topic else destinations.queue(name)
        colour = self.chance.choice((b"red", b"blue", b"green"))
        headers = b"colour:" + colour + b"\n"
        return Message(target.destination_id, STOMP, PERSISTENT, 4, 0, 0, 0, b"", headers, body), target

    def _send(self) -> None:
        for _ in range(self.chance.randint(1, 6)):
            message, target = self._message("orders", False, b"plain " + b"." * self.chance.choice((1, 300)))
            self.broker.send(target, message)  # type: ignore[arg-type]

    def _commit(self) -> None:
        chance, broker = self.chance, self.broker
        transaction = Transaction(self.client, "t", TransactionLimits())
        one = Committed()
        number = len(self.committed)
        size = chance.choice((1, 1, 200, 3000))
        for place in range(chance.choice((0, 1, 2, 5, 30 if size < 300 else 4))):
            name = chance.choice(("news", "news", "orders", "lonely.x"))
            body = b"%d %d " % (number, place) + b"." * size
            message, target = self._message(name, name != "orders", body)
            broker.send_in(transaction, target, message)  # type: ignore[arg-type]
            one.bodies.append((name, body))
        if chance.random() < 0.2:
            message, target = self._message("orders", False, b"later " + b"." * size)
            plan = Plan(delay_ms=3_600_000)
            broker.send_in(transaction, delayed(target, plan), message)  # type: ignore[arg-type]
        for delivery in self.client.take()[: chance.choice((0, 1, 3, 20))]:
            if delivery.state != IN_FLIGHT:
                continue
            if chance.random() < 0.3:
                transaction.add_refused([delivery], DEAD)
            else:
                transaction.add_accepted([delivery])
            if queue_of(delivery.lane).name == "orders":
                one.settled.append(delivery.message.queue_offset)
        self.hear(self.client.client_number)
        broker.commit(transaction)
        one.end = broker.flush_settlements()
        self.committed.append(one)
        if chance.random() < 0.5:
            self._turn()

    def _turn(self) -> None:
        """End the turn; let the disk do some of the requested work."""
        self.broker.end_turn()
        if self.chance.random() < 0.6:
            self.home.store.sync()
        for _ in range(self.chance.randrange(TURNS_MOST)):
            self.home.workers.run_one()
        self.home.clock.now_ms += 1
        self.broker.begin_turn()

    def _stop_and_look(self) -> None:
        home = self.home
        self.broker.end_turn()
        self.crash_count += 1
        durable = home.store.durable_offset()
        try:
            if self.chance.random() < 0.5:
                home.kill()
            else:
                home.files = home.files.crash()
                home.begin()
        except StoreCorrupt as error:
            raise Violation(f"the store does not open: {error}") from error
        names = [path.rpartition("/")[2] for path in home.files.paths(".log")]
        segments = [load_segment(home.files, "data/commitlog", name)[0] for name in names]
        self.own_segments = sum(segment.is_continuation for segment in segments)
        findings = verify(home.files, "data").findings
        if findings:
            raise Violation(f"the store is not sound: {findings[0]}")
        self._compare(durable)
        self._start()

    def _compare(self, durable: int) -> None:
        found = {name: self._bodies(TOPIC, name) for name in ("news", "lonely.x")}
        found["orders"] = self._bodies(QUEUE, "orders")
        settled = self._settled()
        kept: list[Committed] = []
        for one in self.committed:
            there = sum(body in found[name] for name, body in one.bodies)
            gone = sum(entry in settled for entry in one.settled)
            whole = len(one.bodies) + len(one.settled)
            if there + gone not in (0, whole):
                raise Violation(f"of a transaction {there} of {len(one.bodies)} messages are there, {gone} settled")
            if one.end <= durable and there + gone < whole:
                raise Violation("a transaction was confirmed and is gone")
            if there + gone == whole:
                kept.append(one)
        self.committed = kept + [Committed() for _ in range(len(self.committed) - len(kept))]

    def _bodies(self, kind: int, name: str) -> set[bytes]:
        number = self._number(kind, name)
        bodies: set[bytes] = set()
        tails = [lane.tail for lane in self.home.store.state_of(number).lanes]
        first = 0
        while tails and first < tails[0]:
            page = self.home.page(number, 4, first, READ_MOST)
            bodies.update(message.body for message in page.messages)
            assert page.next_offset > first, "a page of nothing"
            first = page.next_offset
        return bodies

    def _settled(self) -> set[int]:
        settled: set[int] = set()
        for lane in self.home.store.state_of(self._number(QUEUE, "orders")).lanes:
            settled.update(range(lane.cursor))
            for first, count in lane.settled:
                settled.update(range(first, first + count))
        return settled

    def _number(self, kind: int, name: str) -> int:
        for state in self.home.store.recovered():
            if (state.kind, state.name) == (kind, name):
                return state.destination_id
        return self.home.store.open_destination(kind, name)


def run_seed(seed: int) -> CommitWorld:
    world = CommitWorld(seed)
    with telling("commit", seed):
        world.run()
    return world
