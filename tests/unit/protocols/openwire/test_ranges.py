"""Ranges of acknowledgements whose messages the client does not have one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.openwire.session.acknowledgements import INDIVIDUAL, STANDARD
from protocols.openwire.session.branch_commands import END
from protocols.openwire.session.requests import BEGIN, COMMIT_ONE_PHASE
from protocols.openwire.wire.commands import MessageDispatch, TransactionInfo
from protocols.openwire.wire.identities import TransactionId, XaTransactionId
from tests.support.protocols.openwire_gateway import OpenWireGateway, OpenWirePeer, queue, text_in

BRANCH = XaTransactionId(1, b"transaction", b"branch")


def reconnected(first: OpenWirePeer, later: OpenWireGateway) -> tuple[OpenWirePeer, list[str | None]]:
    """Return the peer of a client that has connected again, and what it gets."""
    again = later.connect_openwire(connection_id=first.connection_id, failover_reconnect=True)
    again.consume(queue("q"))
    return again, again.texts()


def acknowledged(peer: OpenWirePeer, old: list[MessageDispatch], is_transacted: bool) -> list[str | None]:
    """Acknowledge a range of copies; return what another client gets then."""
    fields: dict[str, Any] = {}
    if is_transacted:
        peer.send(peer.transact(BEGIN))
        fields["transaction_id"] = peer.transaction()
    peer.acknowledge(old[-1], STANDARD, old[0], count=len(old), **fields)
    assert peer.is_closed == is_transacted
    peer.vanish()
    return peer.gateway.openwire_consumer(queue("q")).texts()


@pytest.mark.parametrize("is_transacted", [False, True])
def test_messages_between_copies_that_another_client_had(is_transacted: bool) -> None:
    gateway = OpenWireGateway(is_restartable=True)
    first = gateway.openwire_consumer(queue("q"))
    other = gateway.openwire_consumer(queue("q"))
    sender = gateway.connect_openwire()
    for text in "abcd":
        sender.publish(queue("q"), text)
    old = first.dispatches()
    assert ([text_in(one) for one in old], other.texts()) == (["a", "c"], ["b", "d"])
    peer, new = reconnected(first, OpenWireGateway(earlier=gateway))
    assert new == ["a", "b", "c", "d"]
    assert acknowledged(peer, old, is_transacted) == (["a", "b", "c", "d"] if is_transacted else ["a", "b", "d"])


@pytest.mark.parametrize("is_transacted", [False, True])
@pytest.mark.parametrize("unseen", ["a", "ab"])
def test_a_range_whose_first_copy_is_gone(unseen: str, is_transacted: bool) -> None:
    gateway = OpenWireGateway(is_restartable=True)
    gateway.connect_openwire().publish(queue("q"), *unseen, "x", "y", "z")
    gateway.openwire_consumer(queue("q"), prefetch=len(unseen))
    first = gateway.openwire_consumer(queue("q"))
    old = first.dispatches()
    assert [text_in(one) for one in old] == ["x", "y", "z"]
    later = OpenWireGateway(earlier=gateway)
    thief = later.openwire_consumer(queue("q"), prefetch=len(unseen) + 1)
    thief.acknowledge(thief.dispatches()[-1], INDIVIDUAL)
    thief.vanish()
    peer, new = reconnected(first, later)
    assert new == [*unseen, "y", "z"]
    assert acknowledged(peer, old, is_transacted) == ([*unseen, "y", "z"] if is_transacted else [*unseen, "y"])


@pytest.mark.parametrize("name", [BRANCH, None])
def test_a_range_that_its_transaction_has_in_part(name: TransactionId | None) -> None:
    """A client that suspends and resumes a branch names all of its messages at the end of each part, or twice."""
    gateway = OpenWireGateway()
    gateway.connect_openwire().publish(queue("q"), "a", "b", "c")
    peer = gateway.openwire_consumer(queue("q"))
    a, b, c = peer.dispatches()
    wanted = name or peer.transaction()
    for last, count in ((b, 2), (c, 3), (c, 3)):
        peer.send(TransactionInfo(transaction_id=wanted, type=BEGIN))
        peer.acknowledge(last, STANDARD, a, count=count, transaction_id=wanted)
        if name is not None:
            peer.ask(TransactionInfo(transaction_id=wanted, type=END))
    assert peer.take() == []
    peer.ask(TransactionInfo(transaction_id=wanted, type=COMMIT_ONE_PHASE))
    assert gateway.stats("q").depth == 0
