"""stomp.py against the real process: redelivery and prefetch, as a client asks for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.process.stomp_py import VERSIONS, Connect

Unique = Callable[[str], str]

VERSIONS_WITH_NACK = VERSIONS[1:]


@pytest.mark.parametrize("version", VERSIONS_WITH_NACK)
def test_a_consumer_s_own_redelivery_policy(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('q')}"
    client = connect(version)
    own = {"activemq.maximumRedeliveries": "2", "activemq.initialRedeliveryDelay": "10"}
    client.subscribe(queue, "client-individual", **own, **{"activemq.redeliveryDelay": "10"})
    client.subscribe("/queue/ActiveMQ.DLQ", subscription="dead", selector=f"mark = '{queue}'")
    client.send(queue, "bad", mark=queue)
    counts = []
    while (message := client.message()).headers["subscription"] == "1":
        counts.append((message.headers["JMSXDeliveryCount"], message.headers.get("redelivered", "false")))
        client.nack(message)
    assert counts == [("1", "false"), ("2", "true"), ("3", "true")]
    assert message.headers["original-destination"] == queue


@pytest.mark.parametrize("version", VERSIONS_WITH_NACK)
def test_nack_says_what_becomes_of_the_message(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('q')}"
    client = connect(version)
    client.subscribe(queue, "client-individual")
    client.subscribe("/queue/ActiveMQ.DLQ", subscription="dead", selector=f"mark = '{queue}'")
    client.send(queue, "x", mark=queue)
    client.nack(client.message(), requeue="true")
    back = client.message()
    assert (back.headers["JMSXDeliveryCount"], back.headers["redelivered"]) == ("1", "true")
    client.nack(back, delay=50)
    counted = client.message()
    assert counted.headers["JMSXDeliveryCount"] == "2"
    client.nack(counted, requeue="false", reason="no such customer")
    dead = client.message()
    assert dead.headers["subscription"] == "dead"
    assert "no such customer" in dead.headers["dlqDeliveryFailureCause"]


@pytest.mark.parametrize("version", VERSIONS)
def test_prefetch_by_header_by_destination_and_by_connection(version: str, connect: Connect, unique: Unique) -> None:
    name = unique("q")
    by_connection = connect(version, headers={"activemq.prefetchPolicy.queuePrefetch": "1"})
    client = connect(version)
    sender = connect(version)
    by_connection.subscribe(f"/queue/{name}.1", "client")
    client.subscribe(f"/queue/{name}.2?consumer.prefetchSize=2", "client", subscription="2")
    client.subscribe(f"/queue/{name}.3?consumer.prefetchSize=9", "client", "3", **{"activemq.prefetchSize": "1"})
    for queue in (1, 2, 3):
        for number in range(4):
            sender.send(f"/queue/{name}.{queue}", f"{queue}.{number}")
    assert by_connection.message().body == "1.0"
    assert sorted(client.bodies(3)) == ["2.0", "2.1", "3.0"]
    for one in (by_connection, client):
        with one.receipt() as receipt:
            one.connection.begin("t", headers={"receipt": receipt})
        assert one.nothing_came()
