"""CONNECT and CONNECTED: version, heart-beats, identities.  Source: STOMP 1.2, "Connecting" and "Heart-beating"."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from config.model import ConnectionDefaults
from protocols.errors import UnsupportedVersion
from protocols.peer_socket import PeerSocket
from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.frames import CONNECT, CONNECTED, NAMES, STOMP, Frame
from protocols.stomp.codec.versions import VERSION_1_0, VERSION_NAMES, VERSIONS
from protocols.stomp.errors import InvalidHeader, UnexpectedFrame
from protocols.stomp.mapping.connect_options import connection_defaults
from protocols.stomp.session.settings import SessionSettings

HEART_BEAT_LEAST_MS: Final = 500  # a client that asks for a shorter interval gets this one: thousands may ask
HEART_BEAT_MOST_MS: Final = 2**31 - 1


@dataclass(slots=True, eq=False)
class Terms:
    """The agreed terms of one connection.

    receive_ms: the client sends something at least this often; send_ms: we do; 0 for no heart-beats.
    defaults: for all its subscriptions.
    """

    version: int = VERSION_1_0
    receive_ms: int = 0
    send_ms: int = 0
    login: str = ""
    passcode: str = ""
    client_id: str = ""
    defaults: ConnectionDefaults = field(default_factory=ConnectionDefaults)


@dataclass(slots=True, eq=False)
class Handshake:
    """terms: one object, shared by all that use them; before CONNECT it has the initial terms.

    frame: the CONNECT that is not answered yet.  has_proved_login: a certificate has proved the login.
    """

    socket: PeerSocket
    settings: SessionSettings
    terms: Terms = field(default_factory=Terms)
    frame: Frame | None = None
    has_proved_login: bool = False

    def take(self, frame: Frame) -> None:
        """Take the first frame, and set the terms.

        Raises: UnexpectedFrame, UnsupportedVersion, InvalidHeader, InvalidOption.
        """
        if frame.command != CONNECT and frame.command != STOMP:
            name = NAMES[frame.command].decode()
            raise UnexpectedFrame(f"the first frame is {name}; allowed are CONNECT and STOMP")
        headers = frame.head.headers
        settings = self.settings
        terms = self.terms
        negotiate(headers, terms)
        terms.defaults, warnings = connection_defaults(headers, settings.defaults, settings.is_strict)
        terms.client_id = terms.client_id or terms.defaults.client_id
        for warning in warnings:
            self.socket.warn(warning)
        self.frame = frame
        identity = self.socket.identity()
        if identity and not terms.login:
            terms.login = identity
            self.has_proved_login = True

    def answer(self, session: str) -> bytes:
        """Return CONNECTED, after a successful login.  session: a number of the connection."""
        frame = self.frame
        assert frame is not None, "only a CONNECT opens a session"
        self.frame = None
        terms = self.terms
        return encode(CONNECTED, connected_headers(terms, self.settings.server, session, frame), b"", terms.version)


def negotiate(headers: dict[str, str], terms: Terms) -> None:
    """Set the terms that CONNECT's headers ask for.  Raises: UnsupportedVersion, InvalidHeader."""
    terms.version = _version(headers.get("accept-version"))
    can_send_ms, wants_ms = _heart_beat(headers.get("heart-beat", "0,0"))
    # We agree to the client's intervals, as ActiveMQ does.
    terms.receive_ms = max(can_send_ms, HEART_BEAT_LEAST_MS) if can_send_ms else 0
    terms.send_ms = max(wants_ms, HEART_BEAT_LEAST_MS) if wants_ms else 0
    terms.login = headers.get("login", "")
    terms.passcode = headers.get("passcode", "")
    terms.client_id = headers.get("client-id", "")


def connected_headers(terms: Terms, server: str, session: str, request: Frame) -> list[tuple[str, str]]:
    """Return the headers of CONNECTED, the answer to ``request``.

    session: a number of the connection; clients with a client id get that instead, as with ActiveMQ.
    """
    headers = [
        ("version", VERSION_NAMES[terms.version]),
        ("session", terms.client_id or session),
        ("server", server),
        ("heart-beat", f"{terms.send_ms},{terms.receive_ms}"),
    ]
    receipt = None if request.receipt is None else request.receipt.decode()
    request_id = request.head.headers.get("request-id", receipt)
    if request_id is not None:
        headers.append(("response-id", request_id))
        headers.append(("receipt-id", receipt or request_id))
    return headers


def _version(accepted: str | None) -> int:
    if accepted is None:
        return VERSION_1_0
    common = [VERSIONS[name.strip()] for name in accepted.split(",") if name.strip() in VERSIONS]
    if not common:
        raise UnsupportedVersion(f"accept-version is {accepted[:80]!r}; supported are {', '.join(VERSIONS)}")
    return max(common)


def _heart_beat(text: str) -> tuple[int, int]:
    first, comma, second = text.partition(",")
    parts = (first.strip(), second.strip())
    if comma and all(part.isascii() and part.isdigit() and len(part) <= 10 for part in parts):
        intervals = (int(parts[0]), int(parts[1]))
        if max(intervals) <= HEART_BEAT_MOST_MS:
            return intervals
    raise InvalidHeader(
        f"heart-beat is {text[:80]!r}; allowed are two whole numbers of milliseconds up to {HEART_BEAT_MOST_MS}, "
        "as in 10000,10000"
    )
