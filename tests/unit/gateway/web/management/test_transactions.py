"""Prepared transactions of a running gateway, decided by an operator."""

from __future__ import annotations

import asyncio

import pytest

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.open_transaction import TransactionLimits
from engine.values.errors import InvalidOption
from engine.values.message import PERSISTENT, STOMP, Message
from engine.values.xid import Xid
from gateway.loop.engine_loop import EngineLoop
from gateway.process.counters import GatewayCounters
from gateway.process.log_lines import PeerLines
from gateway.web.management.transactions import LiveTransactions
from tests.support.engine.broker_view import BrokerView
from tests.support.fakes import FakeClient, VirtualClock, VirtualTimers
from tests.support.store.scripted_store import DurableStore

XID = Xid(-7, b"order", b"")


def prepared() -> tuple[BrokerView, LiveTransactions]:
    """Return a gateway with one prepared transaction of alice, which sends a message to ``out``."""
    store, clock = DurableStore(), VirtualClock()
    broker = Broker(store, clock, VirtualTimers(clock), AddressMatcher(()), 1 << 20)
    live = LiveTransactions(EngineLoop(asyncio.get_running_loop(), broker, store, clock), PeerLines(GatewayCounters()))
    view = BrokerView(broker)
    client = FakeClient()
    client.user = "alice"
    broker.connect(client)
    view.branches.begin(client, XID, TransactionLimits())
    branch = view.branches.active(client, XID)
    out = view.queue("out")
    message = Message(out.destination_id, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", b"body")
    broker.send_in(branch.transaction, out, message)
    view.branches.prepare(branch)
    return view, live


@pytest.mark.parametrize("is_commit", [True, False])
async def test_an_operator_decides(is_commit: bool, caplog: pytest.LogCaptureFixture) -> None:
    view, live = prepared()
    caplog.set_level("INFO", "penstock")
    (listed,) = live.listed(10)["transactions"]
    assert (listed["xid"], listed["user"]) == ("-7-6f72646572-", "alice")
    assert (listed["messages"], listed["acknowledged"]) == (1, 0)
    await live.decide(listed["xid"], is_commit, "user root")
    found = live.listed(10)
    assert (found["prepared"], found["transactions"]) == (0, [])
    (decided,) = found["decided"]
    assert (decided["xid"], decided["user"]) == ("-7-6f72646572-", "alice")
    assert decided["outcome"] == ("committed" if is_commit else "rolled back")
    assert view.depth("out") == (1 if is_commit else 0)
    assert "-7-6f72646572- is" in caplog.text
    assert "by user root" in caplog.text
    await live.forget(decided["xid"], "user root")
    assert live.listed(10)["decided"] == []
    assert "the outcome of -7-6f72646572- is forgotten by user root" in caplog.text
    with pytest.raises(LookupError):
        await live.forget(decided["xid"], "user root")


async def test_what_is_not_prepared_is_refused() -> None:
    _, live = prepared()
    with pytest.raises(LookupError):
        await live.decide("1-aa-", is_commit=True, operator="user root")
    with pytest.raises(InvalidOption):
        await live.decide("x", is_commit=True, operator="user root")
