"""What AMQP 1.0 says must be, must not be or is an error: part 4, transactions.

Otherwise than the specification says: what a consumer has settled in a transaction that is rolled back has failed once
more, whatever the default-outcome of its source is, as JMS has it.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pytest

from protocols.amqp.v1_0.wire.composites.delivery_states import (
    Accepted,
    Declared,
    Received,
    Rejected,
    Released,
    TransactionalState,
)
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Detach, Disposition, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source
from protocols.amqp.v1_0.wire.composites.transaction_types import Coordinator, Declare, Discharge
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Symbol
from tests.support.protocols.amqp_gateway import AmqpPeer, text
from tests.support.protocols.amqp_rules import (
    MESSAGE,
    RELAY,
    Exchange,
    Rules,
    answer,
    asked,
    coordinator,
    disposed,
    receiver,
    request,
    sender,
    sent,
    session,
    typed,
)

RULES: Final = Rules()
rule = RULES.rule


ACCEPTED_ONLY: Final = [Symbol("amqp:accepted:list")]


@rule("4.3 a link that ends rolls back what was declared on it")
def _() -> None:
    peer = coordinator(outcomes=ACCEPTED_ONLY)
    peer.transfer(request(Declare()), 9)
    state = peer.one(Disposition).state
    assert isinstance(state, Declared)
    peer.attach_sender("q", 0)
    peer.transfer(text("m"), state=TransactionalState(state.txn_id))
    peer.transfer(request(Discharge(b"none")), 9)
    peer.take()
    assert peer.gateway.stats("q").depth == 0


@rule("4.1 the credit of a coordinator's link is a limit, too")
def _() -> None:
    peer = coordinator()
    with peer.gateway.one_turn():
        for number in range(200):
            peer.send(Transfer(9, number, b"t", 0, more=True), b"")
    assert answer(peer).startswith("detach")
    peer = coordinator()
    for _ in range(300):  # it is topped up meanwhile
        peer.transfer(request(Discharge(b"none")), 9)
        assert answer(peer) == "rejected transaction:unknown-id"


@rule("4.4.4 what a link did in a transaction stays when it is detached before the discharge")
def _() -> None:
    peer = receiver("m")
    peer.attach_sender("other", 2)
    peer.attach_coordinator(9)
    peer.transfer(request(Declare()), 9)
    state = peer.one(Disposition).state
    assert isinstance(state, Declared)
    peer.transfer(text("n"), 2, state=TransactionalState(state.txn_id))
    peer.dispose(0, TransactionalState(state.txn_id, Accepted()))
    peer.send(Detach(1, True))
    peer.send(Detach(2, True))
    peer.take()
    peer.transfer(request(Discharge(state.txn_id)), 9)
    assert answer(peer) == "accepted"
    assert (peer.gateway.stats("q").depth, peer.gateway.stats("other").depth) == (0, 1)


@rule("4.4.4 a message that fails spoils its transaction, also where it was sent settled")
def _() -> None:
    for is_settled in (False, True):
        peer = session()
        peer.attach_sender(None, 0)
        peer.attach_coordinator(9)
        peer.transfer(request(Declare()), 9)
        state = peer.one(Disposition).state
        assert isinstance(state, Declared)
        peer.attach_sender("q", 1)
        peer.transfer(MESSAGE, 1, state=TransactionalState(state.txn_id))
        assert answer(peer) == "accepted"
        peer.transfer(RELAY, state=TransactionalState(state.txn_id), settled=is_settled)
        assert answer(peer) == ("detach not-found" if is_settled else "rejected not-found")
        peer.transfer(request(Discharge(state.txn_id)), 9)
        assert (answer(peer), peer.gateway.stats("q").depth) == ("rejected precondition-failed", 0)


@rule("4.4.3 acquisition in a transaction is not done by half")
def _() -> None:
    peer = receiver()
    peer.credit(1, 5, properties={Symbol("txn-id"): b"t"})
    assert answer(peer) == "detach not-implemented"


def declared(peer: AmqpPeer) -> bytes:
    """Return a transaction declared on handle 9."""
    peer.transfer(request(Declare()), 9)
    state = peer.one(Disposition).state
    assert isinstance(state, Declared)
    return state.txn_id


def controller(*bodies: str, **of_source: Any) -> tuple[AmqpPeer, bytes]:
    """Return a peer with a producer, a coordinator and a consumer that has ``bodies``; and a transaction."""
    peer = sender()
    peer.publish(*bodies)
    peer.attach_receiver("q", 1, credit=len(bodies), of_source=of_source)
    peer.take()
    peer.attach_coordinator(9)
    return peer, declared(peer)


@rule("4.2 the coordinator tells what it is capable of; it receives")
def _() -> None:
    peer = session()
    target = peer.attach_coordinator(9).target
    assert isinstance(target, Coordinator)
    assert "amqp:local-transactions" in (target.capabilities or ())
    peer.send(Attach("r", 0, True, source=Source("$coordinator"), target=Coordinator()))
    assert answer(peer) == "attach, detach not-found"


@rule("4.3 discharge with fail is done always")
def _() -> None:
    peer = session()
    peer.attach_sender(None, 0)
    peer.attach_coordinator(9)
    name = declared(peer)
    peer.transfer(RELAY, state=TransactionalState(name))
    assert answer(peer) == "rejected not-found"
    peer.transfer(request(Discharge(name, True)), 9)
    assert answer(peer) == "accepted"


@rule("4.3 work on a transaction whose control link has gone fails")
def _() -> None:
    peer, name = controller()
    peer.send(Detach(9, True))
    peer.take()
    peer.transfer(text("m"), state=TransactionalState(name))
    assert answer(peer) == "end transaction:unknown-id"


@rule("4.4.1 a transaction of which a delivery is under way is rolled back with its control link")
def _() -> None:
    for fail in (None, True):
        peer, name = controller()
        peer.transfer(text("whole"), state=TransactionalState(name))
        peer.take()
        peer.send(Transfer(0, 50, b"t", 0, more=True, state=TransactionalState(name)), text("m")[:4])
        peer.transfer(request(Discharge(name, fail)), 9)
        assert (answer(peer), peer.gateway.stats("q").depth) == ("detach transaction:rollback", 0)


@rule("4.4.1 all transfers of a delivery are of one transaction")
def _() -> None:
    peer, name = controller()
    other = declared(peer)
    for first, last in ((name, other), (None, name)):
        peer, name = controller()
        other = declared(peer)
        first_state = TransactionalState(first) if first else None
        peer.send(Transfer(0, 50, b"t", 0, more=True, state=first_state), text("m")[:4])
        peer.send(Transfer(0, state=TransactionalState(last)), text("m")[4:])
        assert answer(peer) == "detach invalid-field"
    peer, name = controller()
    peer.send(Transfer(0, 50, b"t", 0, more=True, state=TransactionalState(name)), text("m")[:4])
    peer.send(Transfer(0), text("m")[4:])
    assert answer(peer) == "accepted"
    assert peer.gateway.stats("q").depth == 0


@rule("4.4.2 an outcome of one delivery is in one transaction")
def _() -> None:
    peer, name = controller("m")
    other = declared(peer)
    peer.dispose(0, TransactionalState(name, Accepted()), settled=False)
    peer.dispose(0, TransactionalState(name, Accepted()), settled=False)
    assert answer(peer) == "-"
    peer.dispose(0, TransactionalState(other, Accepted()), settled=False)
    assert answer(peer) == "detach transaction:rollback"
    assert (peer.gateway.stats("q").depth, peer.gateway.stats("q").in_flight) == (1, 1)


@rule("4.4.2 what is not settled stays with its consumer over a rollback")
def _() -> None:
    for is_detached in (False, True):
        peer, name = controller(*"ab")
        peer.dispose(0, TransactionalState(name, Accepted()), settled=False)
        peer.dispose(1, TransactionalState(name, Accepted()))
        if is_detached:
            peer.send(Detach(9, True))
        else:
            peer.transfer(request(Discharge(name, True)), 9)
        peer.take()
        assert peer.gateway.stats("q").in_flight == 1
        peer.credit(1, 5, seen=2)
        (payload,) = peer.messages()
        assert payload.endswith(b"b")
        peer.dispose(0, Accepted(), settled=False)
        assert (answer(peer), peer.gateway.stats("q").depth) == ("accepted", 1)


@rule("4.4.2 after a discharge what was not settled has the outcome that it was given")
def _() -> None:
    for outcome, left in ((Accepted(), 0), (Released(), 1), (Rejected(), 0)):
        peer, name = controller("m")
        peer.dispose(0, TransactionalState(name, outcome), settled=False)
        peer.transfer(request(Discharge(name)), 9)
        told = [frame.state for frame in peer.take() if isinstance(frame, Disposition) and not frame.role]
        assert told == [outcome]
        assert peer.gateway.stats("q").depth == left


@rule("4.4.2 a state in a transaction that is no outcome says nothing, settled it is the default-outcome")
def _() -> None:
    for state in (None, Received(0, 0)):
        peer, name = controller("m", default_outcome=Released())
        peer.dispose(0, TransactionalState(name, state), settled=False)
        assert (answer(peer), peer.gateway.stats("q").in_flight) == ("-", 1)
        peer.dispose(0, TransactionalState(name, state))
        peer.transfer(request(Discharge(name)), 9)
        assert (answer(peer), peer.gateway.stats("q").depth) == ("accepted", 1)


@rule("4.4.4 the outcome of what is posted is told before its transaction is discharged")
def _() -> None:
    peer, name = controller()
    with peer.gateway.one_turn():
        delivery = peer.transfer(text("m"), state=TransactionalState(name))
        peer.transfer(request(Discharge(name)), 9)
    posted, discharged = [frame for frame in peer.take() if isinstance(frame, Disposition)]
    assert (posted.first, posted.state) == (delivery, TransactionalState(name, Accepted()))
    assert (discharged.first, discharged.state) == (delivery + 1, Accepted())


@rule("4.5.4 a txn-id has up to 32 octets")
def _() -> None:
    peer, name = controller()
    other = declared(peer)
    assert name != other and max(len(name), len(other)) <= 32


EXCHANGES: Final[dict[str, list[Exchange]]] = {
    "4.2 declare is answered with a txn-id": [(coordinator, asked(Declare()), "declared")],
    "4.2 declare that is sent settled": [(coordinator, asked(Declare(), settled=True), "detach illegal-state")],
    "4.2 a declare that fails is rejected, or ends a link whose source has no such outcome": [
        (coordinator, asked(Declare(b"global")), "rejected precondition-failed"),
        (partial(coordinator, outcomes=ACCEPTED_ONLY), asked(Declare(b"global")), "detach precondition-failed"),
    ],
    "4.2 other sections of a request are passed over": [
        (
            coordinator,
            sent(b"\x00\x53\x70\x45\x00\x53\x73\x45" + request(Declare()) + b"\x00\x53\x78\xc1\x01\x00", 9),
            "declared",
        )
    ],
    "4.2 a request may come in several transfers, and be aborted": [
        (
            coordinator,
            (Transfer(9, 0, b"t", 0, more=True), request(Declare())[:4]),
            Transfer(9, aborted=True),
            (Transfer(9, 1, b"t", 0, aborted=True), request(Declare())),
            "-",
            (Transfer(9, 2, b"t", 0, more=True), request(Declare())[:4]),
            (Transfer(9), request(Declare())[4:]),
            "declared",
        )
    ],
    "4.2 the transfers of requests keep the rules of transfers": [
        *[
            (coordinator, (transfer, request(Declare())), "detach invalid-field")
            for transfer in (Transfer(9, 0, None, 0), Transfer(9, None, b"t", 0), Transfer(9, 0, b"t" * 33, 0))
        ],
        (coordinator, (Transfer(9, 0, b"t", 1), request(Declare())), "rejected not-implemented"),
    ],
    "4.2 a request is a declare or a discharge, and 4.5.3 a discharge has a txn-id": [
        (coordinator, sent(body, 9), "rejected decode-error")
        for body in (
            *(MESSAGE, b"\x00\x53\x75\xa0\x01x", request(Accepted()), b"\x00\x53\x77" + encode(typed(0x32))),
            request(Declare()) * 2,
        )
    ],
    "4.3 discharge that is sent settled": [
        (coordinator, asked(Discharge(b"none"), settled=True), "detach illegal-state")
    ],
    "4.3 discharge of an unknown transaction": [
        (coordinator, asked(Discharge(b"none")), "rejected transaction:unknown-id")
    ],
    "4.3 discharge of an unknown transaction at a source without the rejected outcome": [
        (partial(coordinator, outcomes=ACCEPTED_ONLY), asked(Discharge(b"none")), "detach transaction:unknown-id"),
        (
            partial(coordinator, outcomes=[*ACCEPTED_ONLY, Symbol("amqp:rejected:list")]),
            asked(Discharge(b"none")),
            "rejected transaction:unknown-id",
        ),
    ],
    "4.4.1 a transfer in an unknown transaction": [
        (sender, sent(state=TransactionalState(b"none")), "end transaction:unknown-id")
    ],
    "4.4.2 an outcome in an unknown transaction": [
        (partial(receiver, "m"), disposed(0, TransactionalState(b"none", Accepted())), "end transaction:unknown-id")
    ],
}
RULES.exchanges(EXCHANGES)


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str) -> None:
    RULES[name]()
