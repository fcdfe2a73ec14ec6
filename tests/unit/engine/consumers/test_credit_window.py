"""AMQP link credit as a window: honoured as granted, never topped up by settling."""

from __future__ import annotations

from engine.consumers.consumer import INDIVIDUAL
from engine.consumers.credit_window import CreditWindow
from engine.values import gates
from engine.values.message import Message
from engine.values.options import SubscribeOptions
from tests.support.engine.engine_world import world_with_client
from tests.support.fakes import VirtualClock


def test_nothing_goes_out_before_credit() -> None:
    window = CreditWindow()
    assert window.is_full
    assert window.room() == 0


def test_credit_is_used_up_and_settling_gives_none() -> None:
    window = CreditWindow()
    assert window.grant(2)
    assert not window.take()
    assert window.room() == 1
    assert window.take()
    assert not window.give_back(10)
    assert window.is_full
    assert window.room() == 0
    assert window.describe() == "no credit left, 1 in flight, resumes when the client grants more"


def test_a_grant_replaces_the_one_before() -> None:
    window = CreditWindow()
    window.grant(10)
    window.take()
    assert not window.grant(1)
    assert window.room() == 1
    assert not window.grant(0)
    assert window.is_full


def test_a_rollback_takes_no_credit() -> None:
    window = CreditWindow()
    window.grant(2)
    window.take()
    window.give_back(10)
    window.retake(10)
    assert (window.in_flight, window.room()) == (1, 1)


def test_octets_hold_it_like_any_other() -> None:
    window = CreditWindow()
    window.limit_bytes(1_000)
    window.grant(100)
    large = Message(1, 1, 0, 4, 0, 0, 0, b"", b"", b"x" * 1_500)
    assert window.admits(large, False, VirtualClock())
    window.take()
    assert not window.admits(large, False, VirtualClock())
    assert window.is_full
    assert window.gate == gates.BYTES_FULL
    assert not window.grant(50)
    assert window.is_full
    assert window.give_back(large.size)
    assert not window.is_full


def test_octets_settled_open_nothing_without_credit() -> None:
    window = CreditWindow()
    window.limit_bytes(1_000)
    window.grant(1)
    large = Message(1, 1, 0, 4, 0, 0, 0, b"", b"", b"x" * 1_500)
    window.admits(large, False, VirtualClock())
    window.take()
    assert not window.give_back(large.size)
    assert window.is_full
    assert window.grant(1)


def test_a_queue_gives_what_was_granted() -> None:
    world, client = world_with_client()
    queue = world.queue("q")
    consumer = world.broker.subscribe(client, queue, SubscribeOptions(INDIVIDUAL, is_credited=True))
    consumer.start()
    for number in range(5):
        world.send(b"%d" % number)
    world.turn()
    assert consumer.ledger == {}
    consumer.grant(2)
    world.turn()
    assert len(consumer.ledger) == 2
    for delivery in list(consumer.ledger.values()):
        world.broker.acknowledge(delivery)
    world.turn()
    assert consumer.ledger == {}
    consumer.grant(5)
    consumer.grant(0)
    world.turn()
    assert consumer.ledger == {}
