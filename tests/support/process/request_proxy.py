"""A proxy before a gateway's HTTP listener, which calls a test right before one of the requests."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

LIMIT_S: Final = 240.0
OF_ONE_CONNECTION: Final = {"connection", "transfer-encoding", "content-length"}


class RequestProxy:
    """``url``: of the proxy.  ``count``: requests so far, which are passed on one after the other."""

    def __init__(self, port: int, interrupt: Callable[[], None], place: int | None) -> None:
        """interrupt: called before the request with the number ``place``, never if that is None."""
        self.count = 0
        proxy, in_turn = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline()
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with in_turn:
                    if proxy.count == place:
                        interrupt()
                    proxy.count += 1
                    status, headers, answer = self.passed_on(body)
                self.send_response_only(status)
                for name, value in headers:
                    if name.lower() not in OF_ONE_CONNECTION:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def passed_on(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
                connection.request(self.command, self.path, body or None, dict(self.headers.items()))
                answer = connection.getresponse()
                found = answer.status, answer.getheaders(), answer.read()
                connection.close()
                return found

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def request_proxy(url: str, interrupt: Callable[[], None], place: int | None = None) -> Iterator[RequestProxy]:
    """A proxy before the listener at ``url``, which keeps its port over what ``interrupt`` does."""
    port = urlsplit(url).port
    assert port is not None, f"no port in {url}"
    proxy = RequestProxy(port, interrupt, place)
    thread = threading.Thread(target=proxy.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.server.shutdown()
        proxy.server.server_close()
        thread.join()
