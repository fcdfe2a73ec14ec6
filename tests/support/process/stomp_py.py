"""stomp.py as a test client: received frames are in queues that can be waited on."""

from __future__ import annotations

import contextlib
import itertools
import queue
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import stomp
from stomp.exception import NotConnectedException

from tests.support.process.gateway_process import GatewayProcess

LIMIT_S: Final = 60.0
VERSIONS: Final = ("1.0", "1.1", "1.2")
_CONNECTIONS: Final = {"1.0": stomp.StompConnection10, "1.1": stomp.StompConnection11, "1.2": stomp.StompConnection12}
_receipts = itertools.count(1)
CLIENTS: Final[list[Client]] = []  # of the test that runs


@dataclass(frozen=True)
class Received:
    headers: dict[str, str]
    body: Any

    def __repr__(self) -> str:
        return f"Received({self.headers!r}, {str(self.body)[:80]!r})"


class Inbox(stomp.ConnectionListener):  # type: ignore[misc]  # the library ships no types
    """The frames that one connection received; those of a kind stay in order."""

    def __init__(self) -> None:
        self.messages: queue.Queue[Received] = queue.Queue()
        self.errors: queue.Queue[Received] = queue.Queue()
        self.receipts: queue.Queue[str] = queue.Queue()
        self.heart_beats: queue.Queue[None] = queue.Queue()
        self.disconnects: queue.Queue[None] = queue.Queue()
        self.connected: dict[str, str] = {}

    def on_connected(self, frame: Any) -> None:
        self.connected = dict(frame.headers)

    def on_message(self, frame: Any) -> None:
        self.messages.put(Received(dict(frame.headers), frame.body))

    def on_error(self, frame: Any) -> None:
        self.errors.put(Received(dict(frame.headers), frame.body))

    def on_receipt(self, frame: Any) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_heartbeat(self) -> None:
        self.heart_beats.put(None)

    def on_disconnected(self) -> None:
        self.disconnects.put(None)


class Connect(Protocol):
    """Connect one more client; ``headers`` are those of CONNECT."""

    def __call__(
        self, version: str, gateway: GatewayProcess | None = None, headers: dict[str, str] | None = None, **options: Any
    ) -> Client: ...


class Client:
    """One connection of one STOMP version; it hides the differences between the versions' ACKs.

    ca_certs: file with the authority of the gateway's certificate, for TLS.
    """

    def __init__(self, gateway: GatewayProcess, version: str, ca_certs: str = "", **options: Any) -> None:
        CLIENTS.append(self)
        self.version = version
        self.inbox = Inbox()
        # stomp.py reconnects by itself only inside connect(); one attempt is enough for a running server.
        self.connection = _CONNECTIONS[version](
            [(gateway.stomp_host, gateway.stomp_port)], reconnect_attempts_max=1, timeout=LIMIT_S, **options
        )
        if ca_certs:
            self.connection.set_ssl([(gateway.stomp_host, gateway.stomp_port)], ca_certs=ca_certs)
        self.connection.set_listener("inbox", self.inbox)

    def connect(self, login: str = "", passcode: str = "", **headers: str) -> Client:
        self.connection.connect(login or None, passcode or None, wait=True, headers=headers)
        return self

    def send(self, destination: str, body: str | bytes, **headers: Any) -> None:
        """Send a persistent message and wait for its receipt; header names may be given with ``_`` for ``-``."""
        with self.receipt() as receipt:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            self.connection.send(destination, body, headers={"persistent": "true", "receipt": receipt, **named})

    def subscribe(self, destination: str, ack: str = "auto", subscription: str = "1", **headers: Any) -> None:
        """Subscribe and wait for the receipt."""
        with self.receipt() as receipt:
            self.connection.subscribe(destination, id=subscription, ack=ack, headers={"receipt": receipt, **headers})

    def unsubscribe(self, subscription: str = "1", **headers: Any) -> None:
        """End a subscription and wait for the receipt."""
        with self.receipt() as receipt:
            self.connection.unsubscribe(id=subscription, headers={"receipt": receipt, **headers})

    def ack(self, message: Received, transaction: str | None = None) -> None:
        self._settle(self.connection.ack, message, transaction)

    def nack(self, message: Received, transaction: str | None = None, **headers: Any) -> None:
        self._settle(self.connection.nack, message, transaction, **headers)

    def _settle(self, settle: Any, message: Received, transaction: str | None, **asked: Any) -> None:
        headers = message.headers
        with self.receipt() as receipt:
            if self.version == "1.2":
                settle(headers["ack"], transaction=transaction, receipt=receipt, **asked)
            elif self.version == "1.1":
                settle(
                    headers["message-id"], headers["subscription"], transaction=transaction, receipt=receipt, **asked
                )
            else:
                settle(headers["message-id"], transaction=transaction, receipt=receipt, **asked)

    @contextlib.contextmanager
    def receipt(self) -> Iterator[str]:
        """Yield a receipt id for one frame; wait for the receipt at the end."""
        wanted = f"receipt-{next(_receipts)}"
        yield wanted
        try:
            got = self.inbox.receipts.get(timeout=LIMIT_S)
        except queue.Empty:
            raise AssertionError(
                f"no RECEIPT within {LIMIT_S:.0f} s; errors: {list(self.inbox.errors.queue)}"
            ) from None
        assert got == wanted, f"receipt {got} instead of {wanted}"

    def message(self) -> Received:
        """Return the next message."""
        try:
            return self.inbox.messages.get(timeout=LIMIT_S)
        except queue.Empty:
            raise AssertionError(
                f"no MESSAGE within {LIMIT_S:.0f} s; errors: {list(self.inbox.errors.queue)}"
            ) from None

    def bodies(self, count: int) -> list[Any]:
        """Return the bodies of the next ``count`` messages."""
        return [self.message().body for _ in range(count)]

    def error(self) -> Received:
        """Return the next ERROR."""
        try:
            return self.inbox.errors.get(timeout=LIMIT_S)
        except queue.Empty:
            raise AssertionError(f"no ERROR within {LIMIT_S:.0f} s") from None

    def nothing_came(self) -> bool:
        """Say whether no message is waiting: exact only after a later frame of the gateway, such as a receipt."""
        return self.inbox.messages.empty()

    def close(self) -> None:
        """Disconnect in order and wait for the end."""
        if self.connection.is_connected():
            # After an ERROR the gateway may close the socket between the check and the frame.
            with contextlib.suppress(NotConnectedException):
                self.connection.disconnect()
            self.inbox.disconnects.get(timeout=LIMIT_S)

    def drop(self) -> None:
        """Cut the connection without a frame."""
        self.connection.transport.disconnect_socket()
        self.inbox.disconnects.get(timeout=LIMIT_S)

    def end_thread(self) -> None:
        """Cut the connection if it is still there, and wait for the end of its thread."""
        transport = self.connection.transport
        if transport.io_thread is not None and transport.io_thread.is_alive():
            transport.disconnect_socket()
            transport.io_thread.join(LIMIT_S)
            assert not transport.io_thread.is_alive(), "the thread of a stomp.py connection goes on"
