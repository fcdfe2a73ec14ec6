"""Clients that were written against ActiveMQ, on a listener that speaks its dialect: stomp.py and Ruby."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.stomp_py import VERSIONS, Client

RUBY_SCRIPT: Final = Path(__file__).with_name("ruby") / "dialect_activemq.rb"

Unique = Callable[[str], str]


@pytest.fixture(scope="module")
def like_activemq(start_session_gateway: StartGateway) -> GatewayProcess:
    return start_session_gateway("stomp: {dialect: activemq}")


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_keeps_the_connection(version: str, like_activemq: GatewayProcess, unique: Unique) -> None:
    client = Client(like_activemq, version).connect()
    assert client.inbox.connected["server"].startswith("ActiveMQ/5.")
    client.connection.send("/queue/bad..name", "x", headers={"receipt": "bad"})
    assert client.error().headers["receipt-id"] == "bad"
    client.connection.commit("unknown")
    assert client.error().headers["condition"] == "transaction-error"
    client.subscribe(f"/queue/{unique('q')}")
    client.send(f"/queue/{unique('q')}", "goes on")
    assert client.message().body == "goes on"
    client.close()


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_nack_gives_up_one_message_at_once(version: str, like_activemq: GatewayProcess, unique: Unique) -> None:
    client, name = Client(like_activemq, version).connect(), unique("q")
    client.subscribe(f"/queue/{name}", "client")
    client.subscribe("/queue/ActiveMQ.DLQ", subscription="dead", selector=f"mark = '{name}'")
    for number in range(3):
        client.send(f"/queue/{name}", str(number), mark=name)
    held = [client.message() for _ in range(3)]
    client.nack(held[1])
    dead = client.message()
    assert (dead.headers["subscription"], dead.body) == ("dead", "1")
    client.ack(held[2])  # covers what was left
    assert depth_of(like_activemq, name) == 0
    client.close()


def depth_of(gateway: GatewayProcess, name: str) -> int:
    return next(int(one["depth"]) for one in gateway.get_json("/api/stat")["destinations"] if one["name"] == name)


@pytest.mark.parametrize("version", VERSIONS)
def test_ruby(version: str, ruby: str, like_activemq: GatewayProcess, unique: Unique) -> None:
    command = [ruby, str(RUBY_SCRIPT), like_activemq.stomp_host, str(like_activemq.stomp_port), version]
    done = subprocess.run([*command, unique("ruby")], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "ok error\nok nack\n", f"{done.stdout}{done.stderr}"
