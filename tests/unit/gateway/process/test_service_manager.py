"""What systemd hears of the gateway."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.process.service_manager import ServiceManager


@pytest.fixture(params=["a file", "an abstract name"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """The socket of a manager, and its name in the environment."""
    path = str(tmp_path / "notify")
    is_abstract = request.param != "a file"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as endpoint:
        endpoint.setblocking(False)
        endpoint.bind(f"\0{path}" if is_abstract else path)
        yield endpoint, f"@{path}" if is_abstract else path


def test_each_state_is_a_datagram(manager: tuple[socket.socket, str]) -> None:
    endpoint, name = manager
    service = ServiceManager({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "60000000"})
    service.ready()
    service.alive()
    service.stopping()
    assert [endpoint.recv(100) for _ in range(3)] == [b"READY=1", b"WATCHDOG=1", b"STOPPING=1"]


def test_the_watchdog_hears_nothing_where_it_is_off(manager: tuple[socket.socket, str]) -> None:
    endpoint, name = manager
    ServiceManager({"NOTIFY_SOCKET": name}).alive()
    with pytest.raises(BlockingIOError):
        endpoint.recv(100)


def test_without_a_manager_nothing_happens() -> None:
    service = ServiceManager({"WATCHDOG_USEC": "60000000"})
    service.ready()
    service.alive()


def test_a_manager_that_has_gone_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone"), "WATCHDOG_USEC": "1"})
    for _ in range(3):
        service.alive()
    assert caplog.text.count("cannot be informed") == 1
