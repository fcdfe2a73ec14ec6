"""Delivery counts are in the log: a poison message is given up after as many attempts as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable

from protocols.stomp.codec.frames import NACK
from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import GatewayProcess, StartGateway


def refuse(gateway: GatewayProcess, queue: str) -> str:
    """Take one message and NACK it; return its delivery count once the outcome is durable."""
    client = raw_stomp.client(gateway)
    raw_stomp.subscribe(client, queue, prefetch=1)
    message = raw_stomp.message(client)
    raw_stomp.call(client, NACK, [("id", message.head.headers["ack"])])
    client.close()
    return message.head.headers.get("JMSXDeliveryCount", "1")


def test_attempts_are_counted_on_over_kills(start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    name = unique("poison")
    gateway = start_gateway(configurations.small_segments() + configurations.quick_redelivery(maximum_redeliveries=2))
    sender = raw_stomp.client(gateway)
    assert list(sender.publish([(f"/queue/{name}", b"poison")])) == [0]
    sender.close()
    for expected_count in ("1", "2", "3"):
        assert refuse(gateway, f"/queue/{name}") == expected_count
        gateway.kill9()
        gateway.restart()

    undertaker = raw_stomp.client(gateway)
    raw_stomp.subscribe(undertaker, "/queue/ActiveMQ.DLQ", prefetch=1)
    dead = raw_stomp.message(undertaker)
    assert dead.body == b"poison"
    assert name in dead.head.headers["original-destination"]
    undertaker.close()
    depths = {each["name"]: each["depth"] for each in gateway.get_json("/api/stat")["destinations"]}
    assert depths[name] == 0
