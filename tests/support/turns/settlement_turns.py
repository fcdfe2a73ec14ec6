"""Turns in which one packet of AMQP frames settles many deliveries, in transactions and outside, again and again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.composite_codec import encode_composite
from protocols.amqp.v1_0.wire.composites.delivery_states import (
    Accepted,
    Modified,
    Received,
    State,
    TransactionalState,
)
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Detach, Disposition, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source
from protocols.amqp.v1_0.wire.composites.transaction_types import Coordinator, Declare, Discharge
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer
from tests.support.turns.turn_scenarios import Input, scenario

ROUNDS: Final = 20
COORDINATOR: Final = 9  # handle of the control link
SHORT: Final = 50  # deliveries of a short range


@scenario("pipelined: AMQP transactions that accept many deliveries and are rolled back")
def _(count: int) -> Input:
    return _settling(count, lambda number: _declared(number, count) + _discharge(number, fail=True))


@scenario("pipelined: AMQP transactions that accept many deliveries and end with their control link")
def _(count: int) -> Input:
    gone = encode_frame(0, Detach(COORDINATOR, True))
    again = Attach("txn", COORDINATOR, False, source=Source(), target=Coordinator(), initial_delivery_count=0)
    return _settling(count, lambda number: _declared(number, count) + gone + encode_frame(0, again))


@scenario("pipelined: AMQP dispositions of deliveries that a transaction has")
def _(count: int) -> Input:
    again = _disposition(0, count - 1, TransactionalState(_name(0), Accepted()))
    return _settling(count, lambda number: again if number else _declared(0, count))


@scenario("pipelined: AMQP dispositions in a transaction that say nothing new")
def _(count: int) -> Input:
    again = _disposition(0, count - 1, TransactionalState(_name(0), Received(0, 0)))
    return _settling(count, lambda number: again if number else _request(0, Declare()))


@scenario("pipelined: AMQP transactions that accept many deliveries each and commit")
def _(count: int) -> Input:
    part = count // ROUNDS

    def frames(number: int) -> bytes:
        return _declared(number, part, number * part) + _discharge(number, fail=False)

    return _settling(count, frames)


def _short_ranges(count: int, state: State) -> Input:
    frames = b"".join(_disposition(first, first + SHORT - 1, state) for first in range(0, count, SHORT))
    return _settling(count, lambda number: b"" if number else frames, clients=10)


for _verb, _state in (("accept", Accepted()), ("annotate", Modified(True, None, {"x-opt-a": 1}))):
    scenario(f"pipelined: AMQP dispositions of short ranges {_verb} many deliveries")(
        partial(_short_ranges, state=_state)
    )


def _settling(count: int, frames: Callable[[int], bytes], clients: int = 1) -> Input:
    """Return an input of clients with so many unsettled deliveries each: all rounds of ``frames`` in one read."""
    gateway = AmqpGateway()
    peers = [_receiver(gateway, f"q.{number}", count) for number in range(clients)]
    octets = b"".join(frames(number) for number in range(ROUNDS))

    def run() -> None:
        with gateway.one_turn():
            for peer in peers:
                peer.send_octets(octets)
        assert not any(peer.is_closed for peer in peers)

    return run


def _receiver(gateway: AmqpGateway, queue: str, count: int) -> AmqpPeer:
    peer = gateway.amqp_session()
    peer.attach_coordinator(COORDINATOR)
    peer.attach_receiver(queue, credit=count)
    publisher = gateway.connect()
    with gateway.one_turn():
        publisher.publish(f"/queue/{queue}", *[b"x"] * count)
    gateway.advance(0)
    assert len(peer.connection.channels.mapped[0].unsettled) == count
    peer.take()
    return peer


def _declared(number: int, count: int, first: int = 0) -> bytes:
    """Declare a transaction, and accept ``count`` deliveries in it."""
    state = TransactionalState(_name(number), Accepted())
    return _request(2 * number, Declare()) + _disposition(first, first + count - 1, state)


def _discharge(number: int, fail: bool) -> bytes:
    return _request(2 * number + 1, Discharge(_name(number), fail))


def _disposition(first: int, last: int, state: State) -> bytes:
    return encode_frame(0, Disposition(True, first, last, False, state))


def _request(delivery_id: int, body: Composite) -> bytes:
    payload = b"\x00\x53\x77" + encode_composite(body)
    return encode_frame(0, Transfer(COORDINATOR, delivery_id, b"%d" % delivery_id, 0), payload)


def _name(number: int) -> bytes:
    """Return the name that the gateway gives the transaction with this number, counted from 0."""
    return (number + 1).to_bytes(8, "big")
