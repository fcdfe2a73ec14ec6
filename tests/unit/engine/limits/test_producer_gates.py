"""Full addresses: who counts, who waits, who is dropped, who is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.limits.producer_credit import must_reject, producer_credit
from engine.limits.producer_gates import GlobalLimits
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values import gates
from engine.values.delivery import Refusal
from engine.values.errors import AddressFull
from engine.values.stored import DestinationState, LaneState
from tests.support.engine.engine_world import MIB, EngineWorld, address
from tests.support.fakes import FakeClient
from tests.support.store.scripted_store import ScriptedStore

TEN = b"0123456789"


class Sender(FakeClient):
    """Parks what is refused and sends it again when it is admitted, in order."""

    def __init__(self, world: EngineWorld, name: str = "sender", *, persistent: bool = True) -> None:
        super().__init__(name)
        self.is_persistent = persistent
        self.world = world
        self.waiting: list[tuple[Queue | Topic, bytes]] = []
        world.broker.connect(self)

    def send(self, destination: Queue | Topic, body: bytes) -> None:
        gate = self.world.broker.send(destination, self.world.message(destination, body, persistent=self.is_persistent))
        if gate != gates.OPEN:
            self.waiting.append((destination, body))
            self.world.park(self, gate, destination)

    def admit(self) -> None:
        super().admit()
        waiting = self.waiting
        self.waiting = []
        for destination, body in waiting:
            self.send(destination, body)


def limited(policy: str, **values: object) -> EngineWorld:
    return EngineWorld(address("q", full__address_full_policy=policy, **{f"full__{k}": v for k, v in values.items()}))


def used(world: EngineWorld, name: str = "q") -> tuple[int, int]:
    account = world.queue(name).account
    assert account is not None
    return account.used_bytes, account.used_messages


# -- what is counted


def test_no_account_where_no_limit_is_set() -> None:
    world = EngineWorld(address("q", full__address_full_policy="BLOCK"))
    assert world.queue("q").account is None
    assert not world.has_limits()


@pytest.mark.parametrize("persistent", [True, False])
def test_a_message_counts_from_its_append_until_it_is_settled(persistent: bool) -> None:
    world = limited("BLOCK", max_size_bytes=1_000)
    world.send(TEN, TEN, persistent=persistent)
    assert used(world) == (20, 2)
    client = world.subscriber(ack_mode=INDIVIDUAL)
    first, second = client.take()
    assert used(world) == (20, 2), "in flight is held"
    world.acknowledge(first)
    assert used(world) == (10, 1)
    world.refuse(second, refusal=Refusal(mode="requeue"))
    assert used(world) == (10, 1), "what comes back is held still"
    (again,) = client.take()
    world.acknowledge(again)
    assert used(world) == (0, 0)


def test_a_topic_counts_a_message_once_until_its_last_subscription_has_settled_it() -> None:
    world = EngineWorld(address("t", full__address_full_policy="BLOCK", full__max_size_bytes=1_000))
    topic = world.topic("t")
    clients = [world.client(), world.client()]
    for client in clients:
        world.consumer(client, topic)
    world.send(TEN, to=topic)
    world.send(TEN, to=topic, persistent=False)
    account = topic.account
    assert account is not None
    assert (account.used_bytes, account.used_messages) == (20, 2)
    world.acknowledge(*clients[0].take())
    assert (account.used_bytes, account.used_messages) == (20, 2)
    world.acknowledge(clients[1].take()[0])
    assert (account.used_bytes, account.used_messages) == (10, 1)
    world.lose(clients[1])
    assert (account.used_bytes, account.used_messages) == (0, 0)


def test_a_message_that_expires_or_is_dead_lettered_leaves_and_counts_where_it_goes() -> None:
    world = EngineWorld(
        address("q", full__address_full_policy="FAIL", full__max_size_bytes=1_000),
        address("ActiveMQ.DLQ", full__address_full_policy="FAIL", full__max_size_messages=1),
    )
    world.send(TEN, TEN)
    world.send(TEN, expires_ms=world.broker.wall_ms + 1)
    client = world.client()
    world.advance(2)
    world.subscribe(client)
    world.refuse(*client.take(), refusal=Refusal(mode="dead-letter"))
    assert used(world) == (0, 0)
    assert used(world, "ActiveMQ.DLQ")[1] == 2, "the engine's own moves are counted, may overshoot and never fail"


def test_a_restart_goes_on_with_what_was_found() -> None:
    lanes = [LaneState(4, 5, 1, [(2, 1)], {})]
    store = ScriptedStore([DestinationState(1, 1, "q", lanes, 300)])
    world = EngineWorld(address("q", full__address_full_policy="BLOCK", full__max_size_bytes=200), store=store)
    assert used(world) == (300, 3)
    assert world.try_send(TEN) == gates.ADDRESS_FULL


# -- BLOCK


@pytest.mark.parametrize(
    ("held", "gate"),
    [(99, gates.OPEN), (100, gates.OPEN), (101, gates.ADDRESS_FULL), (5_000, gates.ADDRESS_FULL)],
    ids=["below", "at the limit", "above", "one message may overshoot"],
)
def test_full_is_more_octets_than_the_limit(held: int, gate: int) -> None:
    world = limited("BLOCK", max_size_bytes=100)
    world.send(b"x" * held)
    assert world.try_send(TEN) == gate


def test_full_is_as_many_messages_as_the_limit() -> None:
    world = limited("BLOCK", max_size_messages=2)
    world.send(TEN, TEN)
    assert world.try_send(TEN) == gates.ADDRESS_FULL


def test_who_waits_goes_on_at_nine_tenths_in_order_and_newcomers_wait_behind() -> None:
    world = limited("BLOCK", max_size_bytes=100)
    queue = world.queue("q")
    sender = Sender(world)
    for number in range(14):
        sender.send(queue, b"%010d" % number)
    assert used(world) == (110, 11)
    client = world.subscriber(prefetch=3)
    first, second, third = client.take()
    world.acknowledge(first)
    assert (used(world), sender.admissions) == ((100, 10), 0), "below the limit, but not down at nine tenths"
    assert world.try_send(b"newcomer..") == gates.ADDRESS_FULL
    world.acknowledge(second)
    assert (used(world), sender.admissions) == ((110, 11), 1)
    assert [body for _, body in sender.waiting] == [b"%010d" % 13]
    world.acknowledge(third)
    bodies: list[bytes] = []
    while deliveries := client.take():
        bodies += [one.message.body for one in deliveries]
        world.acknowledge(*deliveries)
    assert bodies == [b"%010d" % number for number in range(3, 14)]
    assert used(world) == (0, 0)
    assert not world.waits()
    assert not world.is_blocked()


def test_producers_go_on_in_the_order_in_which_they_began_to_wait() -> None:
    world = limited("BLOCK", max_size_messages=5)
    world.send(TEN, TEN, TEN, TEN, TEN)
    queue = world.queue("q")
    senders = [Sender(world, f"sender {number}") for number in range(4)]
    for number, sender in enumerate(senders):
        sender.send(queue, b"%010d" % number)
    client = world.subscriber(prefetch=1)
    bodies: list[bytes] = []
    while deliveries := client.take():  # each acknowledgement makes room for one, and another one tries in vain
        bodies += [one.message.body for one in deliveries]
        world.acknowledge(*deliveries)
    assert bodies == [TEN] * 5 + [b"%010d" % number for number in range(4)]


def test_producers_that_wait_for_memory_go_on_in_that_order_too() -> None:
    world = EngineWorld(address(">", full__address_full_policy="BLOCK"), memory_limit_bytes=MIB)
    queue = world.queue("q")
    size = 300_000
    while world.try_send(bytes(size), persistent=False) == gates.OPEN:
        pass
    waiting = world.depth()
    senders = [Sender(world, f"sender {number}", persistent=False) for number in range(4)]
    for number, sender in enumerate(senders):
        sender.send(queue, bytes([number + 1]) * size)
    client = world.subscriber(prefetch=1)
    order: list[int] = []
    while deliveries := client.take():
        order += [one.message.body[0] for one in deliveries]
        world.acknowledge(*deliveries)
    assert order == [0] * waiting + [1, 2, 3, 4]


def test_a_producer_that_has_sent_waits_behind_the_others_again() -> None:
    world = limited("BLOCK", max_size_messages=1)
    world.send(TEN)
    queue = world.queue("q")
    first, second = Sender(world, "first"), Sender(world, "second")
    for sender, body in ((first, b"1"), (first, b"3"), (second, b"2")):
        sender.send(queue, body)
    client = world.subscriber(prefetch=1)
    bodies: list[bytes] = []
    while deliveries := client.take():
        bodies += [one.message.body for one in deliveries]
        world.acknowledge(*deliveries)
    assert bodies == [TEN, b"1", b"2", b"3"]


def test_other_addresses_go_on() -> None:
    world = limited("BLOCK", max_size_bytes=0)
    world.send(TEN)
    assert world.try_send(TEN) == gates.ADDRESS_FULL
    world.send(TEN, to="other")


def test_the_reason_names_address_use_limit_time_and_who_holds_the_messages() -> None:
    world = limited("BLOCK", max_size_bytes=15)
    queue = world.queue("q")
    world.send(TEN, TEN)
    world.consumer(world.client("slow"), prefetch=1, name="sub-7")
    sender = Sender(world)
    sender.send(queue, TEN)
    world.advance(1_500)
    assert world.reasons(sender) == [
        "address-full: queue://q holds 20 of 15 octets (max-size-bytes); "
        "1 messages wait, 1 are with slow, subscription sub-7; for 1.5 s"
    ]


def test_a_deadline_ends_the_wait_with_an_error() -> None:
    world = limited("BLOCK", max_size_bytes=5, block_timeout_ms=2_000)
    queue = world.queue("q")
    sender = Sender(world)
    sender.send(queue, TEN)
    sender.send(queue, TEN)
    world.advance(1_999)
    assert sender.waited == []
    world.advance(1)
    ((uri, error),) = sender.waited
    assert uri == "queue://q"
    assert error.condition == "address-full"
    assert str(error) == (
        "queue://q holds 10 of 5 octets (max-size-bytes); the message waited 2000 ms for room, which is the limit "
        "(block-timeout-ms)"
    )


def test_the_deadline_is_of_one_message_not_of_the_whole_queue_of_them() -> None:
    world = limited("BLOCK", max_size_bytes=5, block_timeout_ms=2_000)
    queue = world.queue("q")
    sender = Sender(world)
    for _ in range(3):
        sender.send(queue, TEN)
    client = world.subscriber(prefetch=1)
    world.advance(1_500)
    world.acknowledge(*client.take())
    world.advance(1_500)
    assert sender.waited == [], "the second got through, the third waits since then"
    world.advance(500)
    assert len(sender.waited) == 1


def test_a_client_that_goes_is_forgotten() -> None:
    world = limited("BLOCK", max_size_bytes=5, block_timeout_ms=2_000)
    sender = Sender(world)
    sender.send(world.queue("q"), TEN)
    sender.send(world.queue("q"), TEN)
    world.lose(sender)
    world.advance(2_000)
    assert sender.waited == []
    assert not world.waits()
    assert world.deadline_count() == 0


# -- DROP and FAIL


def test_drop_accepts_and_discards_until_there_is_room() -> None:
    world = limited("DROP", max_size_messages=2)
    world.send(TEN, TEN, TEN, TEN)
    assert used(world) == (20, 2)
    account = world.queue("q").account
    assert account is not None
    assert account.dropped_count == 2
    client = world.subscriber(prefetch=1)
    world.acknowledge(*client.take())
    world.send(b"fits")
    assert used(world) == (14, 2)


def test_fail_answers_with_an_error_that_names_address_use_and_limit() -> None:
    world = limited("FAIL", max_size_bytes=15)
    world.send(TEN, TEN)
    with pytest.raises(AddressFull) as caught:
        world.try_send(TEN)
    assert caught.value.condition == "address-full"
    assert str(caught.value) == "queue://q holds 20 of 15 octets (max-size-bytes); its policy is FAIL"
    assert used(world) == (20, 2)


def test_page_takes_everything_until_its_page_limit_and_does_then_what_page_full_policy_says() -> None:
    world = limited("PAGE", max_size_bytes=5, page_limit_messages=2)
    world.send(TEN, TEN)
    with pytest.raises(AddressFull, match="2 of 2 messages"):
        world.try_send(TEN)
    dropping = limited("PAGE", max_size_bytes=5, page_limit_bytes=15, page_full_policy="DROP")
    dropping.send(TEN, TEN, TEN)
    assert used(dropping) == (20, 2)


def test_page_keeps_no_more_in_memory_than_its_limit_and_delivers_all() -> None:
    world = limited("PAGE", max_size_messages=3)
    bodies = [b"%010d" % number for number in range(20)]
    client = world.subscriber(prefetch=1)
    world.send(*bodies)
    (lane,) = world.queue("q").used_lanes
    got: list[bytes] = []
    while deliveries := client.take():
        assert len(lane.ready) <= 2 * 3, "what is left, and a page"
        got += [one.message.body for one in deliveries]
        world.acknowledge(*deliveries)
    assert got == bodies


# -- all addresses together


def test_the_global_limit_makes_each_address_do_what_its_policy_says() -> None:
    world = EngineWorld(
        address("b", full__address_full_policy="BLOCK"),
        address("d", full__address_full_policy="DROP"),
        address("f", full__address_full_policy="FAIL"),
        limits=GlobalLimits(25, -1),
    )
    world.send(TEN, to="b")
    world.send(TEN, to="d")
    world.send(TEN, to="f")
    world.send(TEN, to="pages")
    assert world.try_send(TEN, "b") == gates.ADDRESS_FULL
    assert world.try_send(TEN, "d") == gates.OPEN
    with pytest.raises(AddressFull, match=r"all addresses hold 30 of 25 octets \(global-max-size\)"):
        world.try_send(TEN, "f")
    assert [used(world, name) for name in "bdf"] == [(10, 1), (10, 1), (10, 1)]
    client = world.subscriber("b")
    world.acknowledge(*client.take())
    assert world.try_send(TEN, "b") == gates.OPEN
    with pytest.raises(AddressFull):
        world.try_send(TEN, "f")  # 30 again


# -- transactions


def transaction(world: EngineWorld, *sends: str) -> Transaction:
    made = Transaction(world.client(), "t", TransactionLimits())
    for name in sends:
        queue = world.queue(name)
        made.add_send(queue, world.message(queue, TEN))
    return made


def test_a_transaction_is_admitted_whole_if_each_address_is_below_its_limit() -> None:
    world = limited("BLOCK", max_size_bytes=100)
    made = transaction(world, *["q"] * 30)
    assert world.broker.commit_refusal(made) == (gates.OPEN, None)
    world.broker.commit(made)
    assert used(world) == (300, 30), "one transaction may overshoot"
    gate, destination = world.broker.commit_refusal(transaction(world, "q"))
    assert (gate, destination) == (gates.ADDRESS_FULL, world.queue("q"))
    assert world.broker.commit_refusal(transaction(world, "other")) == (gates.OPEN, None)


def test_a_transaction_that_settles_messages_of_the_address_is_not_held_back() -> None:
    world = limited("BLOCK", max_size_bytes=5)
    world.send(TEN)
    assert world.broker.commit_refusal(transaction(world, "q"))[0] == gates.ADDRESS_FULL
    assert world.try_send(TEN) == gates.ADDRESS_FULL
    client = world.subscriber(prefetch=1)
    made = transaction(world, "q")
    made.add_accepted(client.take())
    assert world.broker.commit_refusal(made) == (gates.OPEN, None)
    world.broker.commit(made)
    world.turn()
    assert used(world) == (10, 1)


def test_acknowledgements_of_other_addresses_make_room_for_all() -> None:
    world = EngineWorld(address(">", full__address_full_policy="BLOCK"), limits=GlobalLimits(15, -1))
    world.send(TEN, to="a")
    world.send(TEN, to="b")
    client = world.subscriber("a")
    assert world.try_send(TEN, "b") == gates.ADDRESS_FULL
    made = transaction(world, "b")
    made.add_accepted(client.take())
    assert world.broker.commit_refusal(made) == (gates.OPEN, None)


def test_a_transaction_that_sends_to_a_failing_address_is_refused_whole_and_one_to_a_dropping_one_is_thinned() -> None:
    world = EngineWorld(
        address("f", full__address_full_policy="FAIL", full__max_size_messages=0),
        address("d", full__address_full_policy="DROP", full__max_size_messages=1),
    )
    with pytest.raises(AddressFull):
        world.broker.commit_refusal(transaction(world, "other", "f"))
    made = transaction(world, "d", "other", "d")
    assert world.broker.commit_refusal(made) == (gates.OPEN, None)
    world.broker.commit(made)
    assert used(world, "d") == (10, 1)
    assert world.stats("other").depth == 1


# -- protocols with credit


def test_little_is_granted_near_the_limit_and_nothing_beyond_it() -> None:
    world = limited("BLOCK", max_size_bytes=100_000, max_size_bytes_reject_threshold=100_005)
    queue = world.queue("q")
    assert producer_credit(world.queue("free"), 100, 1_000) == 100
    assert producer_credit(queue, 100, 1_000) == 65, "what producer-window-size holds"
    world.send(b"x" * 97_000)
    assert producer_credit(queue, 100, 1_000) == 3
    world.send(b"x" * 3_000)
    assert producer_credit(queue, 100, 1_000) == 1, "one message may overshoot"
    world.send(b"x" * 5)
    assert producer_credit(queue, 100, 1_000) == 0
    assert not must_reject(queue)


def test_the_reject_threshold_refuses_even_what_was_granted() -> None:
    world = limited("BLOCK", max_size_bytes=10, max_size_bytes_reject_threshold=15)
    queue = world.queue("q")
    world.send(b"x" * 15)
    assert not must_reject(queue)
    world.accept(queue, world.message(queue, b"x"))
    assert must_reject(queue)


def test_automatic_acknowledgement_leaves_at_once() -> None:
    world = limited("BLOCK", max_size_bytes=10)
    world.subscriber(ack_mode=AUTO)
    for _ in range(5):
        world.send(TEN)
    assert used(world) == (0, 0)


def test_who_waits_for_an_address_that_goes_is_admitted() -> None:
    world = limited("BLOCK", max_size_bytes=5)
    queue = world.queue("q")
    sender = Sender(world)
    sender.send(queue, TEN)
    sender.send(queue, TEN)
    world.turn()
    assert sender.admissions == 0
    world.address_accounts().close(queue.destination_id)
    world.turn()
    assert sender.admissions == 1


def test_who_listens_hears_that_a_producer_waits_and_where() -> None:
    world = EngineWorld(
        address(
            "q",
            full__address_full_policy="BLOCK",
            full__max_size_bytes=5,
            advisories__fast_producers=True,
            advisories__when_full=True,
        )
    )
    listener = world.client("listener")
    for event in ("FastProducer", "FULL"):
        topic = world.topic(f"ActiveMQ.Advisory.{event}.Queue.q")
        world.consumer(listener, topic, AUTO, name=event)
    queue = world.queue("q")
    sender = Sender(world)
    for _ in range(4):
        sender.send(queue, TEN)
    world.turn()
    told = listener.bodies()
    assert len(told) == 2, "once, however much waits"
    assert b"queue://q holds 10 of 5 octets" in told[1]


class Committer(FakeClient):
    """A connection whose commit waits; ``commit`` is what it does once it is let go on."""

    def __init__(self, commit: Callable[[], None]) -> None:
        super().__init__()
        self._commit = commit

    def admit(self) -> None:
        self._commit()


def test_what_a_commit_that_waited_settles_opens_another_gate_in_the_same_turn() -> None:
    world = EngineWorld(address(">", full__address_full_policy="BLOCK", full__max_size_bytes=5))
    destinations = world.broker.destinations
    a, b = destinations.queue("a"), destinations.queue("b")
    taker = world.consuming("b")
    world.send(TEN, to="b")
    world.turn()
    (taken,) = taker.take()
    settling = Transaction(taker, "t", TransactionLimits())
    settling.add_accepted([taken])
    sender = Sender(world)
    sender.send(b, TEN)
    sender.send(b, TEN)
    world.send(TEN, to="a")
    assert world.try_send(TEN, "a") == gates.ADDRESS_FULL
    committer = Committer(lambda: world.broker.commit(settling))
    world.broker.connect(committer)
    world.park(committer, gates.ADDRESS_FULL, a)
    drainer = world.subscriber("a")
    world.broker.acknowledge(*drainer.take())
    assert sender.admissions == 0
    world.broker.end_turn()
    assert sender.admissions == 1, "the place that the commit made is taken though nothing else happens"


def test_what_a_failing_store_cannot_write_counts_in_the_memory_budget() -> None:
    world = EngineWorld(memory_limit_bytes=MIB)
    news = world.topic("news")
    assert world.try_send(bytes(1_200_000)) == gates.OPEN
    world.store.fail("disk full")
    world.turn()
    assert world.memory_unwritten() > 1_200_000
    assert world.try_send(b"x", persistent=False) == gates.MEMORY
    assert world.try_send(b"x", news, persistent=False) == gates.MEMORY
    world.store.heal()
    world.turn()
    assert world.memory_unwritten() == 0
    assert world.try_send(b"x", persistent=False) == gates.OPEN


def test_acknowledgements_that_cannot_be_written_keep_a_backlog_from_being_read_on() -> None:
    world = EngineWorld(memory_limit_bytes=MIB)
    client = world.consuming(prefetch=100)
    world.send(*[b"x"] * 20_000)
    world.broker.sync()
    world.store.finish_sync()
    world.store.fail("disk full")
    taken = 0
    while held := client.take():
        taken += len(held)
        for delivery in held:
            world.broker.acknowledge(delivery)
            world.turn()
    assert 8_000 < taken < 18_000, "half the budget comes first, then what is left of the room"
    world.store.heal()
    world.turn()
    while held := client.take():
        taken += len(held)
        world.acknowledge(*held)
    assert taken == 20_000


def test_waits_are_counted_by_gate_and_not_again_when_a_message_is_refused_again() -> None:
    world = limited("BLOCK", max_size_bytes=20)
    assert world.broker.inspect().producer_waits["address-full"] == 0
    sender = Sender(world)
    for _ in range(5):
        sender.send(world.queue("q"), TEN)
    world.turn()
    assert len(sender.waiting) == 2
    assert world.broker.inspect().producer_waits == {
        **dict.fromkeys(("store", "memory", "rate", "disk", "credit", "publishing", "stopping", "user-rate"), 0),
        "address-full": 1,
    }
