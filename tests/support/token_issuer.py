"""An issuer of JSON web tokens for tests: its keys, its tokens, and a web server that publishes the keys."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt import api_jws
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER: Final = "https://login.example"
AUDIENCE: Final = "penstock"
LIFETIME_S: Final = 600.0

PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey

RSA_KEY: Final = rsa.generate_private_key(65537, 2048)  # takes long


class Issuer:
    """keys: private ones, by their ids.  name: its claim ``iss``."""

    def __init__(self, name: str = ISSUER) -> None:
        self.name = name
        self.keys: dict[str, PrivateKey] = {"one": ec.generate_private_key(ec.SECP256R1())}

    def claims(self, user: str = "ann", groups: Iterable[str] = (), **more: Any) -> dict[str, Any]:
        """more: other claims; None leaves one out."""
        now_s = int(time.time())
        claims = {
            **{"iss": self.name, "aud": AUDIENCE, "sub": user, "groups": list(groups)},
            **{"iat": now_s, "exp": now_s + LIFETIME_S, **more},
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, user: str = "ann", groups: Iterable[str] = (), key_id: str = "one", **more: Any) -> str:
        return self.signed(self.claims(user, groups, **more), {"kid": key_id}, self.keys[key_id])

    def signed(self, claims: dict[str, Any], header: dict[str, Any], key: PrivateKey, algorithm: str = "") -> str:
        # Not jwt.encode: that refuses some of the wrong claims.
        return str(api_jws.encode(json.dumps(claims).encode(), key, algorithm or _algorithm(key), header))

    def documents(self) -> list[dict[str, Any]]:
        """Return the public keys as JWKs."""
        return [{**public_jwk(key), "kid": key_id, "use": "sig"} for key_id, key in self.keys.items()]

    def jwks(self) -> bytes:
        return json.dumps({"keys": self.documents()}).encode()


def configured_keys(issuer: Issuer, directory: Path) -> str:
    """Return a configuration that takes the issuer's tokens; its keys are in a file."""
    keys = directory / "keys.json"
    keys.write_bytes(issuer.jwks())
    return f'security: {{jwt: {{issuer: "{issuer.name}", audience: {AUDIENCE}, keys: "{keys}"}}}}\n'


def public_jwk(key: PrivateKey) -> dict[str, Any]:
    if isinstance(key, rsa.RSAPrivateKey):
        return dict(RSAAlgorithm.to_jwk(key.public_key(), as_dict=True))
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return dict(ECAlgorithm.to_jwk(key.public_key(), as_dict=True))
    return dict(OKPAlgorithm.to_jwk(key.public_key(), as_dict=True))


def part(value: object) -> str:
    """Return a part of a token that is made by hand."""
    octets = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def _algorithm(key: PrivateKey) -> str:
    if isinstance(key, rsa.RSAPrivateKey):
        return "RS256"
    return "ES256" if isinstance(key, ec.EllipticCurvePrivateKey) else "EdDSA"


class KeyServer(ThreadingHTTPServer):
    """pages: by their paths: status, body, headers.  asked: the paths of all requests.  gate: answers wait for it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pages: dict[str, tuple[int, bytes, dict[str, str]]] = {}
        self.asked: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def publish(self, path: str, body: bytes, status: int = 200, **headers: str) -> str:
        """Return the URL of the page."""
        self.pages[path] = status, body, headers
        return self.url + path


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, KeyServer)
        server.asked.append(self.path)
        server.gate.wait()
        status, body, headers = server.pages.get(self.path, (404, b"", {}))
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:
        """Say nothing."""


@contextmanager
def serving_keys() -> Iterator[KeyServer]:
    server = KeyServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()
