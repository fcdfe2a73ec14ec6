"""Confirmations leave in order, each when the log is durable that far."""

from __future__ import annotations

from engine.consumers.consumer import INDIVIDUAL, Consumer
from engine.values.options import SubscribeOptions
from protocols.session.turn_confirmations import DeferredConsumer
from protocols.stomp.session.receipts import Receipts
from tests.support.engine.engine_world import EngineWorld


def waiting_consumer() -> Consumer:
    world = EngineWorld()
    return world.broker.subscribe(world.client(), world.queue("q"), SubscribeOptions(INDIVIDUAL, None, "s"))


def released(confirmations: Receipts, offset: int) -> list[bytes]:
    confirmations.release(offset)
    return taken(confirmations)


def ended(confirmations: Receipts, offset: int, confirmed_offset: int) -> bytes:
    confirmations.end_turn(offset, confirmed_offset)
    return b"".join(taken(confirmations))


def taken(confirmations: Receipts) -> list[bytes]:
    out = confirmations.out[:]
    confirmations.out.clear()
    return out


def receipts(*values: bytes) -> bytes:
    return b"".join(b"RECEIPT\nreceipt-id:%b\n\n\0\n" % value for value in values)


def test_what_is_durable_already_leaves_at_once() -> None:
    confirmations = Receipts(EngineWorld().broker, [])
    confirmations.has_logged = True
    confirmations.parts.append(b"a")
    assert ended(confirmations, 200, 200) == receipts(b"a")


def test_is_settled_says_whether_a_confirmation_could_leave_now() -> None:
    confirmations = Receipts(EngineWorld().broker, [])
    assert confirmations.is_settled(0)
    confirmations.has_logged = True
    assert not confirmations.is_settled(0)
    ended(confirmations, 200, 100)
    assert not confirmations.is_settled(199)
    assert confirmations.is_settled(200)
    confirmations.parts.append(b"a")
    assert not confirmations.is_settled(200)
    ended(confirmations, 300, 100)
    assert not confirmations.is_settled(300)


def test_a_consumer_is_not_started_by_an_earlier_turn_s_confirmation() -> None:
    confirmations = Receipts(EngineWorld().broker, [])
    confirmations.has_logged = True
    confirmations.parts.append(b"a")
    ended(confirmations, 200, 100)  # nobody is held for this one
    held = waiting_consumer()
    confirmations.has_logged = True
    confirmations.parts.append(b"b")
    confirmations.turn_deferred.append(DeferredConsumer(held))
    ended(confirmations, 300, 100)
    assert released(confirmations, 200) == [receipts(b"a")]
    assert not held.is_started
    assert released(confirmations, 300) == [receipts(b"b")]
    assert held.is_started


def test_nothing_overtakes_what_could_leave_but_has_not_yet() -> None:
    confirmations = Receipts(EngineWorld().broker, [])
    confirmations.has_logged = True
    confirmations.parts.append(b"a")
    ended(confirmations, 200, 100)
    confirmations.parts.append(b"b")
    assert ended(confirmations, 200, 200) == b""  # durable meanwhile, a's release comes within this turn
    assert released(confirmations, 200) == [receipts(b"a"), receipts(b"b")]


def test_an_error_that_does_not_close_stands_between_the_receipts_around_it() -> None:
    confirmations = Receipts(EngineWorld().broker, [])
    confirmations.has_logged = True
    confirmations.parts.append(b"a")
    confirmations.add_error(b"ERROR\n\n\0\n")
    assert not confirmations.is_idle()
    confirmations.add_error(b"ERROR\nn:2\n\n\0\n")
    confirmations.parts.append(b"b")
    assert ended(confirmations, 200, 100) == b""
    octets = receipts(b"a") + b"ERROR\n\n\0\nERROR\nn:2\n\n\0\n" + receipts(b"b")
    assert released(confirmations, 200) == [octets]
    assert confirmations.is_idle()
