"""Distributed transactions of OpenWire clients: two phases, recovery over connections and restarts, refusals."""

from __future__ import annotations

import pytest

from engine.values.xid import Xid
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.openwire.session.branch_commands import COMMIT_TWO_PHASE, END, FORGET, PREPARE, RECOVER, ROLLBACK
from protocols.openwire.session.requests import BEGIN, COMMIT_ONE_PHASE
from protocols.openwire.session.send_message import XA_OK, XA_RDONLY
from protocols.openwire.wire.commands import (
    Command,
    ConnectionError,
    ConnectionInfo,
    DataArrayResponse,
    ExceptionResponse,
    IntegerResponse,
    Response,
    TransactionInfo,
)
from protocols.openwire.wire.identities import ConnectionId, XaTransactionId
from tests.support.engine.engine_world import address
from tests.support.protocols.openwire_gateway import OpenWireGateway, OpenWirePeer, queue, topic

XID = XaTransactionId(1, b"transaction", b"branch")
NOTA = -4
PROTO = -6
DUPID = -8
RBROLLBACK = 100
HEURRB = 6
HEURCOM = 7


def info(kind: int, xid: XaTransactionId = XID) -> TransactionInfo:
    return TransactionInfo(transaction_id=xid, type=kind)


def begin(peer: OpenWirePeer, *texts: str, to: str = "out", xid: XaTransactionId = XID) -> None:
    """Begin a branch that sends some messages."""
    peer.send(info(BEGIN, xid))
    for text in texts:
        peer.send(peer.message(queue(to), text, persistent=True, transaction_id=xid))


def prepare(peer: OpenWirePeer, xid: XaTransactionId = XID) -> int:
    """End and prepare a branch; return the result."""
    peer.ask(info(END, xid))
    answer = peer.answer(info(PREPARE, xid))
    assert isinstance(answer, IntegerResponse), answer
    return answer.result


def code(peer: OpenWirePeer, kind: int, xid: XaTransactionId = XID) -> int:
    """Return the code of the XAException that answers a command."""
    exception = peer.refused(info(kind, xid))
    assert exception.class_name == "javax.transaction.xa.XAException"
    return int(exception.message.rpartition("xaErrorCode:")[2])


def send(peer: OpenWirePeer, kind: int) -> None:
    """Send a command whose response, to 77, may come later."""
    request = info(kind)
    request.command_id, request.response_required = 77, True
    peer.send(request)


def recovered(peer: OpenWirePeer) -> list[object] | None:
    answer = peer.answer(TransactionInfo(type=RECOVER))
    assert isinstance(answer, DataArrayResponse)
    return answer.data


def taking(gateway: OpenWireGateway, *texts: str) -> OpenWirePeer:
    """Return a peer that has taken messages of ``q`` in a branch that also sends one."""
    gateway.connect_openwire().publish(queue("q"), *texts)
    peer = gateway.openwire_consumer(queue("q"))
    begin(peer, "answer")
    for dispatch in peer.dispatches():
        peer.acknowledge(dispatch, transaction_id=XID)
    return peer


def texts_of(gateway: OpenWireGateway, name: str) -> list[str | None]:
    """Return what a new consumer of a queue gets."""
    peer = gateway.openwire_consumer(queue(name))
    texts = peer.texts()
    peer.vanish()
    return texts


def waiting_preparation(gateway: OpenWireGateway) -> tuple[OpenWirePeer, OpenWirePeer]:
    """Fill the queue ``out`` and prepare a branch that sends to it; return a consumer of the queue, and the peer."""
    reader = gateway.openwire_consumer(queue("out"))
    gateway.connect_openwire().publish(queue("out"), "x" * 1_000)
    peer = gateway.connect_openwire()
    begin(peer, "a")
    send(peer, PREPARE)
    return reader, peer


def logged_in(gateway: OpenWireGateway, user: str) -> OpenWirePeer:
    peer = gateway.negotiated()
    peer.send(ConnectionInfo(1, True, ConnectionId(peer.connection_id), user, "secret", user))
    peer.answer_login(is_allowed=True)
    peer.one(Response)
    return peer


def test_two_phases() -> None:
    gateway = OpenWireGateway()
    peer = taking(gateway, "a", "b")
    assert prepare(peer) == XA_OK
    assert (texts_of(gateway, "out"), gateway.stats("q").depth) == ([], 2)
    assert recovered(peer) == [XID]
    peer.ask(info(COMMIT_TWO_PHASE))
    assert (texts_of(gateway, "out"), gateway.stats("q").depth) == (["answer"], 0)
    assert recovered(peer) == []
    assert code(peer, COMMIT_TWO_PHASE) == NOTA


def test_one_phase() -> None:
    gateway = OpenWireGateway()
    peer = taking(gateway, "a")
    peer.ask(info(END))
    peer.ask(info(COMMIT_ONE_PHASE))
    assert (texts_of(gateway, "out"), gateway.stats("q").depth) == (["answer"], 0)
    assert code(peer, COMMIT_ONE_PHASE) == NOTA


@pytest.mark.parametrize("is_prepared", [True, False])
def test_a_rollback_keeps_messages_at_the_consumer(is_prepared: bool) -> None:
    gateway = OpenWireGateway()
    peer = taking(gateway, "a", "b")
    if is_prepared:
        assert prepare(peer) == XA_OK
    peer.ask(info(ROLLBACK))
    assert peer.take() == [], "the client delivers them to itself again"
    assert texts_of(gateway, "out") == []
    peer.vanish()
    assert texts_of(gateway, "q") == ["a", "b"]


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_prepared_branch_survives_its_connection_and_a_restart(is_commit: bool) -> None:
    gateway = OpenWireGateway(is_restartable=True)
    prepare(taking(gateway, "a", "b"))
    later = OpenWireGateway(earlier=gateway)
    assert texts_of(later, "q") == texts_of(later, "out") == []
    peer = later.connect_openwire()
    assert recovered(peer) == [XID]
    peer.ask(info(COMMIT_TWO_PHASE if is_commit else ROLLBACK))
    for _ in range(2):
        assert texts_of(later, "q") == ([] if is_commit else ["a", "b"])
        assert texts_of(later, "out") == (["answer"] if is_commit else [])
        later = OpenWireGateway(earlier=later)


def test_another_connection_decides() -> None:
    gateway = OpenWireGateway()
    peer = taking(gateway, "a")
    prepare(peer)
    peer.vanish()
    other = gateway.connect_openwire()
    other.ask(info(COMMIT_TWO_PHASE))
    assert (texts_of(gateway, "out"), gateway.stats("q").depth) == (["answer"], 0)


def test_a_branch_that_is_not_prepared_ends_with_its_connection() -> None:
    gateway = OpenWireGateway()
    peer = taking(gateway, "a")
    peer.vanish()
    other = gateway.connect_openwire()
    assert code(other, PREPARE) == NOTA
    assert (texts_of(gateway, "q"), texts_of(gateway, "out")) == (["a"], [])


def test_two_connections_take_part_in_one_branch() -> None:
    gateway = OpenWireGateway()
    first, second = gateway.connect_openwire(), gateway.connect_openwire()
    begin(first, "1")
    begin(second, "2")
    assert prepare(second) == XA_OK
    first.ask(info(COMMIT_TWO_PHASE))
    assert texts_of(gateway, "out") == ["1", "2"]


@pytest.mark.parametrize("kind", [None, PREPARE, COMMIT_ONE_PHASE, ROLLBACK])
def test_who_began_a_branch_holds_what_others_do_in_it(kind: int | None) -> None:
    gateway = OpenWireGateway()
    first, second = gateway.connect_openwire(), gateway.connect_openwire()
    begin(first, "1")
    size = first.session.held_bytes
    begin(second, "2")
    assert first.session.held_bytes == 2 * size
    assert second.session.held_bytes == 0
    if kind is not None:
        second.answer(info(kind))
        assert first.session.held_bytes == 0


def test_a_branch_without_work_is_forgotten() -> None:
    peer = OpenWireGateway().connect_openwire()
    begin(peer)
    assert prepare(peer) == XA_RDONLY
    assert code(peer, COMMIT_TWO_PHASE) == NOTA


def test_what_its_state_does_not_allow() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    for kind in (END, PREPARE, COMMIT_ONE_PHASE, COMMIT_TWO_PHASE, ROLLBACK, FORGET):
        assert code(peer, kind) == NOTA
    begin(peer, "a")
    assert code(peer, COMMIT_TWO_PHASE) == PROTO
    prepare(peer)
    for kind in (END, COMMIT_ONE_PHASE, FORGET):
        assert code(peer, kind) == PROTO
    assert code(peer, BEGIN) == DUPID
    assert peer.refused(info(99)).class_name == "javax.jms.JMSException"


def test_a_failed_send_prevents_its_preparation() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    begin(peer, "a")
    peer.send(peer.message(queue("no..name"), "x", transaction_id=XID))
    peer.one(ConnectionError)
    assert code(peer, PREPARE) == RBROLLBACK
    assert code(peer, ROLLBACK) == NOTA
    assert texts_of(gateway, "out") == []


def test_a_limit_prevents_its_preparation() -> None:
    gateway = OpenWireGateway(address("out", full__max_size_bytes=600, full__address_full_policy="FAIL"))
    gateway.connect_openwire().publish(queue("out"), "x" * 1_000)
    peer = gateway.connect_openwire()
    begin(peer, "a")
    assert code(peer, PREPARE) == RBROLLBACK
    assert recovered(peer) == []


def test_its_preparation_waits_for_room_and_its_commit_does_not() -> None:
    gateway = OpenWireGateway(address("out", full__max_size_bytes=600, full__address_full_policy="BLOCK"))
    reader, peer = waiting_preparation(gateway)
    assert peer.take() == []
    (full,) = reader.dispatches()
    reader.acknowledge(full)
    assert peer.one(IntegerResponse).result == XA_OK
    gateway.connect_openwire().publish(queue("out"), "y" * 1_000)
    peer.ask(info(COMMIT_TWO_PHASE))


def test_a_preparation_that_waits_too_long_is_rolled_back() -> None:
    gateway = OpenWireGateway(
        address("out", full__max_size_bytes=600, full__address_full_policy="BLOCK", full__block_timeout_ms=1_000)
    )
    gateway.connect_openwire().publish(queue("out"), "x" * 1_000)
    peer = taking(gateway, "a")
    send(peer, PREPARE)
    assert peer.take() == []
    gateway.advance(2_000)
    assert "xaErrorCode:100" in str(peer.one(ExceptionResponse).exception)
    assert code(peer, ROLLBACK) == NOTA
    peer.vanish()
    assert texts_of(gateway, "q") == ["a"]


def test_a_commit_of_one_phase_that_waits_too_long_is_rolled_back() -> None:
    """Clients take any other error for a resource manager that failed, and leave the transaction in doubt."""
    gateway = OpenWireGateway(
        address("out", full__max_size_bytes=600, full__address_full_policy="BLOCK", full__block_timeout_ms=1_000)
    )
    gateway.connect_openwire().publish(queue("out"), "x" * 1_000)
    peer = taking(gateway, "a")
    send(peer, COMMIT_ONE_PHASE)
    assert peer.take() == []
    gateway.advance(2_000)
    assert "xaErrorCode:100" in str(peer.one(ExceptionResponse).exception)
    peer.vanish()
    assert texts_of(gateway, "q") == ["a"]


def test_a_branch_that_another_connection_ends_while_its_preparation_waits() -> None:
    gateway = OpenWireGateway(address("out", full__max_size_bytes=600, full__address_full_policy="BLOCK"))
    reader, peer = waiting_preparation(gateway)
    gateway.connect_openwire().ask(info(ROLLBACK))
    (full,) = reader.dispatches()
    reader.acknowledge(full)
    assert "xaErrorCode:-4" in str(peer.one(ExceptionResponse).exception)


def test_a_failover_client_sends_a_prepared_branch_again() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire(fault_tolerant=True)
    begin(peer, "a", "b")
    assert prepare(peer) == XA_OK
    peer.vanish()
    again = gateway.connect_openwire(fault_tolerant=True, connection_id=peer.connection_id)
    begin(again, "a", "b")
    assert prepare(again) == XA_OK
    again.ask(info(COMMIT_TWO_PHASE))
    assert texts_of(gateway, "out") == ["a", "b"]


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("is_restarted", [True, False])
def test_a_branch_is_rolled_back_if_its_acknowledgements_are_not_sent_again(lost: int, is_restarted: bool) -> None:
    """Its client loses the connection while it prepares, so it does not notice; its messages are delivered again."""
    gateway = OpenWireGateway(is_restartable=True)
    gateway.connect_openwire().publish(queue("q"), "a")
    peer = gateway.connect_openwire(connection_id="ID:same", fault_tolerant=True)
    peer.consume(queue("q"))
    (dispatch,) = peer.dispatches()
    again = commands_of(peer, "answer")
    *commands, prepare_it = again
    for one in commands[-1:]:
        one.command_id += lost
    for one in commands:
        peer.send(one)
    if lost:
        peer.acknowledge(dispatch, transaction_id=XID)
    peer.vanish()
    later = OpenWireGateway(earlier=gateway) if is_restarted else gateway
    peer = later.connect_openwire(connection_id="ID:same", failover_reconnect=True)
    peer.consume(queue("q"), prefetch=0)
    peer.take()
    for one in again:
        peer.send(one)
    *_, answer = peer.take()
    if lost:
        assert "xaErrorCode:100" in str(answer)
        assert recovered(peer) == []
        assert texts_of(later, "q") == ["a"]
    else:
        assert isinstance(answer, IntegerResponse)
        assert answer.correlation_id == prepare_it.command_id


@pytest.mark.parametrize(("is_commit", "expected"), [(True, HEURCOM), (False, HEURRB)])
@pytest.mark.parametrize("is_again", [True, False])
def test_a_transaction_manager_hears_of_an_operators_outcome(is_commit: bool, expected: int, is_again: bool) -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire(connection_id="ID:same", fault_tolerant=True)
    commands = commands_of(peer, "a")
    for one in commands:
        peer.send(one)
    peer.take()
    branches = gateway.broker.branches
    branch = branches.find(Xid(*XID))
    assert branch is not None
    branches.commit(branch, is_heuristic=True) if is_commit else branches.roll_back(branch, is_heuristic=True)
    if is_again:
        peer.vanish()
        peer = gateway.connect_openwire(connection_id="ID:same", failover_reconnect=True)
        for one in commands:
            peer.send(one)
        peer.take()
    assert recovered(peer) == [XID]
    for kind in (COMMIT_TWO_PHASE, ROLLBACK):
        assert code(peer, kind) == expected
    peer.ask(info(FORGET))
    assert recovered(peer) == []
    assert code(peer, FORGET) == NOTA
    assert texts_of(gateway, "out") == (["a"] if is_commit else [])


def commands_of(peer: OpenWirePeer, *texts: str) -> list[Command]:
    """Return the commands of a branch that sends some messages, with the numbers that its client gives them."""
    sends: list[Command] = [peer.message(queue("out"), text, persistent=True, transaction_id=XID) for text in texts]
    found: list[Command] = [info(BEGIN), *sends, info(END), info(PREPARE)]
    for number, one in enumerate(found):
        one.command_id = 50 + number
        one.response_required = isinstance(one, TransactionInfo) and one.type != BEGIN
    return found


@pytest.mark.parametrize("is_restarted", [True, False])
@pytest.mark.parametrize("outcome", [COMMIT_TWO_PHASE, ROLLBACK])
@pytest.mark.parametrize("is_other", [True, False])
def test_a_failover_client_sends_a_finished_branch_again(*, is_restarted: bool, outcome: int, is_other: bool) -> None:
    """It got no answer to the outcome, or another connection has decided."""
    gateway = OpenWireGateway(is_restartable=True)
    peer = gateway.connect_openwire(connection_id="ID:same", fault_tolerant=True)
    commands = commands_of(peer, "a", "b")
    for one in commands:
        peer.send(one)
    peer.take()
    (gateway.connect_openwire() if is_other else peer).ask(info(outcome))
    peer.vanish()
    later = OpenWireGateway(earlier=gateway) if is_restarted else gateway
    again = later.connect_openwire(connection_id="ID:same", failover_reconnect=True)
    for one in commands:
        again.send(one)
    kinds = {type(one) for one in again.take()}
    assert kinds == {Response, IntegerResponse}
    assert recovered(later.connect_openwire()) == []
    if not is_other:
        again.ask(info(outcome))
    expected = ["a", "b"] if outcome == COMMIT_TWO_PHASE else []
    assert texts_of(later, "out") == expected
    begin(again, "c")
    prepare(again)
    again.ask(info(COMMIT_TWO_PHASE))
    assert texts_of(later, "out") == [*expected, "c"], "the xid may be used again"


def test_work_of_another_user_is_not_seen() -> None:
    gateway = OpenWireGateway(openwire=OpenWireSettings(needs_login=True))
    alice, bob = (logged_in(gateway, user) for user in ("alice", "bob"))
    begin(alice, "a")
    prepare(alice)
    assert recovered(bob) == []
    assert code(bob, COMMIT_TWO_PHASE) == NOTA
    assert recovered(alice) == [XID]


def test_topics_and_durable_subscriptions() -> None:
    gateway = OpenWireGateway(is_restartable=True)
    peer = gateway.connect_openwire("me")
    peer.consume(topic("t"), subscription_name="s")
    gateway.connect_openwire().publish(topic("t"), "a")
    (dispatch,) = peer.dispatches()
    peer.send(info(BEGIN))
    peer.acknowledge(dispatch, transaction_id=XID)
    peer.send(peer.message(topic("t"), "b", persistent=True, transaction_id=XID))
    prepare(peer)
    later = OpenWireGateway(earlier=gateway)
    peer = later.connect_openwire("me")
    peer.consume(topic("t"), subscription_name="s")
    assert peer.texts() == []
    later.connect_openwire().send(info(COMMIT_TWO_PHASE))
    assert peer.texts() == ["b"]


@pytest.mark.parametrize("kind", [PREPARE, COMMIT_TWO_PHASE, ROLLBACK])
def test_each_phase_is_answered_once_it_is_durable(kind: int) -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    begin(peer, "a")
    if kind != PREPARE:
        prepare(peer)
    gateway.sync()
    gateway.syncs = False
    send(peer, kind)
    assert peer.take() == []
    gateway.sync()
    assert peer.one(IntegerResponse if kind == PREPARE else Response).correlation_id == 77
