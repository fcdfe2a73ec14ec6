"""Messages to ActiveMQ.Scheduler.Management."""

from __future__ import annotations

import pytest

from config.matching import BOTH, Pattern
from config.permissions import Permission, PermissionMap
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.management import BROWSES_MAX, BROWSES_PER_USER_MAX, REMOVED_AT_ONCE
from engine.features.scheduler.plan import Plan
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.queue import MANAGEMENT
from engine.values import gates
from engine.values.destination import TEMP_QUEUE, TOPIC
from engine.values.errors import InvalidOption, LimitReached
from engine.values.message import PERSISTENT, PLAIN, STOMP, Message
from tests.support.engine.engine_world import EngineWorld
from tests.support.fakes import FakeClient


def schedule(world: EngineWorld, body: bytes, plan: Plan, to: str = "q") -> int:
    target = delayed(world.queue(to), plan)
    message = world.message(target, body, headers="a:1")
    assert world.broker.send(target, message) == gates.OPEN
    world.turn()
    return message.log_offset


def question(**properties: str) -> Message:
    block = "".join(f"{name}:{value}\n" for name, value in properties.items()).encode()
    return Message(0, STOMP, PLAIN, 4, 0, 0, 0, b"", block, b"")


def ask(world: EngineWorld, client: FakeClient | None = None, name: str = MANAGEMENT, **properties: str) -> None:
    if "reply_to" in properties:
        properties["reply-to"] = properties.pop("reply_to")
    world.hear(0 if client is None else client.client_number)
    assert world.broker.send(world.target(TOPIC, name), question(**properties)) == gates.OPEN
    world.turn()


def job_id(world: EngineWorld, place: int) -> str:
    return f"ID\\c{world.store.store_id()}-{place}"


@pytest.fixture
def world() -> EngineWorld:
    return EngineWorld()


def test_one_is_removed_by_its_id(world: EngineWorld) -> None:
    place = schedule(world, b"x", Plan(delay_ms=1_000))
    other = schedule(world, b"y", Plan(delay_ms=1_000))
    ask(world, AMQ_SCHEDULER_ACTION="REMOVE", scheduledJobId=job_id(world, place))
    ask(world, AMQ_SCHEDULER_ACTION="REMOVE", scheduledJobId=job_id(world, place))
    assert world.schedule.places() == [other]


def test_all_are_removed_in_turns(world: EngineWorld) -> None:
    target = delayed(world.queue("q"), Plan(delay_ms=1_000))
    for _ in range(REMOVED_AT_ONCE + 1):
        world.broker.send(target, world.message(target, b"x"))
    ask(world, AMQ_SCHEDULER_ACTION="REMOVEALL")
    assert len(world.schedule) == 1
    world.advance(1)
    assert len(world.schedule) == 0


def test_only_what_is_due_in_a_time_is_removed(world: EngineWorld) -> None:
    now_ms = world.broker.wall_ms
    places = [schedule(world, b"x", Plan(delay_ms=1_000 * number)) for number in range(1, 6)]
    ask(
        world,
        AMQ_SCHEDULER_ACTION="REMOVEALL",
        ACTION_START_TIME=str(now_ms + 2_000),
        ACTION_END_TIME=str(now_ms + 4_000),
    )
    assert world.schedule.places() == [places[0], places[4]]


@pytest.mark.parametrize("name", [MANAGEMENT, MANAGEMENT.lower()])
def test_a_browser_sees_all_in_order_and_takes_nothing(name: str, world: EngineWorld) -> None:
    later = schedule(world, b"later", Plan(delay_ms=60_000))
    schedule(world, b"again", Plan(delay_ms=5_000, period_ms=700, repeat=3))
    client = world.consuming("answers")
    ask(world, client, name, AMQ_SCHEDULER_ACTION="BROWSE", reply_to="/queue/answers")
    found = [one.message for one in client.handed]
    assert [one.body for one in found] == [b"again", b"later"]
    assert not any(one.flags & PERSISTENT for one in found)
    lines = found[0].annotations.decode()
    assert "original-destination:/queue/q\n" in lines
    assert f"AMQ_SCHEDULED_TIME:{world.broker.wall_ms + 5_000}\n" in lines
    assert "AMQ_SCHEDULED_PERIOD:700\nAMQ_SCHEDULED_REPEAT:3\n" in lines
    assert f"scheduledJobId:{job_id(world, later)}\n" in found[1].annotations.decode()
    assert len(world.schedule) == 2
    assert world.schedule.browse_count() == 0


def test_a_browser_of_a_time(world: EngineWorld) -> None:
    now_ms = world.broker.wall_ms
    for number in range(1, 6):
        schedule(world, b"%d" % number, Plan(delay_ms=1_000 * number))
    client = world.consuming("answers")
    times = {"ACTION_START_TIME": str(now_ms + 2_000), "ACTION_END_TIME": str(now_ms + 3_999)}
    ask(world, client, AMQ_SCHEDULER_ACTION="BROWSE", reply_to="/queue/answers", **times)
    assert [one.message.body for one in client.handed] == [b"2", b"3"]


def test_a_browser_leaves_out_what_cannot_be_read_and_what_went(world: EngineWorld) -> None:
    places = [schedule(world, b"%d" % number, Plan(delay_ms=60_000 + number)) for number in range(3)]
    client = world.consuming("answers")
    target = world.target(TOPIC, MANAGEMENT)
    asked = question(AMQ_SCHEDULER_ACTION="BROWSE", **{"reply-to": "/queue/answers"})
    world.broker.send(target, asked)
    world.store.refuse_pages("torn")
    assert world.schedule.cancel(places[2])
    world.turn()
    assert [one.message.body for one in client.handed] == [b"1"]
    assert world.schedule.browse_count() == 0


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({}, "AMQ_SCHEDULER_ACTION is 'None'; allowed are BROWSE, REMOVE and REMOVEALL"),
        ({"AMQ_SCHEDULER_ACTION": "remove"}, "is 'remove'; allowed are"),
        ({"AMQ_SCHEDULER_ACTION": "REMOVE"}, "scheduledJobId is 'None'; allowed is"),
        ({"AMQ_SCHEDULER_ACTION": "REMOVE", "scheduledJobId": "ID\\cother-5"}, "scheduledJobId is 'ID:other-5'"),
        (
            {"AMQ_SCHEDULER_ACTION": "REMOVEALL", "ACTION_START_TIME": "now", "ACTION_END_TIME": "5"},
            "ACTION_START_TIME is 'now'; allowed is a wall-clock time",
        ),
    ],
)
def test_what_is_no_question_is_refused(properties: dict[str, str], text: str, world: EngineWorld) -> None:
    schedule(world, b"x", Plan(delay_ms=1_000))
    target = world.target(TOPIC, MANAGEMENT)
    with pytest.raises(InvalidOption, match=text):
        world.broker.send(target, question(**properties))
    with pytest.raises(InvalidOption, match=text):
        world.broker.send_in(Transaction(world.client(), "t", TransactionLimits()), target, question(**properties))
    assert len(world.schedule) == 1


def test_so_many_may_look_at_a_time(world: EngineWorld) -> None:
    schedule(world, b"x", Plan(delay_ms=1_000))
    target = world.target(TOPIC, MANAGEMENT)
    asked = {"AMQ_SCHEDULER_ACTION": "BROWSE", "reply-to": "/queue/answers"}
    for _ in range(BROWSES_MAX):
        world.broker.send(target, question(**asked))
    with pytest.raises(InvalidOption, match=f"{BROWSES_MAX} browses of the schedule are running"):
        world.broker.send(target, question(**asked))


def test_so_many_of_one_user_may_look_at_a_time(world: EngineWorld) -> None:
    schedule(world, b"x", Plan(delay_ms=1_000))
    target = world.target(TOPIC, MANAGEMENT)
    asked = {"AMQ_SCHEDULER_ACTION": "BROWSE", "reply-to": "/queue/answers"}
    for name in ("ann", "bob"):
        for number in range(BROWSES_PER_USER_MAX + 2):
            client = world.client()
            client.holder = name
            world.hear(client.client_number)
            if number < BROWSES_PER_USER_MAX:
                world.broker.send(target, question(**asked))
                continue
            with pytest.raises(
                LimitReached, match=f"{BROWSES_PER_USER_MAX} browses of the schedule are running for {name}"
            ):
                world.broker.send(target, question(**asked))
    world.turn()
    world.broker.send(target, question(**asked))


def test_in_a_transaction_it_is_done_at_the_commit(world: EngineWorld) -> None:
    schedule(world, b"x", Plan(delay_ms=1_000))
    transaction = Transaction(world.client(), "t", TransactionLimits())
    target = world.target(TOPIC, MANAGEMENT)
    world.broker.send_in(transaction, target, question(AMQ_SCHEDULER_ACTION="REMOVEALL"))
    assert len(world.schedule) == 1
    world.broker.commit(transaction)
    assert len(world.schedule) == 0


def test_a_client_reaches_what_it_may() -> None:
    def grant(pattern: str, *actions: str) -> Permission:
        return Permission(Pattern.parse(pattern), BOTH, {action: frozenset({"g"}) for action in actions})  # type: ignore[misc]

    world = EngineWorld(
        permissions=PermissionMap(
            (
                grant("open", "read", "write"),
                grant("shut", "browse"),
                grant("answers", "read", "write", "create"),
                grant("ActiveMQ.>", "write", "create"),
            )
        )
    )
    places = {to: schedule(world, to.encode(), Plan(delay_ms=60_000), to) for to in ("open", "shut")}
    world.queue("answers")
    client = world.client()
    client.groups = frozenset({"g"})
    world.consumer(client, "answers")
    ask(world, client, AMQ_SCHEDULER_ACTION="BROWSE", reply_to="/queue/answers")
    assert [one.message.body for one in client.handed] == [b"open"]
    ask(world, client, AMQ_SCHEDULER_ACTION="REMOVE", scheduledJobId=job_id(world, places["shut"]))
    ask(world, client, AMQ_SCHEDULER_ACTION="REMOVEALL")
    assert world.schedule.places() == [places["shut"]]


def test_a_question_of_nobody_reaches_nothing_where_permissions_count() -> None:
    names = ("read", "write", "create")
    grant = Permission(Pattern.parse(">"), BOTH, {action: frozenset({"g"}) for action in names})  # type: ignore[misc]
    world = EngineWorld(permissions=PermissionMap((grant,)))
    place = schedule(world, b"secret", Plan(delay_ms=60_000))
    client = world.client()
    client.groups = frozenset({"g"})
    world.consumer(client, "answers")
    for action in ("BROWSE", "REMOVEALL"):
        ask(world, None, AMQ_SCHEDULER_ACTION=action, reply_to="/queue/answers")
    ask(world, None, AMQ_SCHEDULER_ACTION="BROWSE", reply_to="/queue/made.by.a.question")
    ask(world, None, AMQ_SCHEDULER_ACTION="REMOVE", scheduledJobId=job_id(world, place))
    assert client.handed == []
    assert world.schedule.places() == [place]
    assert not world.has_queue("made.by.a.question")


def test_a_look_too_many_in_a_transaction_does_not_fail_what_is_committed(world: EngineWorld) -> None:
    schedule(world, b"x", Plan(delay_ms=60_000))
    client = world.consuming("answers")
    transaction = Transaction(client, "t", TransactionLimits())
    target = world.target(TOPIC, MANAGEMENT)
    for _ in range(BROWSES_MAX + 1):
        world.broker.send_in(
            transaction, target, question(**{"AMQ_SCHEDULER_ACTION": "BROWSE", "reply-to": "/queue/answers"})
        )
    world.broker.commit(transaction)
    world.turn()
    assert len(client.handed) == BROWSES_MAX


def test_what_is_for_a_temporary_queue_is_shown_to_its_owner_alone() -> None:
    names = ("read", "write", "create")
    grant = Permission(Pattern.parse(">"), BOTH, {action: frozenset({"g"}) for action in names})  # type: ignore[misc]
    world = EngineWorld(permissions=PermissionMap((grant,)))
    owner, other = world.client("owner"), world.client("other")
    broker = world.broker
    for client in (owner, other):
        client.groups = frozenset({"g"})
        world.consumer(client, client.name)
    target = delayed(broker.open_temporary(owner, TEMP_QUEUE), Plan(delay_ms=60_000))
    broker.send(target, world.message(target, b"secret"))
    for client in (owner, other):
        ask(world, client, AMQ_SCHEDULER_ACTION="BROWSE", reply_to=f"/queue/{client.name}")
    assert [one.message.body for one in owner.handed] == [b"secret"]
    assert other.handed == []


@pytest.mark.parametrize(("who", "is_cancelled"), [("stranger", False), ("receiver", True), ("ann again", True)])
@pytest.mark.parametrize("asked", ["REMOVE", "REMOVEALL"])
def test_what_is_for_a_temporary_queue_is_cancelled_by_its_maker_or_receiver(
    asked: str, who: str, is_cancelled: bool
) -> None:
    names = ("read", "write", "create")
    grant = Permission(Pattern.parse(">"), BOTH, {action: frozenset({"g"}) for action in names})  # type: ignore[misc]
    world = EngineWorld(permissions=PermissionMap((grant,)))
    holders = {"receiver": "user 'bob'", "maker": "user 'ann'", "ann again": "user 'ann'", "stranger": "user 'eve'"}
    clients = {name: world.client(name) for name in holders}
    for name, holder in holders.items():
        clients[name].groups, clients[name].holder = frozenset({"g"}), holder
    target = delayed(world.broker.open_temporary(clients["receiver"], TEMP_QUEUE), Plan(delay_ms=60_000))
    message = world.message(target, b"x")
    world.hear(clients["maker"].client_number)
    world.broker.send(target, message)
    world.turn()
    properties = {"AMQ_SCHEDULER_ACTION": asked}
    if asked == "REMOVE":
        properties["scheduledJobId"] = job_id(world, message.log_offset)
    ask(world, clients[who], **properties)
    assert (len(world.schedule) == 0) is is_cancelled


def test_what_a_client_does_not_reach_is_passed_so_many_a_turn() -> None:
    grants = [
        Permission(Pattern.parse(name), BOTH, {action: frozenset({"g"}) for action in ("read", "write", "create")})
        for name in ("answers", "open", "ActiveMQ.>")
    ]
    world = EngineWorld(permissions=PermissionMap((*grants, Permission(Pattern.parse("shut"), BOTH, {}))))
    broker = world.broker
    shut = delayed(world.queue("shut"), Plan(delay_ms=60_000))
    for _ in range(3 * REMOVED_AT_ONCE):
        broker.send(shut, world.message(shut, b"x"))
    schedule(world, b"last", Plan(delay_ms=60_001), "open")
    client = world.client()
    client.groups = frozenset({"g"})
    world.consumer(client, "answers")
    for action in ("BROWSE", "REMOVEALL"):
        ask(world, client, AMQ_SCHEDULER_ACTION=action, reply_to="/queue/answers")
        assert client.handed == [] or action == "REMOVEALL"
        assert len(world.schedule) == 3 * REMOVED_AT_ONCE + 1
        for _ in range(30):
            world.advance(1)
    assert [one.message.body for one in client.handed] == [b"last"]
    assert len(world.schedule) == 3 * REMOVED_AT_ONCE


def test_a_look_whose_temporary_reply_to_closes_first_keeps_nothing(world: EngineWorld) -> None:
    schedule(world, b"x", Plan(delay_ms=60_000))
    client = world.client()
    reply = world.broker.open_temporary(client, TEMP_QUEUE)
    target = world.target(TOPIC, MANAGEMENT)
    asked = {"AMQ_SCHEDULER_ACTION": "BROWSE", "reply-to": f"/remote-temp-queue/{reply.name}".replace(":", "\\c")}
    world.broker.send(target, question(**asked))
    assert world.schedule.browse_count() == 1
    world.broker.close_temporary(reply)
    world.turn()
    assert world.schedule.browse_count() == 0 and world.memory_used() == 0
