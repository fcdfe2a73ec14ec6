"""The STOMP connection of ``send`` and ``receive``: stomp.py, with its callbacks turned into a queue of events.

stomp.py calls listeners on a thread of its own; the command waits on its own thread, so that Ctrl-C works and
nothing is printed from two threads.
"""

from __future__ import annotations

import logging
import queue
import random
import socket
import ssl
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

import stomp
from stomp.exception import InterruptedException, StompException

from config.sources.uri import TLS_SCHEMES, ClientUri, parse_client_uri, subscribe_headers
from gateway.cli.shared.parsers import CommandError, password_of, without_login
from gateway.process import exit_codes

CONNECT_TIME_S = 30.0
DEFAULT_PORT = 61613
UNCONFIRMED_MAX = 1_000  # messages on their way; enough to keep a group commit busy
QUIET_S = 10.0  # without a confirmation, until the user hears where to ask why

Sending = tuple[dict[str, str], bytes]  # headers and body


@dataclass(frozen=True, slots=True)
class Connected:
    pass


@dataclass(frozen=True, slots=True)
class Receipt:
    pass


@dataclass(frozen=True, slots=True)
class Received:
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """An ERROR frame."""

    text: str


@dataclass(frozen=True, slots=True)
class Disconnected:
    pass


Event = Connected | Receipt | Received | Refused | Disconnected


def destination_header(text: str) -> str:
    """Return the STOMP destination of ``text``: a plain name is a queue, like ``queue://N`` and ``/queue/N``."""
    for prefix, header in (("queue://", "/queue/"), ("topic://", "/topic/")):
        if text.startswith(prefix):
            return header + text.removeprefix(prefix)
    return text if text.startswith("/") else f"/queue/{text}"


def uri_of(url: str) -> ClientUri:
    """Return the addresses of a STOMP URL, with its options."""
    try:
        return parse_client_uri(url, ("tcp", "stomp", *TLS_SCHEMES), DEFAULT_PORT)
    except ValueError as error:
        said = f": {error}" if str(error) else ""
        allowed = "tcp://HOST:PORT, tls://HOST:PORT or failover:(tcp://HOST:PORT,...)"
        text = f"--url is {without_login(url)!r}, allowed is {allowed}{said}"
        raise CommandError(text, exit_codes.USAGE) from None


class _Listener(stomp.ConnectionListener):  # type: ignore[misc]  # stomp.py has no types
    """Puts everything into one queue."""

    def __init__(self, events: queue.SimpleQueue[Event]) -> None:
        self._events = events

    def on_connected(self, frame: Any) -> None:
        self._events.put(Connected())

    def on_receipt(self, frame: Any) -> None:
        self._events.put(Receipt())

    def on_message(self, frame: Any) -> None:
        body = frame.body
        self._events.put(Received(frame.headers, body if isinstance(body, bytes) else str(body).encode()))

    def on_error(self, frame: Any) -> None:
        body = frame.body
        text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
        said = frame.headers.get("message", "")
        self._events.put(Refused(": ".join(part for part in (said, text.strip()) if part)))

    def on_disconnected(self) -> None:
        self._events.put(Disconnected())


def _notice_the_end(transport: Any) -> None:
    """Have stomp.py (9.0) end a TLS connection that the gateway has ended: its thread reads on without a rest."""
    receive = transport.receive

    def receive_or_end() -> bytes | None:
        try:
            octets: bytes | None = receive()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, InterruptedException):
            raise
        except Exception:
            transport.running = False
            raise
        if octets == b"":  # None: nothing has come yet
            transport.running = False
        return octets

    transport.receive = receive_or_end


class StompClient:
    """One connection.  Raises CommandError if the gateway is unreachable or refuses."""

    def __init__(self, url: str, user: str | None) -> None:
        # It warns on standard error of errors that we report ourselves.
        logging.getLogger("stomp.py").setLevel(logging.CRITICAL)
        uri = uri_of(url)
        self._url = url
        self._user = user
        self._addresses = [(endpoint.host, endpoint.port) for endpoint in uri.endpoints]
        if uri.is_random:
            random.shuffle(self._addresses)
        # The same for every address: a URI with different options for each address is one for several services.
        self._defaults = uri.endpoints[0].defaults
        self.notes = uri.notes
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._connection = stomp.StompConnection12(
            self._addresses,
            prefer_localhost=False,
            try_loopback_connect=False,
            reconnect_attempts_max=1,
            timeout=CONNECT_TIME_S,
            auto_decode=False,
            auto_content_length=False,
        )
        # Certificates are verified against the system's authorities, or those in the file that SSL_CERT_FILE names.
        self._tls = [(one.host, one.port) for one in uri.endpoints if one.scheme in TLS_SCHEMES]
        if self._tls:
            self._connection.set_ssl(self._tls, ssl_version=ssl.PROTOCOL_TLS_CLIENT)
            _notice_the_end(self._connection.transport)
        self._connection.set_listener("events", _Listener(self._events))

    def connect(self) -> None:
        passcode = password_of(self._user)
        try:
            own = {"client-id": self._defaults.client_id} if self._defaults.client_id else {}
            self._connection.connect(self._user, passcode, wait=False, headers=own)
        except (StompException, OSError):
            raise CommandError(f"cannot reach {self._url}: {self._why()}", exit_codes.UNREACHABLE) from None
        event = self.next_event(CONNECT_TIME_S)
        if isinstance(event, Connected):
            return
        if isinstance(event, Refused):
            raise CommandError(f"{self._url} refused: {event.text}", exit_codes.UNREACHABLE)
        raise CommandError(f"{self._url} does not answer as a STOMP server", exit_codes.UNREACHABLE)

    def next_event(self, timeout_s: float | None) -> Event | None:
        """Return the next event, None after ``timeout_s`` seconds without one.  timeout_s: None waits for ever."""
        try:
            return self._events.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def send(self, destination: str, body: bytes, headers: Mapping[str, str]) -> None:
        self._do(lambda: self._connection.send(destination, body, headers=dict(headers)))

    def subscribe(self, destination: str, subscription_id: str, ack: str, headers: Mapping[str, str]) -> None:
        asked = {**subscribe_headers(self._defaults, destination.startswith("/topic/")), **headers}
        self._do(lambda: self._connection.subscribe(destination, subscription_id, ack, headers=asked))

    def acknowledge(self, ack_id: str) -> None:
        self._do(lambda: self._connection.ack(ack_id))

    def disconnect(self) -> None:
        """Disconnect: once this has returned, everything sent before it has been processed."""
        try:
            self._connection.disconnect("disconnect")
        except (StompException, OSError):
            return  # it is gone already; callers that need the reason have it

    def raise_failure(self, event: Event) -> None:
        """Raise CommandError if ``event`` is the end of the connection."""
        if isinstance(event, Refused):
            raise CommandError(event.text, exit_codes.FAILED)
        if isinstance(event, Disconnected):
            raise CommandError(f"lost the connection to {self._url}", exit_codes.UNREACHABLE)

    def _why(self) -> str:
        """Return the system's error for the address, which stomp.py does not show."""
        address = self._addresses[0]
        try:
            with socket.create_connection(address, CONNECT_TIME_S) as plain:
                if address in self._tls:
                    ssl.create_default_context().wrap_socket(plain, server_hostname=address[0]).close()
        except ssl.SSLCertVerificationError as error:
            return f"its certificate is not trusted: {error.verify_message}"
        except OSError as error:
            return error.strerror or str(error)
        return "the connection was closed at once"

    def _do(self, action: Any) -> None:
        try:
            action()
        except (StompException, OSError):
            # The reason, if the gateway gave one, is among the events.
            while (event := self.next_event(1.0)) is not None:
                self.raise_failure(event)
            raise CommandError(f"lost the connection to {self._url}", exit_codes.UNREACHABLE) from None


@dataclass(slots=True, eq=False)
class Sender:
    """Sends at a rate, 0 for no limit, with a limited number of unconfirmed messages."""

    _client: StompClient
    _destination: str
    _rate: float = 0.0
    _quiet_s: float | None = QUIET_S  # None once the user has heard
    sent_count: int = 0
    confirmed_count: int = 0

    def send_all(self, messages: Iterable[Sending]) -> None:
        """Send and wait until each message is confirmed.  Raises: CommandError."""
        started_s = monotonic()
        for headers, body in messages:
            self._take_receipts_until(started_s + self.sent_count / self._rate if self._rate else 0.0)
            self.sent_count += 1
            self._client.send(self._destination, body, headers | {"receipt": str(self.sent_count)})
            self._take_receipts(self.sent_count - UNCONFIRMED_MAX)
        self._take_receipts(self.sent_count)

    def _take_receipts_until(self, when_s: float) -> None:
        """Take the confirmations that have come, or come until then."""
        while (event := self._client.next_event(max(0.0, when_s - monotonic()))) is not None:
            self._take(event)

    def _take_receipts(self, until_count: int) -> None:
        while self.confirmed_count < until_count:
            event = self._client.next_event(self._quiet_s)
            if event is not None:
                self._take(event)
            elif self._quiet_s is not None:
                text = f"no confirmation for {self._quiet_s:g} s; 'penstock stat' says what producers wait for"
                print(f"penstock: {text}", file=sys.stderr)
                self._quiet_s = None

    def _take(self, event: Event) -> None:
        self._client.raise_failure(event)
        self.confirmed_count += 1  # one receipt for each message: anything else answers no frame of ours
