"""Fixtures that tests with real clients share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.process.gateway_process import GatewayProcess
from tests.support.process.stomp_py import Client, Connect


@pytest.fixture
def connect(shared_gateway: GatewayProcess) -> Iterator[Connect]:
    """A function that connects clients of stomp.py; they are disconnected at the end of the test."""
    clients: list[Client] = []

    def connected(
        version: str, gateway: GatewayProcess | None = None, headers: dict[str, str] | None = None, **options: Any
    ) -> Client:
        client = Client(gateway or shared_gateway, version, **options)
        clients.append(client)
        return client.connect(**(headers or {}))

    yield connected
    for client in clients:
        client.close()
