"""Fixtures that tests with real clients share."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.process.chromium import NoBrowser, start_chromium
from tests.support.process.gateway_process import GatewayProcess
from tests.support.process.rest import RestClient
from tests.support.process.stomp_py import CLIENTS, Client, Connect


@pytest.fixture(autouse=True)
def _no_client_outlives_its_test() -> Iterator[None]:
    """Over TLS the thread of a stomp.py connection does not notice that the gateway has gone, and never rests."""
    yield
    while CLIENTS:
        CLIENTS.pop().end_thread()


JAVASCRIPT: Final = Path(__file__).with_name("javascript")
INSTALL_LIMIT_S: Final = 300


@pytest.fixture(scope="session")
def javascript(node: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the scenarios in JavaScript and their libraries."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm on the PATH")
    home = tmp_path_factory.mktemp("javascript")
    shutil.copytree(JAVASCRIPT, home, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    command = [npm, "install", "--silent", "--no-audit", "--no-fund"]
    installed = subprocess.run(command, cwd=home, capture_output=True, timeout=INSTALL_LIMIT_S, check=False)
    if installed.returncode != 0:
        pytest.skip("npm could not bring rhea, stompjs and axe-core")
    return home


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


@pytest.fixture
def rest(shared_gateway: GatewayProcess) -> Iterator[RestClient]:
    client = RestClient(shared_gateway)
    yield client
    client.close()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    try:
        found = start_chromium(tmp_path_factory.mktemp("chromium"))
    except NoBrowser as missing:
        pytest.skip(str(missing))
    yield found
    found.quit()
