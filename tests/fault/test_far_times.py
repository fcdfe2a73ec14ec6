"""Times at the end of the wire's and the log's types, sent to the real process: it schedules, starts again, cancels."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("proton", reason="needs python-qpid-proton (pip builds it from source)")

from proton import Delivery, Message, symbol
from proton.reactor import Container
from proton.utils import BlockingConnection

from engine.values.message import TIME_MOST_MS
from protocols.stomp.codec.frames import SEND
from tests.support.process import raw_stomp
from tests.support.process.command import answer
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.waiting import wait_until

LIMIT_S = 60.0
HOUR_MS = 3_600_000
STARTS = 2
# durable; properties whose ninth and last field is absolute-expiry-time.
HEADER = bytes.fromhex("005370c0020141")
PROPERTIES = bytes.fromhex("005373c01209") + b"\x40" * 8 + b"\x83" + TIME_MOST_MS.to_bytes(8, "big")
BODY = bytes.fromhex("005375a00178")


def delay_section(delay_ms: int) -> bytes:
    name = b"x-opt-delivery-delay"
    inside = bytes((0xA3, len(name))) + name + b"\x81" + delay_ms.to_bytes(8, "big")
    return bytes.fromhex("005372c1") + bytes((len(inside) + 1, 2)) + inside


def send_stomp(gateway: GatewayProcess, queue: str, **asked: str) -> None:
    client = raw_stomp.client(gateway)
    headers = [("destination", f"/queue/{queue}"), ("persistent", "true"), ("expires", str(TIME_MOST_MS))]
    raw_stomp.call(client, SEND, headers + list(asked.items()))
    client.close()


def send_amqp(gateway: GatewayProcess, queue: str, delay_ms: int) -> None:
    """Send one that expires at the last time there is, and one whose ttl is the longest."""
    connection = BlockingConnection(f"amqp://127.0.0.1:{gateway.stomp_port}", timeout=LIMIT_S, container=Container())
    sender = connection.create_sender(queue)
    delivery = sender.link.delivery(queue)
    sender.link.send(HEADER + delay_section(delay_ms) + PROPERTIES + BODY)
    sender.link.advance()
    connection.wait(lambda: delivery.settled)
    assert delivery.remote_state == Delivery.ACCEPTED
    message = Message("y", durable=True, annotations={symbol("x-opt-delivery-delay"): delay_ms})
    message.ttl = (2**32 - 1) / 1_000
    sender.send(message)
    connection.close()


def schedule(gateway: GatewayProcess) -> dict[str, Any]:
    found = gateway.get_json("/api/stat")["schedule"]
    assert isinstance(found, dict)
    return found


def test_the_last_time_there_is_makes_no_crash_loop(start_gateway: StartGateway) -> None:
    gateway = start_gateway()
    send_stomp(gateway, "soon", AMQ_SCHEDULED_DELAY="1000")
    send_stomp(gateway, "often", AMQ_SCHEDULED_DELAY="1000", AMQ_SCHEDULED_PERIOD="1000", AMQ_SCHEDULED_REPEAT="-1")
    send_stomp(gateway, "cron", AMQ_SCHEDULED_CRON="* * * * *")
    send_stomp(gateway, "later", AMQ_SCHEDULED_DELAY=str(HOUR_MS))
    send_stomp(gateway, "now")
    send_amqp(gateway, "soon", 1_000)
    send_amqp(gateway, "later", HOUR_MS)
    waiting = 5  # often, cron, and three that are for later
    wait_until(lambda: schedule(gateway)["pending"] == waiting, "those for soon to fire", LIMIT_S)
    for _ in range(STARTS):
        gateway.kill9()
        gateway.start()
        wait_until(lambda: schedule(gateway)["fired"] > 0, "a firing after the start", LIMIT_S)
        assert schedule(gateway)["pending"] == waiting
    gateway.terminate()
    listed = json.loads(answer("schedule", "list", "--json", "--data", str(gateway.data)))["schedules"]
    assert len(listed) == waiting
    answer("schedule", "cancel", *(one["id"] for one in listed), "--data", str(gateway.data))
    gateway.start()
    assert schedule(gateway)["pending"] == 0
    depths = {one["name"]: one["depth"] for one in gateway.get_json("/api/stat")["destinations"]}
    assert depths["soon"] == 3
    assert depths["now"] == 1
