"""What addresses hold is what waits and is in flight, at every moment, and nothing once everything is settled.

Any interleaving of sends, deliveries, acknowledgements, refusals, transactions, expiry, delays, lost connections and
crashes; queues and topics, durable subscriptions, dead letters, dropped and evicted messages.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config.policies import Nack
from engine.backlog.memory import MESSAGE_OVERHEAD_BYTES
from engine.consumers.consumer import AUTO, CLIENT, INDIVIDUAL
from engine.sources.queue import Queue, queue_of
from engine.transaction import Transaction, TransactionLimits
from engine.values import gates
from engine.values.delivery import GONE, Delivery
from engine.values.errors import AddressFull
from engine.values.refusal import Refusal
from tests.support.engine.engine_world import address
from tests.support.engine.spill_world import SpillWorld
from tests.support.fakes import FakeClient

QUEUES = ("block", "drop", "fail", "dead", "paged")
TOPICS = ("news", "few", "wide")
LIMITS = {"full__max_size_bytes": 400, "full__max_size_messages": 12}

STEPS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(QUEUES + TOPICS), st.integers(0, 120), st.booleans(), st.booleans()),
    st.tuples(st.just("subscribe"), st.sampled_from(QUEUES), st.sampled_from((AUTO, CLIENT, INDIVIDUAL))),
    st.tuples(st.just("choose"), st.integers(0, 2)),
    st.tuples(st.just("listen"), st.sampled_from(TOPICS), st.sampled_from((AUTO, INDIVIDUAL)), st.booleans()),
    st.tuples(st.just("ack"), st.integers(0, 5)),
    st.tuples(st.just("refuse"), st.integers(0, 5), st.sampled_from((None, "requeue", "dead-letter"))),
    st.tuples(st.just("commit"), st.integers(0, 5), st.sampled_from(QUEUES), st.booleans()),
    st.tuples(st.just("lose"), st.integers(0, 5)),
    st.tuples(st.just("advance"), st.sampled_from((1, 60, 40_000))),
    st.tuples(st.just("crash"), st.booleans()),
)


class Accounts:
    """One run: ``held`` is what clients have and have not answered."""

    def __init__(self, memory_limit_bytes: int) -> None:
        self.world = SpillWorld(
            address(">", redelivery__maximum_redeliveries=1, redelivery__initial_redelivery_delay_ms=50),
            address("block", full__address_full_policy="BLOCK", **LIMITS),
            address("drop", full__address_full_policy="DROP", **LIMITS),
            address("fail", full__address_full_policy="FAIL", **LIMITS),
            address("dead", full__address_full_policy="PAGE", full__page_limit_bytes=400, dead_letter_address=None),
            address("paged", full__page_limit_bytes=2_000, full__page_full_policy="DROP", full__max_size_bytes=100),
            address("ActiveMQ.DLQ", full__address_full_policy="BLOCK", full__max_size_bytes=1),
            address("wide", full__page_limit_bytes=9_000, full__page_full_policy="DROP", full__max_size_bytes=100),
            address("news", full__address_full_policy="BLOCK", **LIMITS),
            address("few", full__address_full_policy="DROP", pending__strategy="constant", pending__limit=1, **LIMITS),
            memory_limit_bytes=memory_limit_bytes,
        )
        self.world.spiller.block_bytes = 150
        self.clients: list[FakeClient] = []
        self.held: list[tuple[FakeClient, Delivery]] = []

    def do(self, step: tuple[object, ...]) -> None:
        getattr(self, f"_{step[0]}")(*step[1:])
        self.world.turn()
        self.collect()
        self.check()

    def collect(self) -> None:
        for client in self.clients:
            self.held += [(client, delivery) for delivery in client.take()]

    def check(self) -> None:
        for queue in self.world.queues():
            if queue.account is not None:
                assert queue.account.used_messages == queue.depth, queue.uri()
                assert queue.account.used_bytes >= 0
                assert queue.account.used_bytes > 0 or queue.depth == 0, queue.uri()
        assert self.world.memory_paged() == sum(self._paged(queue) for queue in self.world.all_queues())
        accounts = self.world.address_accounts()
        assert accounts.used_bytes == sum(account.used_bytes for account in accounts.by_id.values())
        assert accounts.used_messages == sum(account.used_messages for account in accounts.by_id.values())

    def _paged(self, queue: Queue) -> int:
        """Return what messages of the log take in memory for one queue, wherever they are."""
        if not queue.is_logged:
            return 0
        found = [
            one for lane in queue.used_lanes for one in (*lane.ready, *lane.returned, *lane.ahead.by_offset.values())
        ]
        found += [delivery for consumer in queue.consumers.values() for delivery in consumer.ledger.values()]
        found += self.world.delayed(queue)
        distinct = {
            one.message.queue_offset: one
            for one in found
            if queue_of(one.lane) is queue and one.state != GONE and one.message.queue_offset >= 0
        }
        # Lanes number their entries each for themselves, but all of a run are of one priority.
        return sum(one.message.content_bytes() + MESSAGE_OVERHEAD_BYTES for one in distinct.values())

    # -- steps

    def _send(self, name: str, size: int, persistent: bool, expires: bool) -> None:
        world = self.world
        destinations = world.broker.destinations
        to = destinations.topic(name) if name in TOPICS else destinations.queue(name)
        expires_ms = world.broker.wall_ms + 50 if expires else 0
        headers, group = f"n:{size % 3}", f"g{size % 4}" if size % 5 == 0 else ""
        message = world.message(
            to, b"x" * (size + 1), persistent=persistent, expires_ms=expires_ms, headers=headers, group=group
        )
        try:
            gate = world.broker.send(to, message)
        except AddressFull:
            assert name in ("fail", "dead")
            return
        if gate == gates.MEMORY:
            assert not persistent or name in TOPICS
            assert world.memory_held() >= world.memory_limit_bytes * 9 // 10
            return
        assert gate in (gates.OPEN, gates.DISCARDED) or name in ("block", "news")

    def _client(self) -> FakeClient:
        client = self.world.client(f"c{len(self.clients)}")
        self.clients.append(client)
        return client

    def _subscribe(self, name: str, ack_mode: int) -> None:
        self.world.consumer(self._client(), name, ack_mode, 3)

    def _choose(self, number: int) -> None:
        self.world.consumer(self._client(), "paged", INDIVIDUAL, 3, selector=f"n = '{number}'")

    def _listen(self, name: str, ack_mode: int, is_durable: bool) -> None:
        topic = self.world.topic(name)
        if is_durable:
            self.world.consumer(
                self._client(), topic, INDIVIDUAL, 3, subscription=f"d-{name}", is_durable=True, is_shared=True
            )
        else:
            self.world.consumer(self._client(), topic, ack_mode, 3)

    def _take(self, count: int) -> list[Delivery]:
        taken = self.held[:count]
        self.held = self.held[count:]
        return [delivery for _, delivery in taken]

    def _ack(self, count: int) -> None:
        for delivery in self._take(count):
            self.world.broker.acknowledge(delivery)

    def _refuse(self, count: int, mode: Nack | None) -> None:
        for delivery in self._take(count):
            self.world.broker.refuse(delivery, Refusal(mode=mode))

    def _commit(self, count: int, name: str, aborts: bool) -> None:
        world = self.world
        transaction = Transaction(FakeClient(), "t", TransactionLimits())
        queue = world.queue(name)
        transaction.add_send(queue, world.message(queue, b"in a transaction"))
        before = self.held[:count]
        taken = self._take(count)
        transaction.add_accepted(taken)
        try:
            is_refused = aborts or world.broker.commit_refusal(transaction)[0] != gates.OPEN
        except AddressFull:
            is_refused = True
        if is_refused:
            world.broker.abort(transaction)
            self.held = before + self.held
        else:
            world.broker.commit(transaction)

    def _lose(self, number: int) -> None:
        if number < len(self.clients):
            client = self.clients.pop(number)
            self.held = [one for one in self.held if one[0] is not client]
            self.world.broker.disconnect(client, is_lost=True)

    def _advance(self, milliseconds: int) -> None:
        self.world.advance(milliseconds)

    def _crash(self, is_synced: bool) -> None:
        if is_synced:
            self.world.sync()
        self.world.crash()
        self.world.spiller.block_bytes = 150
        self.clients = []
        self.held = []

    # -- the end

    def settle_everything(self) -> None:
        world = self.world
        while self.clients:
            self._lose(0)
        world.turn()
        for name in world.queue_names():
            self._subscribe(name, INDIVIDUAL)
        for name in world.topic_names():
            self._listen(name, INDIVIDUAL, True)
        for _ in range(500):
            world.advance(60)
            self.collect()
            if not self.held and not world.total_depth():
                break
            self._ack(len(self.held))
        world.sync()
        for topic in world.topics():
            if topic.account is not None:
                topic.account.see_durable(world.memory_store)
        for account in world.address_accounts().by_id.values():
            assert (account.used_bytes, account.used_messages) == (0, 0), account.uri
        world.open_gates()
        assert world.address_accounts().full == []
        assert (world.memory_used(), world.memory_paged()) == (0, 0)
        assert (world.spiller.spilled_bytes, world.paths()) == (0, [])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from((1 << 20, 10_000)), st.lists(STEPS, max_size=40))
def test_accounts_return_to_zero(memory_limit_bytes: int, steps: list[tuple[object, ...]]) -> None:
    run = Accounts(memory_limit_bytes)
    for step in steps:
        run.do(step)
    run.settle_everything()
