"""The audit log of a real gateway: who managed what, and what was denied, over each protocol."""

from __future__ import annotations

import os
import re
import signal
from typing import Final

import pytest

from gateway.cli.shared.blocking_client import BlockingClient, ConnectionLost, Refused
from protocols.stomp.codec.frames import SUBSCRIBE
from tests.support.config.configurations import with_user
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.rest import RestClient
from tests.support.process.waiting import wait_until

ANN: Final = ("ann", "secret")
BOB: Final = ("bob", "secret")
GROUPS: Final = """\
permissions:
  - {match: ">", admin: operators}
"""
FIELD: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@pytest.fixture
def gateway(start_gateway: StartGateway) -> GatewayProcess:
    users = with_user(*ANN) + "    groups: operators\n" + with_user(*BOB).partition("\n")[2]
    return start_gateway(users + GROUPS)


def audited(gateway: GatewayProcess) -> list[dict[str, str]]:
    lines = gateway.log.read_text().splitlines()
    return [dict(FIELD.findall(line)) for line in lines if " penstock.audit " in line]


def await_entry(gateway: GatewayProcess, **expected: str) -> None:
    def is_there() -> bool:
        return any(expected.items() <= entry.items() for entry in audited(gateway))

    wait_until(is_there, f"the audit log has {expected}", limit_s=60.0)


def test_over_http(gateway: GatewayProcess) -> None:
    for login, status in ((ANN, 404), (BOB, 403), (("ann", "wrong"), 401)):
        client = RestClient(gateway, login)
        assert client.ask("POST", "/api/purge", {"destination": "queue://none"})[0] == status
        client.close()
    same = {"address": "127.0.0.1", "protocol": "http", "action": "startPurge"}
    target = {"target": "destination=queue://none"}
    await_entry(gateway, **same, **target, user="ann", result="not-found")
    await_entry(gateway, **same, **target, user="bob", result="access-denied")
    await_entry(gateway, **same, user="ann", target="/api/purge", result="login-refused")


def test_over_stomp(gateway: GatewayProcess) -> None:
    forged = '/queue/a" result="done"'
    client = BlockingClient(gateway.stomp_host, gateway.stomp_port, *BOB)
    with pytest.raises((Refused, ConnectionLost)):
        raw_stomp.call(client, SUBSCRIBE, [("id", "1"), ("destination", forged)])
    client.close()
    with pytest.raises((Refused, ConnectionLost)):
        BlockingClient(gateway.stomp_host, gateway.stomp_port, "bob", "wrong")
    same = {"user": "bob", "protocol": "stomp"}
    await_entry(gateway, **same, action="read", target='queue://a\\" result=\\"done\\"', result="access-denied")
    await_entry(gateway, **same, action="login", result="login-refused")


def test_over_amqp(gateway: GatewayProcess) -> None:
    pytest.importorskip("proton", reason="needs python-qpid-proton (pip builds it from source)")
    from proton import ProtonException
    from proton.utils import BlockingConnection

    connection = BlockingConnection(
        f"amqp://{gateway.stomp_host}:{gateway.stomp_port}", user="bob", password="secret", allowed_mechs="PLAIN"
    )
    with pytest.raises(ProtonException):
        connection.create_sender("queue://closed")
    connection.close()
    await_entry(gateway, user="bob", protocol="amqp", action="write", target="queue://closed", result="access-denied")


def test_a_signal(gateway: GatewayProcess) -> None:
    same = {"user": "", "address": "", "protocol": "signal", "action": "reload", "target": "SIGHUP"}
    os.kill(gateway.pid, signal.SIGHUP)
    await_entry(gateway, **same, result="done")
    gateway.configs[0].write_text("nonsense: 1\n")
    os.kill(gateway.pid, signal.SIGHUP)
    await_entry(gateway, **same, result="invalid-configuration")
