"""Duplicate ids over STOMP and AMQP.  Source: Artemis, "Duplicate Message Detection"."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.amqp.v1_0.wire.composites.composite_codec import encode_composite
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted, Declared, Rejected, TransactionalState
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Detach, Disposition
from protocols.amqp.v1_0.wire.composites.termini import Source
from protocols.amqp.v1_0.wire.composites.transaction_types import Coordinator, Declare, Discharge
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Symbol, ULong
from protocols.stomp.session.settings import SessionSettings
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, text
from tests.support.protocols.stomp_gateway import StompGateway

DURABLE = b"\x00\x53\x70\xc0\x02\x01\x41"  # the header of a durable message
NAMES = ("_AMQ_DUPL_ID", "_HQ_DUPL_ID")


def identified(value: Any, name: str = NAMES[0]) -> bytes:
    """Return the application-properties of a message with an id."""
    return b"\x00\x53\x74" + encode({"colour": "blue", name: value})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_stomp(name: str, version: str) -> None:
    gateway = StompGateway()
    peer = gateway.connect(version)
    for number, body in (("1", b"first"), ("1", b"again"), ("2", b"second")):
        peer.send("SEND", body, destination="/queue/q", persistent="true", receipt="r", **{name: number})
        assert peer.receipts() == ["r"]
    assert gateway.subscriber("/queue/q", "auto").bodies() == [b"first", b"second"]


def test_stomp_confirms_a_duplicate_once_the_first_is_durable() -> None:
    gateway = StompGateway()
    peer = gateway.connect()
    gateway.syncs = False
    for number in ("first", "again"):
        peer.send("SEND", destination="/queue/q", persistent="true", receipt=number, _AMQ_DUPL_ID="1")
    assert peer.octets == b""
    gateway.sync()
    assert peer.receipts() == ["first", "again"]


def test_stomp_refuses_a_commit_with_a_known_id() -> None:
    gateway = StompGateway()
    gateway.connect().publish("/queue/q", b"first", _AMQ_DUPL_ID="1")
    peer = gateway.connect()
    peer.send_confirmed("BEGIN", transaction="x")
    peer.publish("/queue/q", b"again", transaction="x", _AMQ_DUPL_ID="1")
    peer.publish("/queue/q", b"with it", transaction="x")
    peer.send("COMMIT", transaction="x", receipt="c")
    (error,) = peer.take()
    assert (error.command, error["message"], error["receipt-id"]) == ("ERROR", "duplicate id", "c")
    assert b"queue://q has accepted a message with the duplicate id '1' before" in error.body
    assert gateway.subscriber("/queue/q", "auto").bodies() == [b"first"]


@pytest.mark.parametrize("version", ["1.0", "1.2"])
def test_stomp_says_that_work_was_done_once_it_is_durable(version: str) -> None:
    """Who reads that its transaction was committed before will not commit it again, even after a crash."""
    gateway = StompGateway()
    peers = [gateway.connect(version) for _ in range(2)]
    for peer in peers:
        peer.send_confirmed("BEGIN", transaction="x")
        peer.publish("/queue/q", b"m", persistent="true", transaction="x", _AMQ_DUPL_ID="1")
    gateway.syncs = False
    for peer in peers:
        peer.send("COMMIT", transaction="x", receipt="c")
        assert peer.octets == b""
    gateway.sync()
    assert peers[0].receipts() == ["c"]
    (error,) = peers[1].take()
    assert (error["message"], error["receipt-id"]) == ("duplicate id", "c")
    assert peers[1].is_closed is (version != "1.0")


def test_stomp_does_not_say_that_work_was_done_while_the_disk_hangs() -> None:
    gateway = StompGateway()
    peers = [gateway.connect() for _ in range(2)]
    for peer in peers:
        peer.send_confirmed("BEGIN", transaction="x")
        peer.publish("/queue/q", b"m", persistent="true", transaction="x", _AMQ_DUPL_ID="1")
    gateway.syncs = False
    for peer in peers:
        peer.send("COMMIT", transaction="x", receipt="c")
    gateway.advance(SessionSettings().ending_time_ms + 1_000)
    assert (peers[1].octets, peers[1].is_closed) == (b"", True)


def test_stomp_refuses_an_id_without_a_character() -> None:
    peer = StompGateway().connect()
    peer.send("SEND", destination="/queue/q", _AMQ_DUPL_ID="")
    assert b"a duplicate id has 0 characters; allowed are 1 to 1000" in peer.take()[0].body


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("first", "again", "other"), [("1", "1", "2"), (b"\x01", b"\x01", b"\x02"), (ULong(1), "1", ULong(2))]
)
def test_amqp(name: str, first: Any, again: Any, other: Any) -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_sender("q")
    for value, body in ((first, "first"), (again, "again"), (other, "second")):
        peer.transfer(identified(value, name) + text(body))
        assert peer.one(Disposition).state == Accepted()
    assert gateway.stats("q").depth == 2


def test_amqp_reads_ids_behind_wide_descriptors() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_sender("q")
    wide = b"\x00\x80" + (0x74).to_bytes(8, "big") + identified("1")[3:]
    for sections in (wide, identified("1")):
        peer.transfer(sections + text("m"))
        assert peer.one(Disposition).state == Accepted()
    assert gateway.stats("q").depth == 1


def test_amqp_reads_no_id_elsewhere() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_sender("q")
    for _ in range(2):
        peer.transfer(b"\x00\x53\x74" + encode({"colour": "_AMQ_DUPL_ID"}) + text("_AMQ_DUPL_ID"))
    assert gateway.stats("q").depth == 2


def test_both_protocols_share_the_ids() -> None:
    gateway = AmqpGateway()
    gateway.connect().publish("/queue/q", b"first", _AMQ_DUPL_ID="1")
    peer = gateway.amqp_sender("q")
    peer.transfer(identified("1") + text("again"))
    assert peer.one(Disposition).state == Accepted()
    assert gateway.stats("q").depth == 1


def _request(peer: AmqpPeer, composite: Any) -> Any:
    peer.transfer(b"\x00\x53\x77" + encode_composite(composite), handle=9)
    return peer.one(Disposition).state


def test_amqp_says_that_work_was_done_once_it_is_durable() -> None:
    gateway = AmqpGateway()
    peers = []
    for _ in range(2):
        peer = gateway.amqp_sender("q")
        peer.attach_coordinator()
        declared = _request(peer, Declare())
        peer.transfer(DURABLE + identified("1") + text("m"), state=TransactionalState(declared.txn_id))
        peer.take()
        peers.append((peer, declared.txn_id))
    gateway.syncs = False
    for peer, txn_id in peers:
        peer.transfer(b"\x00\x53\x77" + encode_composite(Discharge(txn_id)), handle=9)
        assert peer.take() == []
    gateway.sync()
    assert [type(peer.one(Disposition).state) for peer, _ in peers] == [Accepted, Rejected]


def test_a_detach_instead_of_rejected_waits_for_it_too() -> None:
    """A coordinator's link whose source has no outcome rejected is detached with the error (transactions, 4.3)."""
    gateway = AmqpGateway()
    first = gateway.amqp_sender("q")
    first.transfer(DURABLE + identified("1") + text("m"))
    assert first.one(Disposition).state == Accepted()
    peer = gateway.amqp_sender("q")
    source = Source(outcomes=[Accepted.NAME])
    peer.send(Attach("txn", 9, False, source=source, target=Coordinator(), initial_delivery_count=0))
    peer.take()
    declared = _request(peer, Declare())
    peer.transfer(DURABLE + identified("2") + text("m"), state=TransactionalState(declared.txn_id))
    peer.take()
    gateway.syncs = False
    first.transfer(DURABLE + identified("2") + text("m"))
    peer.transfer(b"\x00\x53\x77" + encode_composite(Discharge(declared.txn_id)), handle=9)
    assert peer.take() == first.take() == []
    gateway.sync()
    assert first.one(Disposition).state == Accepted()
    detach = peer.one(Detach)
    assert detach.closed
    assert detach.error is not None
    assert "nothing of the transaction was applied" in str(detach.error.description)


def test_amqp_confirms_a_duplicate_once_the_first_is_durable() -> None:
    """Scheduled messages are logged even if they are not durable."""
    gateway = AmqpGateway()
    gateway.syncs = False
    peers = [gateway.amqp_sender("q") for _ in range(2)]
    for peer in peers:
        peer.transfer(b"\x00\x53\x72" + encode({Symbol("x-opt-delivery-delay"): 1000}) + identified("1") + text("m"))
        assert peer.take() == []
    gateway.sync()
    for peer in peers:
        assert peer.one(Disposition).state == Accepted()


def test_amqp_rejects_a_discharge_with_a_known_id() -> None:
    """Transactions, 4.3: the outcome of a discharge that fails is rejected, and the work is rolled back."""
    gateway = AmqpGateway()
    gateway.connect().publish("/queue/q", b"first", _AMQ_DUPL_ID="1")
    peer = gateway.amqp_sender("q")
    peer.attach_coordinator()
    declared = _request(peer, Declare())
    assert isinstance(declared, Declared)
    peer.transfer(identified("1") + text("again"), state=TransactionalState(declared.txn_id))
    assert peer.one(Disposition).state == TransactionalState(declared.txn_id, Accepted())
    state = _request(peer, Discharge(declared.txn_id))
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == "amqp:transaction:rollback"
    assert gateway.stats("q").depth == 1
