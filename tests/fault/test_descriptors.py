"""Sockets of every kind until no more are taken: the store still gets the files that it needs."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

from gateway.cli.shared.blocking_client import BlockingClient
from protocols.stomp.codec.frames import RECEIPT, SEND
from tests.support.config.configurations import small_segments
from tests.support.process.few_files_gateway import FILES_MAX
from tests.support.process.gateway_process import StartGateway

SENDS = 64
BODY = b"x" * 100_000  # so that segments of 1 MiB follow one another


def test_persistent_sends_go_on_while_sockets_take_all_they_get(start_gateway: StartGateway) -> None:
    gateway = start_gateway(small_segments(), module="tests.support.process.few_files_gateway")
    web = urlsplit(gateway.http_url)
    with ExitStack() as stack:
        client = BlockingClient(gateway.stomp_host, gateway.stomp_port)
        stack.callback(client.close)
        for _ in range(FILES_MAX):
            for host, port, octets in (
                (gateway.stomp_host, gateway.stomp_port, b"CONNECT\n"),
                (web.hostname, web.port, b"GET /healthz HTTP/1.1\r\nHost: lo"),
            ):
                half = socket.create_connection((host, port or 0), timeout=20)
                stack.callback(half.close)
                try:
                    half.sendall(octets)
                except OSError:
                    pass  # refused already
        for number in range(SENDS):
            queue = f"/queue/spread.{number}"
            client.send(SEND, [("destination", queue), ("persistent", "true"), ("receipt", str(number))], BODY)
            client.flush()
            frame = client.next_frame()
            assert frame.command == RECEIPT, frame
    assert "store: failed" not in gateway.log.read_text()
