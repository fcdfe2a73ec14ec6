"""Blocking connections of python-qpid-proton."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from proton import ConnectionException, Timeout
from proton.reactor import Container
from proton.utils import BlockingConnection

from tests.support.process.gateway_process import GatewayProcess

LIMIT_S: Final = 60.0
QUIET_S: Final = 0.3
CLOSE_LIMIT_S: Final = 2.0

Connect = Callable[..., BlockingConnection]


def connections(shared_gateway: GatewayProcess) -> Iterator[Connect]:
    """Yield, for a fixture, a function that connects; connections are closed at the end of the test."""
    opened: list[BlockingConnection] = []

    def connect(
        gateway: GatewayProcess | None = None, login: str = "", client_id: str = "", **options: Any
    ) -> BlockingConnection:
        port = (gateway or shared_gateway).stomp_port  # one port accepts every protocol
        container = Container()
        if client_id:
            container.container_id = client_id
        url = f"amqp://{login}127.0.0.1:{port}"
        one = BlockingConnection(url, timeout=LIMIT_S, container=container, **options)
        opened.append(one)
        return one

    yield connect
    for one in opened:
        one.timeout = CLOSE_LIMIT_S
        with suppress(Timeout, ConnectionException):  # its gateway may have been killed
            one.close()


def is_empty(receiver: Any) -> bool:
    try:
        receiver.receive(timeout=QUIET_S)
    except Timeout:
        return True
    return False
