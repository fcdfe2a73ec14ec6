"""A queue that an operator pauses, with clients of every protocol and the commands that he would type."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable

from tests.support.process.command import answer
from tests.support.process.gateway_process import GatewayProcess
from tests.support.process.stomp_py import Client


def penstock(gateway: GatewayProcess, *words: str) -> str:
    return answer(*words, "--http", gateway.http_url)


def test_a_paused_queue_takes_messages_and_hands_none_over(
    gateway: GatewayProcess, unique: Callable[[str], str]
) -> None:
    name = unique("orders")
    client = Client(gateway, "1.2").connect()
    client.subscribe(f"/queue/{name}", "client-individual")
    client.send(f"/queue/{name}", "before", persistent="true")
    held = client.message()

    assert penstock(gateway, "pause", name) == f"{name} is paused\n"
    client.send(f"/queue/{name}", "meanwhile", persistent="true")
    client.ack(held)
    (consumer,) = gateway.get_json("/api/stat")["consumers"]
    why = penstock(gateway, "why", "consumer", str(consumer["consumer_id"]))
    assert "gate         paused by address 127.0.0.1; penstock resume ends that" in why
    assert f"paused: queue://{name}" in penstock(gateway, "stat")
    with urllib.request.urlopen(f"{gateway.http_url}/metrics", timeout=10) as answer:
        assert f'penstock_destination_is_paused{{destination="{name}",kind="queue"}} 1.0' in answer.read().decode()
    taken = urllib.request.Request(f"{gateway.http_url}/api/destinations/{name}/take?wait_ms=200", method="POST")
    with urllib.request.urlopen(taken, timeout=10) as answer:
        assert answer.read() == b'{"messages": []}'

    assert penstock(gateway, "resume", f"queue://{name}", "--json") == f'{{"queue": "{name}", "paused": false}}\n'
    assert client.message().body == "meanwhile"
    client.close()


def test_a_restart_ends_the_pause(gateway: GatewayProcess, unique: Callable[[str], str]) -> None:
    """As in ActiveMQ, whose brokers keep it in memory."""
    name = unique("orders")
    client = Client(gateway, "1.2").connect()
    client.send(f"/queue/{name}", "x", persistent="true")
    penstock(gateway, "pause", name)
    client.close()
    gateway.kill9()
    gateway.start()
    client = Client(gateway, "1.2").connect()
    client.subscribe(f"/queue/{name}")
    assert client.message().body == "x"
    client.close()
