"""Sockets of every kind until no more are taken: TLS handshakes that stop, WebSockets, HTTP, silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hostile.aftermath import check_faults, check_nothing_held, metrics
from tests.support.hostile.honest_clients import AmqpTrips, StompTrips, Trips, go_on
from tests.support.hostile.hostile_config import CONNECTIONS_PER_ADDRESS, HONEST, hostile_config
from tests.support.hostile.hostile_peers import Hostiles
from tests.support.process.certificates import Certificates
from tests.support.process.gateway_process import GatewayProcess, StartGateway

# The record that a ClientHello begins with, of 512 octets, and no more of it.
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
EACH = 200  # sockets of each kind: together more than the process may open
MANY = 10_000


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def many_of_an_address(certificates: Certificates) -> str:
    config = hostile_config()
    one = f"connections-per-address: {CONNECTIONS_PER_ADDRESS}"
    assert one in config
    return config.replace(one, f"connections-per-address: {MANY}") + certificates.configuration()


def open_files(gateway: GatewayProcess) -> int:
    return len(list(Path(f"/proc/{gateway.pid}/fd").iterdir()))


@pytest.mark.usefixtures("at_length")
def test_the_store_has_its_files_whatever_sockets_do(start_gateway: StartGateway, certificates: Certificates) -> None:
    gateway = start_gateway(many_of_an_address(certificates), module="tests.support.process.few_files_gateway")
    gateway.http_login = HONEST
    confirmed: set[int] = set()
    trips: list[Trips] = [StompTrips(gateway, confirmed, 0), AmqpTrips(gateway)]
    with Hostiles(gateway) as hostile:
        for _ in range(EACH):
            hostile.raw().write(HELLO)
            hostile.raw()  # silence
            hostile.raw().write(b"CONNECT\naccept-ver")
            hostile.http().write(b"GET /healthz HTTP/1.1\r\nHost: lo")
        go_on(trips)
        before = len(confirmed)
        trips[0].more(20)
        assert len(confirmed) > before, "what is persistent is still confirmed"
        assert open_files(gateway) < 512
    for one in trips:
        one.stop()
    check_nothing_held(gateway)
    check_faults(gateway)
    assert metrics(gateway)["penstock_refused_connections_total"] > EACH
