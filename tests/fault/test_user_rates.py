"""The rate of a user at a real gateway: a second connection waits, HTTP is refused, others continue."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.process.gateway_process import StartGateway
from tests.support.process.stomp_py import Client
from tests.support.process.waiting import wait_until


def test_all_that_comes_from_one_address_shares_the_rate(
    start_gateway: StartGateway, unique: Callable[[str], str]
) -> None:
    gateway = start_gateway("limits: {bytes-per-second-per-user: 1000}\n")
    name = unique("rated")
    first = Client(gateway, "1.2", heartbeats=(0, 0)).connect()
    second = Client(gateway, "1.2", heartbeats=(0, 0)).connect()
    first.send(f"/queue/{name}", "x" * 100_000)  # one may exceed it, and a minute and more pays for it
    with second.receipt() as receipt:
        second.connection.begin("t", headers={"receipt": receipt})
    second.connection.send(f"/queue/{name}", "late", headers={"persistent": "true"})
    wait_until(lambda: len(gateway.get_json("/api/stat")["blocked_producers"]) == 1, "the second one waits")
    (waiting,) = gateway.get_json("/api/stat")["blocked_producers"]
    assert "user-rate: address 127.0.0.1 may send 1000 octets a second" in str(waiting)
    assert 'penstock_producer_waits_total{gate="user-rate"} 1' in gateway.get("/metrics")[1]
    assert gateway.get(f"/api/destinations/queue:{name}/messages", {"body": "late"})[0] == 503
    first.subscribe(f"/queue/{name}")
    assert len(first.message().body) == 100_000, "receiving has no rate"
