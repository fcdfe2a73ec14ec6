"""Duplicate ids: an address accepts one message with each id, also after a restart."""

from __future__ import annotations

import random
from typing import Any

import pytest

from engine.consumers.consumer import AUTO
from engine.features.duplicate_ids import FORGOTTEN_AT_ONCE, FORGOTTEN_MOST, DuplicateIdLimits
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import Plan
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.composite import Composite, Destination
from engine.sources.identified import ID_MOST_CHARACTERS, SHOWN_CHARACTERS, Identified, identified, sent_again
from engine.values import gates
from engine.values.destination import DUPLICATE_IDS_QUEUE, QUEUE, TEMP_QUEUE
from engine.values.errors import AddressFull, DuplicateId, InvalidDestination, InvalidOption, TransactionError
from engine.values.message import DEFAULT_PRIORITY, PERSISTENT, STOMP, Message
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.engine.restart_world import RestartWorld

FEW = DuplicateIdLimits(10, 25)


class FewIds(RestartWorld):
    """With limits so small that ids are forgotten."""

    def broker_options(self) -> dict[str, Any]:
        return {"duplicate_id_limits": FEW}


def send(
    world: EngineWorld, duplicate_id: str, body: bytes = b"m", to: str | Destination = "q", persistent: bool = True
) -> int:
    destination = world.queue(to) if isinstance(to, str) else to
    once = identified(destination, duplicate_id)
    return world.broker.send(once, world.message(once, body, persistent=persistent))


def waiting(world: EngineWorld, name: str = "q") -> list[bytes]:
    world.turn()
    client = world.client("reader")
    world.consumer(client, name, AUTO)
    world.turn()
    world.lose(client)
    return client.bodies()


def known(world: EngineWorld) -> int:
    return world.broker.inspect().duplicate_ids.known


def test_an_id_is_accepted_once() -> None:
    world = EngineWorld()
    assert send(world, "1", b"first") == send(world, "1", b"again") == send(world, "2", b"second") == gates.OPEN
    assert waiting(world) == [b"first", b"second"]
    assert (world.broker.inspect().duplicate_ids.dropped, known(world)) == (1, 2)


def test_each_address_has_its_own_ids() -> None:
    world = EngineWorld()
    for name in ("q", "r"):
        send(world, "1", to=name)
    assert (waiting(world, "q"), waiting(world, "r")) == ([b"m"], [b"m"])


def test_an_id_is_known_after_the_message_has_gone() -> None:
    world = EngineWorld()
    send(world, "1")
    assert waiting(world) == [b"m"]
    send(world, "1")
    assert waiting(world) == []


@pytest.mark.parametrize("seconds", [0, 60])
def test_an_id_is_known_after_a_restart(seconds: int) -> None:
    world = RestartWorld()
    send(world, "1", b"first")
    world.restart()
    world.advance(seconds * 1000)
    send(world, "1", b"again")
    send(world, "2", b"second")
    assert waiting(world) == [b"first", b"second"]


def test_an_id_goes_with_a_message_that_a_crash_loses() -> None:
    world = RestartWorld()
    world.sync()
    send(world, "1", b"lost")
    world.end_turn()
    world.crash()
    send(world, "1", b"again")
    assert waiting(world) == [b"again"]


def test_a_message_that_is_not_logged_and_its_id_do_not_survive() -> None:
    world = RestartWorld()
    send(world, "1", persistent=False)
    send(world, "1", persistent=False)
    assert waiting(world) == [b"m"]
    world.restart()
    assert known(world) == 0
    send(world, "1", b"again", persistent=False)
    assert waiting(world) == [b"again"]


def test_the_last_ids_of_an_address_are_remembered() -> None:
    world = FewIds()
    for number in range(100):
        send(world, str(number))
    for _ in range(2):
        assert FEW.address_count <= known(world) < FEW.address_count + FORGOTTEN_AT_ONCE
        assert _entries(world) == known(world)
        world.restart()
    for number in range(100 - FEW.address_count, 100):
        send(world, str(number), b"again")
    assert b"again" not in waiting(world)
    send(world, "0", b"again")
    assert waiting(world) == [b"again"]


def test_all_addresses_together_have_a_limit() -> None:
    world = FewIds()
    for number in range(300):
        send(world, "1", to=f"q{number}")
        assert known(world) < FEW.count + FORGOTTEN_AT_ONCE
    assert _entries(world) == known(world) >= FEW.count
    send(world, "1", b"again", to="q299")
    send(world, "1", b"again", to="q0")
    assert (waiting(world, "q299"), waiting(world, "q0")) == ([b"m"], [b"m", b"again"])


class OtherLimits(RestartWorld):
    """Whose limits may be others after a restart."""

    duplicate_id_limits = DuplicateIdLimits()

    def broker_options(self) -> dict[str, Any]:
        return {"duplicate_id_limits": self.duplicate_id_limits}


def test_without_memory_for_them_ids_mean_nothing() -> None:
    world = OtherLimits()
    send(world, "1")
    world.duplicate_id_limits = DuplicateIdLimits(0, 200_000)
    world.restart()
    assert known(world) == 0
    send(world, "1")
    commit(world, "1", "1")
    assert waiting(world) == [b"m"] * 4
    assert _entries(world) == 0, "they would hold space for ever"
    world.duplicate_id_limits = DuplicateIdLimits()
    world.restart()
    send(world, "1")
    assert (known(world), _entries(world)) == (1, 1)


def test_a_smaller_limit_forgets_over_several_sends() -> None:
    world = OtherLimits()
    count = 3 * FORGOTTEN_MOST
    for number in range(count):
        send(world, str(number))
    world.duplicate_id_limits = FEW
    world.restart()
    for number in range(4):
        before = known(world)
        send(world, f"later {number}")
        assert before - known(world) < 2 * FORGOTTEN_MOST
    assert FEW.address_count <= known(world) == _entries(world) < FEW.address_count + FORGOTTEN_AT_ONCE


def test_a_shut_gate_leaves_no_id() -> None:
    world = EngineWorld(address("q", full__address_full_policy="BLOCK", full__max_size_messages=1))
    send(world, "1", b"first")
    assert send(world, "2", b"second") == gates.ADDRESS_FULL
    assert waiting(world) == [b"first"]
    assert send(world, "2", b"second") == gates.OPEN
    assert waiting(world) == [b"second"]


def test_a_refused_message_leaves_no_id() -> None:
    world = EngineWorld(address("q", full__address_full_policy="FAIL", full__max_size_messages=1))
    send(world, "1", b"first")
    with pytest.raises(AddressFull):
        send(world, "2", b"second")
    assert known(world) == 1
    assert waiting(world) == [b"first"]


def test_several_destinations_get_it_once() -> None:
    world = EngineWorld()
    both = Composite([world.queue("a"), world.queue("b")])
    send(world, "1", to=both)
    send(world, "1", to=both)
    assert (waiting(world, "a"), waiting(world, "b")) == ([b"m"], [b"m"])


@pytest.mark.parametrize("is_transacted", [False, True])
@pytest.mark.parametrize("names", ["q", "q b", "VirtualTopic.T"])
def test_the_id_of_a_message_that_is_logged_anyway_survives(names: str, is_transacted: bool) -> None:
    """Of several destinations, and of a virtual topic, only copies may be logged."""

    def again() -> None:
        targets = [world.topic(name) if name.startswith("V") else world.queue(name) for name in names.split()]
        to = Composite(targets) if len(targets) > 1 else targets[0]
        if is_transacted:
            commit(world, "1", to=to, persistent=False)
        else:
            send(world, "1", to=to, persistent=False)

    queue = "Consumer.C.VirtualTopic.T" if names.startswith("V") else "q"
    world = RestartWorld(address(queue, log_non_persistent=True))
    world.queue(queue)
    again()
    world.restart()
    if is_transacted:
        with pytest.raises(DuplicateId):
            again()
    else:
        again()
    assert waiting(world, queue) == [b"m"]


@pytest.mark.parametrize("policy", ["DROP", "temporary"])
def test_the_id_of_a_message_that_is_not_logged_is_in_memory(policy: str) -> None:
    world = RestartWorld(address("q", full__address_full_policy="DROP", full__max_size_messages=1))
    if policy == "temporary":
        send(world, "1", to=world.broker.open_temporary(world.client(), TEMP_QUEUE))
        assert (known(world), _entries(world)) == (1, 0)
        return
    send(world, "1")
    send(world, "2")
    assert (known(world), _entries(world)) == (2, 1)


def test_a_delayed_message_is_scheduled_once() -> None:
    world = RestartWorld()
    later = delayed(world.queue("q"), Plan(delay_ms=1000))
    send(world, "1", to=later)
    world.restart()
    send(world, "1", to=delayed(world.queue("q"), Plan(delay_ms=1000)))
    world.advance(2000)
    assert waiting(world) == [b"m"]


def test_a_temporary_queue_accepts_an_id_once() -> None:
    world = EngineWorld()
    own = world.broker.open_temporary(world.client(), TEMP_QUEUE)
    send(world, "1", to=own)
    send(world, "1", to=own)
    assert own.enqueued_count == 1


# -- transactions


def commit(
    world: EngineWorld, *ids: str, body: bytes = b"m", to: Destination | None = None, persistent: bool = True
) -> None:
    transaction = Transaction(world.client(), "t", TransactionLimits())
    for one in ids:
        once = identified(to or world.queue("q"), one)
        world.broker.send_in(transaction, once, world.message(once, body, persistent=persistent))
    try:
        gate, _ = world.broker.commit_refusal(transaction)
    except DuplicateId:
        world.broker.abort(transaction)
        raise
    assert gate == gates.OPEN
    world.broker.commit(transaction)


def test_a_transaction_with_a_known_id_is_refused_whole() -> None:
    world = RestartWorld()
    commit(world, "1", "2")
    world.restart()
    with pytest.raises(DuplicateId, match="queue://q has accepted a message with the duplicate id '2' before"):
        commit(world, "2", "3", body=b"again")
    commit(world, "3", body=b"new")
    assert waiting(world) == [b"m", b"m", b"new"]


def test_a_transaction_has_an_id_once() -> None:
    world = EngineWorld()
    with pytest.raises(DuplicateId):
        commit(world, "1", "1")
    assert known(world) == 0
    assert waiting(world) == []


def test_an_aborted_transaction_leaves_no_id() -> None:
    world = EngineWorld()
    transaction = Transaction(world.client(), "t", TransactionLimits())
    once = identified(world.queue("q"), "1")
    world.broker.send_in(transaction, once, world.message(once, b"m"))
    world.broker.abort(transaction)
    send(world, "1")
    assert waiting(world) == [b"m"]


# -- names and limits


@pytest.mark.parametrize("text", ["", "x" * (ID_MOST_CHARACTERS + 1)])
def test_an_id_has_a_length(text: str) -> None:
    world = EngineWorld()
    with pytest.raises(InvalidOption, match=f"a duplicate id has {len(text)} characters; allowed are 1 to 1000"):
        identified(world.queue("q"), text)


def test_a_transaction_counts_the_ids_it_keeps() -> None:
    world = EngineWorld()
    transaction = Transaction(world.client(), "t", TransactionLimits())
    queue = world.queue("q")
    world.broker.send_in(transaction, queue, world.message(queue, b"m"))
    plain = transaction.memory_bytes()
    once = identified(queue, "\u20ac" * ID_MOST_CHARACTERS)
    world.broker.send_in(transaction, once, world.message(queue, b"m"))
    assert transaction.memory_bytes() == 2 * plain + once.memory_bytes()
    assert len(once.shown_id) == SHOWN_CHARACTERS
    assert once.memory_bytes() > 4 * SHOWN_CHARACTERS


def test_a_transaction_that_ids_make_too_large_keeps_neither_message_nor_id() -> None:
    world = EngineWorld()
    queue = world.queue("q")
    message = world.message(queue, b"m")
    transaction = Transaction(world.client(), "t", TransactionLimits(size_bytes=message.size))
    with pytest.raises(TransactionError, match="the limit is"):
        world.broker.send_in(transaction, identified(queue, "1"), message)
    assert (transaction.sends, transaction.identified) == ([], [])


def test_lone_surrogates_are_characters() -> None:
    world = EngineWorld()
    assert identified(world.queue("q"), "\ud800").key != identified(world.queue("q"), "\ud801").key


def test_clients_do_not_reach_the_ids() -> None:
    world = EngineWorld()
    send(world, "1")
    with pytest.raises(InvalidDestination, match="reserved for the gateway"):
        world.queue(DUPLICATE_IDS_QUEUE)


# -- a law: whoever sends again until it is confirmed has sent once


@pytest.mark.parametrize("seed", range(30))
def test_sending_again_after_crashes_sends_once(seed: int) -> None:
    chance = random.Random(seed)
    world = RestartWorld()
    sent = [f"{number}".encode() for number in range(40)]
    unconfirmed = list(sent)
    awaited: dict[bytes, int] = {}
    while unconfirmed:
        for body in chance.choices(unconfirmed, k=chance.randrange(1, 6)):
            if chance.random() < 0.5:
                assert send(world, body.decode(), body) == gates.OPEN
                awaited[body] = 0
            else:
                try:
                    commit(world, body.decode(), body=body)
                except DuplicateId:
                    pass
                awaited[body] = 0
        offset = world.end_turn()
        world.broker.begin_turn()
        awaited = {body: at or offset for body, at in awaited.items()}
        if chance.random() < 0.5:
            world.sync()
            durable = world.memory_store.confirmed_offset()
            unconfirmed = [body for body in unconfirmed if not 0 < awaited.get(body, 0) <= durable]
        if chance.random() < 0.3:
            world.crash()
            awaited.clear()
    assert sorted(waiting(world)) == sorted(sent)


def send_made(world: EngineWorld, made_id: str, body: bytes = b"m") -> int:
    once = sent_again(world.queue("q"), made_id)
    return world.broker.send(once, world.message(once, body))


@pytest.mark.parametrize("length", [3, ID_MOST_CHARACTERS])
def test_no_sender_can_choose_an_id_of_the_gateway(length: int) -> None:
    world = RestartWorld()
    made_id = "7 p" + "x" * (length - 3)
    send(world, made_id, b"forged")
    world.restart()
    send_made(world, made_id, b"mine")
    send_made(world, made_id, b"again")
    send_made(world, made_id + "y", b"of another user")
    world.restart()
    send_made(world, made_id, b"again")
    send(world, made_id, b"again")
    assert waiting(world) == [b"forged", b"mine", b"of another user"]


def write_former(world: RestartWorld, once: Identified) -> None:
    """Write an entry as it was when ids of senders and of the gateway were one space."""
    number = world.memory_store.open_destination(QUEUE, DUPLICATE_IDS_QUEUE)
    key = once.key
    digest = key.former or key.digest
    entry = Message(number, STOMP, PERSISTENT, DEFAULT_PRIORITY, key.address, 0, digest, b"", b"", b"")
    world.memory_store.append(entry)


def test_ids_of_an_earlier_store_are_known() -> None:
    world = RestartWorld()
    write_former(world, sent_again(world.queue("q"), "made"))
    write_former(world, identified(world.queue("q"), "chosen"))
    for _ in range(2):
        world.restart()
        send_made(world, "made", b"again")
        send(world, "chosen", b"again")
    assert known(world) == 2
    assert waiting(world) == []


def test_ids_of_an_earlier_store_are_forgotten_first() -> None:
    world = FewIds()
    for number in range(60):
        write_former(world, sent_again(world.queue("q"), f"made {number}"))
    world.restart()
    for number in range(60):
        send(world, f"{number}")
        assert known(world) < FEW.address_count + FORGOTTEN_AT_ONCE
    assert _entries(world) == known(world)
    send_made(world, "made 0", b"unknown again")
    send(world, "59", b"again")
    world.restart()
    assert _entries(world) == known(world)
    assert waiting(world) == [b"m"] * 60 + [b"unknown again"]


def _entries(world: RestartWorld) -> int:
    """Return how many ids the store keeps."""
    number = world.memory_store.open_destination(1, DUPLICATE_IDS_QUEUE)
    lanes = world.memory_store.state_of(number).lanes
    return sum(end - first for lane in lanes for first, end in lane.waiting_runs())
