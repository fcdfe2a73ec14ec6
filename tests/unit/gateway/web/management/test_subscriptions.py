"""Durable subscriptions of a running gateway, listed and deleted by an operator."""

from __future__ import annotations

import asyncio

import pytest

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.consumers.consumer import INDIVIDUAL
from engine.sources.composite import Source
from engine.values.destination import TOPIC
from engine.values.errors import SubscriptionInUse, UnknownSubscription
from engine.values.message import PERSISTENT, STOMP, Message
from engine.values.options import SubscribeOptions
from engine.values.wildcard import Wildcard
from gateway.loop.engine_loop import EngineLoop
from gateway.process.counters import GatewayCounters
from gateway.process.log_lines import PeerLines
from gateway.web.management import subscriptions
from gateway.web.management.subscriptions import LiveSubscriptions
from tests.support.engine.broker_view import BrokerView
from tests.support.fakes import FakeClient, VirtualClock, VirtualTimers
from tests.support.store.scripted_store import DurableStore


class Gateway:
    """ann's durable subscriptions: ``bills`` to the topic ``prices``, ``all`` to both topics."""

    def __init__(self) -> None:
        store, clock = DurableStore(), VirtualClock()
        self.broker = Broker(store, clock, VirtualTimers(clock), AddressMatcher(()), 1 << 20)
        loop = EngineLoop(asyncio.get_running_loop(), self.broker, store, clock)
        self.live = LiveSubscriptions(loop, PeerLines(GatewayCounters()))
        self.view = BrokerView(self.broker)
        self.client = FakeClient()
        self.client.user, self.client.client_id = "ann", "c"
        self.broker.connect(self.client)
        self.topics = [self.view.topic(name) for name in ("prices", "news")]
        self.subscribe("bills", self.topics[0])
        self.subscribe("all", Wildcard(TOPIC, ">"))
        self.broker.end_turn()
        for topic in (*self.topics, self.topics[0]):
            self.broker.send(topic, Message(topic.destination_id, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", b"body"))
        self.broker.end_turn()

    def subscribe(self, name: str, source: Source) -> None:
        options = SubscribeOptions(ack_mode=INDIVIDUAL, subscription=name, is_durable=True)
        self.broker.subscribe(self.client, source, options)

    def leave(self) -> None:
        self.broker.disconnect(self.client, is_lost=False)
        self.broker.end_turn()

    async def names(self, search: str = "") -> dict[str, tuple[int, int]]:
        """Return consumers and waiting messages by name."""
        found = await self.live.listed(search, 10)
        assert found["durable"] == len(found["subscriptions"])
        return {one["name"]: (one["consumers"], one["waiting"]) for one in found["subscriptions"]}


async def test_an_operator_deletes_what_its_owner_left(caplog: pytest.LogCaptureFixture) -> None:
    gateway = Gateway()
    caplog.set_level("INFO", "penstock")
    assert await gateway.names() == {"bills": (1, 2), "all": (1, 3)}
    with pytest.raises(SubscriptionInUse):
        await gateway.live.delete("c", "bills", "user root")
    gateway.leave()
    assert await gateway.names() == {"bills": (0, 2), "all": (0, 3)}
    await gateway.live.delete("c", "bills", "user root")
    assert "the durable subscription 'bills' of client id 'c' is deleted by user root" in caplog.text
    assert await gateway.names() == {"all": (0, 3)}
    with pytest.raises(UnknownSubscription):
        await gateway.live.delete("c", "bills", "user root")
    await gateway.live.delete("c", "all", "user root")
    gateway.broker.end_turn()
    assert await gateway.names() == {}
    assert not any(topic.subscriptions for topic in gateway.topics)


@pytest.mark.parametrize(("search", "found"), [("bill", {"bills"}), ("topic://>", {"all"}), ("ann", {"bills", "all"})])
async def test_a_search(search: str, found: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "LOOKED_AT_ONCE", 1)
    assert set(await Gateway().names(search)) == found


async def test_what_is_listed() -> None:
    gateway = Gateway()
    found = await gateway.live.listed("", 1)
    assert found == {
        "durable": 2,
        "subscriptions": [
            {
                "client_id": "c",
                "name": "bills",
                "source": "topic://prices",
                "selector": "",
                "shared": False,
                "owner": "ann",
                "consumers": 1,
                "waiting": 2,
            }
        ],
    }
