"""Branches of distributed transactions: prepared in the log, invisible until their outcome, over every kind of stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.consumers.consumer import AUTO, CLIENT, Consumer
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import Plan
from engine.open_transaction import ACTION_BYTES, TransactionLimits
from engine.sources.composite import Destination
from engine.sources.identified import identified
from engine.values.broker_stats import BranchStats
from engine.values.delivery import Delivery, Refusal
from engine.values.destination import PREPARED_QUEUE, TEMP_QUEUE
from engine.values.errors import (
    AddressFull,
    BranchCommitted,
    BranchDropped,
    BranchInUse,
    BranchState,
    LimitReached,
    TransactionError,
    UnknownBranch,
)
from engine.values.xid import Xid
from engine.xa.branch import Branch
from engine.xa.prepared_room import BranchLimits
from tests.support.engine.engine_world import address
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import FakeClient

ONE = Xid(1, b"tx", b"a")
OTHER = Xid(1, b"tx", b"b")
LIMITS = TransactionLimits()

Stop = Callable[[RestartWorld], None]


def begin(world: RestartWorld, client: FakeClient, xid: Xid = ONE) -> Branch:
    world.branches.begin(client, xid, LIMITS)
    return world.branches.active(client, xid)


def add(world: RestartWorld, branch: Branch, body: bytes, to: str | Destination = "out") -> None:
    destination = world.queue(to) if isinstance(to, str) else to
    world.broker.send_in(branch.transaction, destination, world.message(destination, body))


def prepared(world: RestartWorld, client: FakeClient, *bodies: bytes, xid: Xid = ONE, held: list[Delivery]) -> Branch:
    branch = begin(world, client, xid)
    branch.transaction.add_accepted(held)
    for body in bodies:
        add(world, branch, body)
    assert world.branches.prepare(branch)
    world.turn()
    return branch


def taken(world: RestartWorld, *bodies: bytes, client: FakeClient | None = None) -> tuple[Consumer, list[Delivery]]:
    """Send messages to ``q`` and have a consumer take them."""
    client = client or world.client("taker")
    consumer = world.consumer(client, "q", CLIENT)
    world.send(*bodies)
    return consumer, client.take()


def waiting(world: RestartWorld, name: str) -> list[bytes]:
    """Return what a new consumer gets, and let it go again."""
    client = world.client("looker")
    world.consumer(client, name, CLIENT)
    world.turn()
    found = client.bodies()
    world.leave(client)
    return found


def outcome(world: RestartWorld, xid: Xid = ONE, is_commit: bool = True) -> None:
    """Decide a branch on a new connection."""
    branch = world.branches.require_prepared(world.client("manager"), xid)
    if is_commit:
        world.branches.commit(branch)
    else:
        world.branches.roll_back(branch)
    world.turn()


def nothing(world: RestartWorld) -> None:
    world.turn()


def connection_ends(world: RestartWorld) -> None:
    for client in world.connections():
        world.branches.client_left(client)
        world.broker.disconnect(client, is_lost=True)
    world.turn()


STOPS = pytest.mark.parametrize("stop", [nothing, connection_ends, RestartWorld.restart])


@STOPS
def test_what_is_prepared_shows_at_its_commit(stop: Stop) -> None:
    world = RestartWorld()
    prepared(world, world.client(), b"1", b"2", held=[])
    stop(world)
    assert waiting(world, "out") == []
    outcome(world)
    assert waiting(world, "out") == [b"1", b"2"]
    world.restart()
    assert waiting(world, "out") == [b"1", b"2"]


@STOPS
def test_nothing_is_left_of_it_after_a_rollback(stop: Stop) -> None:
    world = RestartWorld()
    prepared(world, world.client(), b"1", held=[])
    stop(world)
    outcome(world, is_commit=False)
    for _ in range(2):
        assert waiting(world, "out") == []
        with pytest.raises(UnknownBranch):
            outcome(world)
        world.restart()


@STOPS
def test_what_it_has_acknowledged_is_gone_with_its_commit(stop: Stop) -> None:
    world = RestartWorld()
    _, held = taken(world, b"1", b"2", b"3")
    prepared(world, world.client(), held=held[:2])
    stop(world)
    assert b"1" not in waiting(world, "q")
    outcome(world)
    connection_ends(world)
    for _ in range(2):
        assert waiting(world, "q") == [b"3"]
        assert world.stats("q").depth == 1
        world.restart()


@pytest.mark.parametrize("stop", [connection_ends, RestartWorld.restart])
def test_what_it_has_acknowledged_returns_with_its_rollback(stop: Stop) -> None:
    world = RestartWorld()
    _, held = taken(world, b"1", b"2", b"3")
    prepared(world, world.client(), held=held[:2])
    stop(world)
    assert waiting(world, "q") == [b"3"]
    outcome(world, is_commit=False)
    assert waiting(world, "q") == [b"1", b"2", b"3"]
    assert world.stats("q").depth == 3


def test_a_rollback_leaves_messages_with_their_consumer() -> None:
    world = RestartWorld()
    client = world.client()
    consumer, held = taken(world, b"1", b"2", client=client)
    branch = prepared(world, client, held=held)
    world.branches.roll_back(branch)
    world.turn()
    assert client.handed == [], "the client delivers them to itself again"
    assert list(consumer.ledger.values()) == held
    world.acknowledge(*held)
    assert world.stats("q").depth == 0


def test_a_rollback_by_an_operator_returns_messages_to_their_queue() -> None:
    world = RestartWorld()
    client = world.client()
    _, held = taken(world, b"1", b"2", client=client)
    branch = prepared(world, client, held=held)
    world.branches.roll_back(branch, is_heuristic=True)
    world.turn()
    assert client.bodies() == [b"1", b"2"], "its consumer gets them again, as nobody tells it of the rollback"


@STOPS
@pytest.mark.parametrize("is_commit", [True, False])
def test_an_outcome_by_an_operator_is_known_until_it_is_forgotten(stop: Stop, is_commit: bool) -> None:
    world = RestartWorld()
    branches = world.branches
    branch = prepared(world, world.client(), b"1", held=[])
    branches.commit(branch, is_heuristic=True) if is_commit else branches.roll_back(branch, is_heuristic=True)
    world.turn()
    stop(world)
    branches, client, stranger = world.branches, world.client("manager"), world.client("stranger")
    stranger.user = "bob"
    assert waiting(world, "out") == ([b"1"] if is_commit else [])
    assert (branches.xids(client), branches.heuristics.xids("")) == ([], [ONE])
    asked = (branches.require_prepared, branches.is_prepared, branches.active)
    for ask in asked:
        with pytest.raises(BranchCommitted if is_commit else BranchDropped):
            ask(client, ONE)
        with pytest.raises(UnknownBranch):
            ask(stranger, ONE)
    for one in (client, stranger):
        with pytest.raises(BranchInUse):
            branches.begin(one, ONE, LIMITS)
    with pytest.raises(UnknownBranch):
        branches.forget(stranger, ONE)
    branches.forget(client, ONE)
    world.turn()
    stop(world)
    with pytest.raises(UnknownBranch):
        world.branches.forget(world.client("last"), ONE)


def test_outcomes_by_operators_have_a_limit() -> None:
    world = FewBranches()
    for number in range(5):
        xid = Xid(1, b"%d" % number, b"")
        world.branches.roll_back(prepared(world, world.client(), b"1", xid=xid, held=[]), is_heuristic=True)
    world.turn()
    world.restart()
    assert [one.xid.transaction for one in world.branches.heuristics.all()] == [b"2", b"3", b"4"]


def test_it_is_lost_if_its_preparation_was_not_durable() -> None:
    world = RestartWorld()
    _, held = taken(world, b"1")
    world.sync()
    prepared(world, world.client(), b"out", held=held)
    world.crash()
    assert (waiting(world, "q"), waiting(world, "out")) == ([b"1"], [])
    assert world.branches.prepared() == []


def test_it_is_prepared_again_if_its_commit_was_not_durable() -> None:
    world = RestartWorld()
    _, held = taken(world, b"1")
    prepared(world, world.client(), b"out", held=held)
    world.sync()
    outcome(world)
    world.crash()
    assert (waiting(world, "q"), waiting(world, "out")) == ([], [])
    outcome(world)
    assert (waiting(world, "q"), waiting(world, "out")) == ([], [b"out"])


@pytest.mark.parametrize("is_commit", [True, False])
def test_what_it_holds_does_not_count_for_a_ring(is_commit: bool) -> None:
    world = RestartWorld(address("q", queue__ring_size=1))
    _, held = taken(world, b"1")
    prepared(world, world.client(), held=held)
    world.sync()
    world.crash()
    world.send(b"2")
    assert waiting(world, "q") == [b"2"]
    outcome(world, is_commit=is_commit)
    assert world.queue("q").fates.enlisted_count == 0
    assert waiting(world, "q") == [b"2"], "the newest one"


def test_messages_keep_what_they_are() -> None:
    world = RestartWorld()
    branch = begin(world, world.client())
    world.broker.send_in(
        branch.transaction,
        world.queue("out"),
        world.message(
            world.queue("out"), b"m", persistent=False, priority=7, expires_ms=1 << 50, headers="a:b", group="g"
        ),
    )
    world.branches.prepare(branch)
    world.restart()
    outcome(world)
    client = world.client()
    world.consumer(client, "out", AUTO)
    world.turn()
    (one,) = client.handed
    message = one.message
    assert (message.jms_priority(), message.flags & 1, message.expires_ms) == (7, 0, 1 << 50)
    assert (message.headers, message.annotations) == (b"a:b\nJMSXGroupID:g\n", b"")
    assert message.group_hash


def test_messages_of_a_topic_are_published_at_the_commit() -> None:
    world = RestartWorld()
    client = world.client("durable", "me")
    world.subscribe(client, world.topic("t"), CLIENT, subscription="s", is_durable=True)
    branch = begin(world, world.client())
    add(world, branch, b"1", world.topic("t"))
    world.branches.prepare(branch)
    world.restart()
    outcome(world)
    client = world.client("durable", "me")
    world.subscribe(client, world.topic("t"), CLIENT, subscription="s", is_durable=True)
    assert client.bodies() == [b"1"]


@pytest.mark.parametrize("is_commit", [True, False])
def test_messages_of_a_durable_subscription_are_held(is_commit: bool) -> None:
    world = RestartWorld()
    client = world.client("durable", "me")
    world.subscribe(client, world.topic("t"), CLIENT, subscription="s", is_durable=True)
    world.send(b"1", b"2", to=world.topic("t"))
    prepared(world, client, held=client.take()[:1])
    world.restart()
    client = world.client("durable", "me")
    world.subscribe(client, world.topic("t"), CLIENT, subscription="s", is_durable=True)
    assert client.bodies() == [b"2"]
    outcome(world, is_commit=is_commit)
    assert client.bodies() == ([] if is_commit else [b"1"])
    world.restart()
    client = world.client("durable", "me")
    world.subscribe(client, world.topic("t"), CLIENT, subscription="s", is_durable=True)
    assert client.bodies() == ([b"2"] if is_commit else [b"1", b"2"])


def test_held_messages_are_neither_shown_nor_expired_nor_loaded_past() -> None:
    world = RestartWorld()
    client = world.client()
    world.consumer(client, "q", CLIENT)
    world.send(b"1", b"2", expires_ms=world.broker.wall_ms + 1_000)
    prepared(world, client, held=client.take())
    world.restart()
    world.advance(60_000)
    assert world.stats("q").depth == 2
    outcome(world)
    assert world.stats("q").depth == 0
    assert world.stats("q").expired == 0


def test_a_full_address_counts_held_messages_until_the_commit() -> None:
    world = RestartWorld(address("q", full__max_size_messages=2, full__address_full_policy="FAIL"))
    _, held = taken(world, b"1", b"2")
    prepared(world, world.client(), held=held)
    world.restart()
    with pytest.raises(AddressFull):
        world.try_send(b"3")
    outcome(world)
    world.send(b"3")


def test_a_branch_without_work_is_not_prepared() -> None:
    world = RestartWorld()
    client = world.client()
    assert not world.branches.prepare(begin(world, client))
    with pytest.raises(UnknownBranch):
        world.branches.active(client, ONE)
    assert not any(state.name == PREPARED_QUEUE for state in world.memory_store.recovered())


def test_the_end_of_a_connection_rolls_back_what_is_not_prepared() -> None:
    world = RestartWorld()
    client = world.client()
    _, held = taken(world, b"1", client=client)
    branch = begin(world, client)
    branch.transaction.add_accepted(held)
    world.branches.client_left(client)
    world.lose(client)
    with pytest.raises(UnknownBranch):
        world.branches.active(world.client(), ONE)
    assert waiting(world, "q") == [b"1"]


def test_connections_of_one_user_take_part_in_a_branch() -> None:
    world = RestartWorld()
    first, second = world.client(), world.client()
    branch = begin(world, first)
    assert begin(world, second) is branch
    stranger = world.client()
    stranger.user = "stranger"
    with pytest.raises(BranchInUse):
        begin(world, stranger)
    with pytest.raises(UnknownBranch):
        world.branches.active(stranger, ONE)


def test_what_a_state_does_not_allow_is_refused() -> None:
    world = RestartWorld()
    client = world.client()
    begin(world, client)
    with pytest.raises(BranchState):
        world.branches.require_prepared(client, ONE)
    prepared(world, client, b"1", xid=OTHER, held=[])
    with pytest.raises(BranchState):
        world.branches.active(client, OTHER)
    with pytest.raises(BranchInUse):
        begin(world, client, OTHER)
    with pytest.raises(TransactionError):
        world.branches.begin(client, Xid(2, b"", b""), TransactionLimits(open_count=1))


class FewBranches(RestartWorld):
    def broker_options(self) -> dict[str, Any]:
        return {"branch_limits": BranchLimits(3, 5_000, 2)}


def test_prepared_branches_have_limits() -> None:
    world = FewBranches()
    client = world.client()
    branch = begin(world, client)
    for _ in range(5):
        add(world, branch, b"m" * 1_000)
    with pytest.raises(LimitReached, match=r"limits\.prepared-transactions-bytes"):
        world.branches.prepare(branch)
    world.broker.abort(world.branches.end(branch))
    for number in (1, 2, 3):
        prepared(world, client, b"1", xid=Xid(number, b"", b""), held=[])
    fourth = begin(world, client)
    add(world, fourth, b"1")
    with pytest.raises(LimitReached, match=r"limits\.prepared-transactions\)"):
        world.branches.prepare(fourth)


def test_one_user_leaves_some_to_others() -> None:
    world = FewBranches()
    ann, bob = world.client(), world.client()
    ann.user, bob.user = "ann", "bob"
    for number in (1, 2):
        prepared(world, ann, b"1", xid=Xid(number, b"", b""), held=[])
    third = begin(world, ann)
    add(world, third, b"1")
    with pytest.raises(LimitReached, match="2 transactions of ann are prepared, which is the limit of one user"):
        world.branches.prepare(third)
    prepared(world, bob, b"1", xid=OTHER, held=[])


@STOPS
def test_it_is_known_who_holds_a_message(stop: Stop) -> None:
    world = RestartWorld()
    _, held = taken(world, b"1", b"2")
    prepared(world, world.client(), held=held[:1])
    stop(world)
    holder = world.branches.holder_of(world.queue("q"), 4, 0)
    assert holder is not None
    assert holder.xid == ONE
    assert world.branches.holder_of(world.queue("q"), 4, 1) is None


def test_they_are_counted_and_their_memory_is() -> None:
    world = RestartWorld()
    before = world.memory_used()
    _, held = taken(world, b"1")
    prepared(world, world.client(), b"m" * 1_000, held=held)
    size = 1_000 + 2 * ACTION_BYTES
    for _ in range(2):
        found = world.broker.inspect().branches
        assert found == BranchStats(1, size, world.broker.wall_ms, 0, 0)
        assert world.memory_used() - before == size
        world.restart()
    outcome(world)
    prepared(world, world.client(), b"2", xid=OTHER, held=[])
    outcome(world, OTHER, is_commit=False)
    assert world.broker.inspect().branches == BranchStats(committed=1, rolled_back=1)
    assert world.memory_used() == before


def test_scheduled_messages_and_duplicate_ids() -> None:
    world = RestartWorld()
    branch = begin(world, world.client())
    add(world, branch, b"later", delayed(world.queue("out"), Plan(delay_ms=5_000)))
    add(world, branch, b"once", identified(world.queue("out"), "1"))
    world.branches.prepare(branch)
    world.restart()
    world.advance(60_000)
    outcome(world)
    assert waiting(world, "out") == [b"once"]
    assert world.broker.send(identified(world.queue("out"), "1"), world.message(world.queue("out"), b"again")) == 0
    world.restart()
    world.advance(5_000)
    assert waiting(world, "out") == [b"once", b"later"]


def test_its_id_may_have_come_since_it_was_prepared() -> None:
    world = RestartWorld()
    branch = begin(world, world.client())
    add(world, branch, b"prepared", identified(world.queue("out"), "1"))
    world.branches.prepare(branch)
    world.broker.send(identified(world.queue("out"), "1"), world.message(world.queue("out"), b"meanwhile"))
    world.turn()
    outcome(world)
    assert waiting(world, "out") == [b"meanwhile", b"prepared"], "what is prepared is promised"


def test_destinations_that_have_ended_meanwhile() -> None:
    world = RestartWorld()
    client = world.client()
    temporary = world.broker.open_temporary(client, TEMP_QUEUE)
    _, held = taken(world, b"1")
    branch = begin(world, client)
    branch.transaction.add_accepted(held)
    add(world, branch, b"t", temporary)
    add(world, branch, b"2")
    world.branches.prepare(branch)
    connection_ends(world)
    world.restart()
    for name in ("q", "out"):
        world.delete(world.queue(name), is_forced=True)
    outcome(world)
    assert waiting(world, "out") == [b"2"]
    assert world.branches.prepared() == []


def test_a_rollback_reads_messages_a_page_at_a_time() -> None:
    world = RestartWorld()
    consumer, held = taken(world, *(b"%d" % number for number in range(3_000)))
    client = consumer.client
    assert isinstance(client, FakeClient)
    while len(held) < 3_000:
        consumer.extend(held[-1])
        world.turn()
        held += client.take()
    prepared(world, world.client(), held=held[:10] + held[20:])
    world.restart()
    outcome(world, is_commit=False)
    client = world.client()
    world.consumer(client, "q", AUTO)
    world.turn()
    assert sorted(client.bodies(), key=int) == [b"%d" % number for number in range(3_000)]


def test_attempts_of_before_are_kept_by_a_rollback() -> None:
    world = RestartWorld()
    _, held = taken(world, b"1")
    world.refuse(*held, refusal=Refusal("redeliver", 0))
    connection_ends(world)
    client = world.client()
    world.consumer(client, "q", CLIENT)
    world.turn()
    prepared(world, client, held=client.take())
    world.restart()
    outcome(world, is_commit=False)
    client = world.client()
    world.consumer(client, "q", CLIENT)
    world.turn()
    assert [(one.body, one.delivery_count) for one in client.handed] == [(b"1", 3)], (
        "one refusal, and one loss of the connection"
    )


def test_a_branch_belongs_to_its_user() -> None:
    world = RestartWorld()
    owner = world.client()
    owner.user = "owner"
    prepared(world, owner, b"1", held=[])
    world.restart()
    stranger = world.client()
    stranger.user = "stranger"
    assert world.branches.xids(stranger) == []
    with pytest.raises(UnknownBranch):
        world.branches.require_prepared(stranger, ONE)
    again = world.client()
    again.user = "owner"
    assert world.branches.xids(again) == [ONE]
