"""Sockets that a service manager has opened: each goes to the listener with its address, and none is left over."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from config.model import Endpoint
from gateway.connections.acceptor import listening_socket
from gateway.process.passed_sockets import passed_sockets

FIRST = 700  # a number that nothing else has: descriptors are passed by numbers in a row


@pytest.fixture
def ports() -> Iterator[list[int]]:
    """The ports of two sockets that are passed."""
    made: list[int] = []
    for number in range(2):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            os.dup2(listening.fileno(), FIRST + number, inheritable=True)
            made.append(listening.getsockname()[1])
    yield made
    for number in range(2):
        try:
            os.close(FIRST + number)
        except OSError:
            pass  # its taker has closed it


def environment(pid: int | None = None) -> dict[str, str]:
    return {"LISTEN_PID": str(os.getpid() if pid is None else pid), "LISTEN_FDS": "2", "LISTEN_FDNAMES": "a:b"}


async def test_a_listener_takes_the_socket_of_its_address(ports: list[int]) -> None:
    passed = passed_sockets(environment(), FIRST)
    with await listening_socket(Endpoint("tcp", "127.0.0.1", ports[1]), passed) as second:
        assert second.fileno() == FIRST + 1
        assert not second.getblocking()
        assert not second.get_inheritable()
        with pytest.raises(OSError, match=f"a socket of 127.0.0.1:{ports[0]}, which is the address of no listener"):
            passed.refuse_rest()
        with await listening_socket(Endpoint("http", "localhost", ports[0]), passed) as first:
            assert first.fileno() == FIRST
        passed.refuse_rest()


async def test_an_address_without_one_is_bound_as_ever(ports: list[int]) -> None:
    passed = passed_sockets(environment(), FIRST)
    with await listening_socket(Endpoint("tcp", "127.0.0.1", 0), passed) as own:
        assert own.fileno() not in (FIRST, FIRST + 1)
    for port in ports:
        (await listening_socket(Endpoint("tcp", "127.0.0.1", port), passed)).close()


@pytest.mark.parametrize("given", [{}, {"LISTEN_FDS": "2"}, environment(pid=1)])
def test_what_was_passed_to_another_process_is_left_alone(given: dict[str, str]) -> None:
    passed = passed_sockets(given, FIRST)
    assert passed.take(("127.0.0.1", 61613)) is None
    passed.refuse_rest()


def test_other_sockets_are_refused() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        os.dup2(datagrams.fileno(), FIRST)
    with pytest.raises(OSError, match="allowed are sockets of TCP"):
        passed_sockets({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}, FIRST)


@pytest.mark.parametrize(
    ("count", "said"),
    [("two", "LISTEN_FDS='two'"), ("-1", "LISTEN_FDS='-1'"), ("1", f"descriptor {FIRST} ")],
)
def test_what_is_no_socket_is_refused(count: str, said: str) -> None:
    with open(os.devnull) as other:
        os.dup2(other.fileno(), FIRST)
    with pytest.raises(OSError, match=said) as refused:
        passed_sockets({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": count}, FIRST)
    assert "allowed" in str(refused.value)
    os.close(FIRST)
