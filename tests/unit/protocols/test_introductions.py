"""Who a connection is, whatever it speaks: the engine hears it in one place."""

from __future__ import annotations

import json

import pytest

from tests.support.protocols.amqp_gateway import AmqpGateway


@pytest.mark.parametrize("protocol", ["STOMP", "AMQP"])
def test_a_connection_is_told_of_when_it_comes_and_goes(protocol: str) -> None:
    gateway = AmqpGateway()
    watcher = gateway.subscriber("/topic/ActiveMQ.Advisory.Connection", "auto")
    peer = gateway.connect_amqp("me") if protocol == "AMQP" else gateway.connect(client_id="me")
    peer.vanish()
    told = [json.loads(frame.body) for frame in watcher.messages()]
    assert [next(iter(one)) for one in told] == ["ConnectionInfo", "RemoveInfo"]
    assert "me" in json.dumps(told[0])
