"""stomp.py against a full address of the real process: floods with and without receipts, heart-beats, one connection
that floods and consumes."""

from __future__ import annotations

import threading
from typing import Final

import pytest

from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.stomp_py import VERSIONS, Client, Received
from tests.support.process.waiting import wait_until

COUNT: Final = 300
BODY_BYTES: Final = 2_000
BLOCKING: Final = """
addresses:
  - match: "blocked.>"
    max-size-bytes: 20000
    address-full-policy: BLOCK
"""


@pytest.fixture(scope="module")
def blocking(start_session_gateway: StartGateway) -> GatewayProcess:
    """A gateway that holds about ten messages of each queue ``blocked.*``."""
    return start_session_gateway(BLOCKING)


def body(number: int) -> str:
    return f"{number:06d}".ljust(BODY_BYTES, ".")


def is_blocked(gateway: GatewayProcess, queue: str) -> bool:
    blocked = gateway.get_json("/api/stat")["blocked_producers"]
    return any(f"address-full: queue://{queue} holds" in one["reason"] for one in blocked)


def take_all(client: Client, count: int) -> list[str]:
    bodies: list[str] = []
    for _ in range(count):
        message: Received = client.message()
        bodies.append(message.body)
        client.ack(message)
    return bodies


@pytest.mark.parametrize("version", VERSIONS)
def test_a_flood_with_receipts_waits_for_the_consumer(version: str, blocking: GatewayProcess) -> None:
    queue = f"blocked.receipts.{version.replace('.', '-')}"
    sender, receiver = Client(blocking, version).connect(), Client(blocking, version).connect()
    for number in range(COUNT):
        sender.connection.send(f"/queue/{queue}", body(number), headers={"receipt": str(number), "persistent": "true"})
    wait_until(lambda: is_blocked(blocking, queue), "the gate address-full")
    assert sender.inbox.receipts.qsize() < 20
    receiver.subscribe(f"/queue/{queue}", "client")
    assert take_all(receiver, COUNT) == [body(number) for number in range(COUNT)]
    assert [sender.inbox.receipts.get(timeout=20) for _ in range(COUNT)] == [str(number) for number in range(COUNT)]
    wait_until(lambda: not is_blocked(blocking, queue), "room")
    sender.close()
    receiver.close()


def test_a_flood_without_receipts_fills_neither_the_memory_nor_the_address(blocking: GatewayProcess) -> None:
    """stomp.py blocks in ``send`` once the sockets between are full, so the flood has a thread of its own."""
    queue, count = "blocked.silent", 4_000
    sender, receiver = Client(blocking, "1.2").connect(), Client(blocking, "1.2").connect()

    def flood() -> None:
        for number in range(count):
            sender.connection.send(f"/queue/{queue}", body(number))

    thread = threading.Thread(target=flood)
    thread.start()
    wait_until(lambda: is_blocked(blocking, queue), "the gate address-full")
    (found,) = [one for one in blocking.get_json("/api/stat")["destinations"] if one["name"] == queue]
    assert found["depth"] < 20
    receiver.subscribe(f"/queue/{queue}", "auto")
    assert receiver.bodies(count) == [body(number) for number in range(count)]
    thread.join()
    sender.close()
    receiver.close()


def test_heart_beats_survive_a_long_block(blocking: GatewayProcess) -> None:
    queue = "blocked.heart"
    sender = Client(blocking, "1.2", heartbeats=(1_000, 500), heart_beat_receive_scale=20).connect()
    for number in range(1_000):
        sender.connection.send(f"/queue/{queue}", body(number))
    wait_until(lambda: is_blocked(blocking, queue), "the gate address-full")
    for _ in range(8):
        sender.inbox.heart_beats.get(timeout=20)  # for four seconds; the gateway gives a silent peer up after two
    assert sender.connection.is_connected()
    receiver = Client(blocking, "1.2").connect()
    receiver.subscribe(f"/queue/{queue}", "auto")
    assert receiver.bodies(1_000) == [body(number) for number in range(1_000)]
    sender.close()
    receiver.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_connection_that_floods_and_consumes_gets_through(version: str, blocking: GatewayProcess) -> None:
    """ActiveMQ 5.18 stops for good here (docs/reference/semantics.md)."""
    queue = f"blocked.both.{version.replace('.', '-')}"
    both = Client(blocking, version).connect()
    both.subscribe(f"/queue/{queue}", "client")
    for number in range(COUNT):
        both.connection.send(f"/queue/{queue}", body(number), headers={"persistent": "true"})
    bodies: list[str] = []
    for _ in range(COUNT):
        message = both.message()
        bodies.append(message.body)
        settle(both, message)
    assert bodies == [body(number) for number in range(COUNT)]
    both.close()


def settle(client: Client, message: Received) -> None:
    """Acknowledge without a receipt."""
    headers = message.headers
    if client.version == "1.2":
        client.connection.ack(headers["ack"])
    elif client.version == "1.1":
        client.connection.ack(headers["message-id"], headers["subscription"])
    else:
        client.connection.ack(headers["message-id"])
