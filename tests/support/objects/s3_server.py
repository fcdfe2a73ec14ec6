"""A real S3 server for tests, moto's, in a process of its own, and a relay before it that fails on demand."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Final

BUCKET: Final = "lake"
SERVER: Final = """
import logging, sys, time
from moto.moto_server.threaded_moto_server import ThreadedMotoServer
logging.disable(logging.CRITICAL)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
PASS: Final = ""
REFUSE: Final = "refuse"  # 403, as a store answers that lacks a right
CUT: Final = "cut"  # the connection ends before the store has the request
LOSE: Final = "lose"  # the store has done it, and its answer is lost
IGNORE: Final = "ignore"  # as a store that does not know the condition
DENIED: Final = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
_prefixes = count(1)


@dataclass(frozen=True)
class S3Lake:
    """A new place in the bucket.  url: for us.  options: of deltalake and others."""

    prefix: str
    port: int

    @property
    def url(self) -> str:
        return self.at(self.port)

    def at(self, port: int) -> str:
        """Return the URL through another port."""
        endpoint = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        return f"s3://key:secret@{BUCKET}/{self.prefix}?{endpoint}"

    @property
    def table(self) -> str:
        """The URL for others."""
        return f"s3://{BUCKET}/{self.prefix}"

    @property
    def options(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
        }


class S3Server:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline() or 0)
        assert self.port, "the S3 server has not started"
        self.request("PUT", f"/{BUCKET}")

    def request(self, method: str, path: str) -> bytes:
        sent = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        with urllib.request.urlopen(sent) as answer:
            octets: bytes = answer.read()
            return octets

    def lake(self) -> S3Lake:
        return S3Lake(f"lake-{next(_prefixes)}", self.port)

    def stop(self) -> None:
        self._process.communicate()


class Relay:
    """fault: what happens to a request, by method, path with query, and its number from 0."""

    def __init__(self, port: int, fault: Callable[[str, str, int], str]) -> None:
        self.requests: list[str] = []
        relay = self

        class Handler(StreamRequestHandler):
            def handle(self) -> None:
                relay.serve(self.connection)

        self._upstream = port
        self._fault = fault
        self._lock = threading.Lock()
        self._server = ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def serve(self, client: socket.socket) -> None:
        """Serve one request, and close."""
        head, rest = _head(client)
        if not head:
            return
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ")
        with self._lock:
            number = len(self.requests)
            self.requests.append(f"{method} {path}")
        what = self._fault(method, path, number)
        if what == CUT:
            return
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if fields.pop("expect", ""):
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        size = int(fields.get("content-length", "0"))
        is_chunked = fields.get("transfer-encoding") == "chunked"
        while len(rest) < size or (is_chunked and not rest.endswith(b"0\r\n\r\n")):
            octets = client.recv(1 << 16)
            if not octets:
                return
            rest += octets
        if what == REFUSE:
            body = b"" if method == "HEAD" else DENIED
            told = f"HTTP/1.1 403 Forbidden\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            client.sendall(told.encode() + body)
            return
        if what == IGNORE:
            fields.pop("if-none-match", "")
        fields["connection"] = "close"
        sent = "\r\n".join([lines[0], *(f"{name}: {value}" for name, value in fields.items())])
        answer = b""
        with socket.create_connection(("127.0.0.1", self._upstream)) as server:
            server.sendall(f"{sent}\r\n\r\n".encode("latin-1") + rest)
            while octets := server.recv(1 << 16):
                answer += octets
        if what != LOSE:
            top, _, body = answer.partition(b"\r\n\r\n")
            kept = [line for line in top.split(b"\r\n") if not line.lower().startswith(b"connection:")]
            client.sendall(b"\r\n".join([*kept, b"Connection: close", b"", body]))


def _head(client: socket.socket) -> tuple[bytes, bytes]:
    octets = b""
    while b"\r\n\r\n" not in octets:
        more = client.recv(1 << 16)
        if not more:
            return b"", b""
        octets += more
    head, _, rest = octets.partition(b"\r\n\r\n")
    return head, rest
