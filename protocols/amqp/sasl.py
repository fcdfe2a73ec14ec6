"""SASL mechanisms, the server's side: PLAIN, ANONYMOUS, EXTERNAL, SCRAM-SHA-256 and -512, OAUTHBEARER, XOAUTH2.

A login is a few steps, and each returns what to do next.  Nothing here hashes a password, which takes tens of
milliseconds: the owner of the users checks PLAIN's password, and SCRAM works on verifiers.
Sources: RFC 4616 (PLAIN), 4505 (ANONYMOUS), 4422 appendix A (EXTERNAL), 5802 and 7677 (SCRAM),
7628 (OAUTHBEARER); XOAUTH2 is what Google's servers took before that (its "SASL XOAUTH2 Mechanism").
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

PLAIN: Final = "PLAIN"
ANONYMOUS: Final = "ANONYMOUS"
EXTERNAL: Final = "EXTERNAL"
OAUTHBEARER: Final = "OAUTHBEARER"
XOAUTH2: Final = "XOAUTH2"
SCRAM_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

RESPONSE_BYTES_MAX: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class ScramVerifier:
    """A verifier: it proves a password without holding it (RFC 5803)."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


class Credentials(ABC):
    """The users' credentials as SASL mechanisms need them."""

    @abstractmethod
    def scram_mechanisms(self) -> tuple[str, ...]:
        """Return the SCRAM mechanisms that every user can log in with, the strongest first."""

    def token_mechanisms(self) -> tuple[str, ...]:
        """Return the mechanisms for bearer tokens, if such are accepted."""
        return ()

    @abstractmethod
    def scram(self, mechanism: str, login: str) -> ScramVerifier:
        """Return the verifier of a user; an unknown user gets one that looks the same and that no password fits."""

    @abstractmethod
    def nonce(self) -> str:
        """Return text that nobody can foresee: printable ASCII without a comma."""


# The results of a step.


@dataclass(frozen=True, slots=True)
class Challenge:
    """Send these octets; the answer goes to ``Login.respond``."""

    octets: bytes


@dataclass(frozen=True, slots=True)
class Check:
    """Check whether this is the user's password.  authorization: the user that it must turn out to be, "" for any."""

    login: str
    passcode: str
    authorization: str = ""


@dataclass(frozen=True, slots=True)
class Success:
    """login: the name of the user, "" for nobody in particular.  octets: sent with the outcome."""

    login: str
    octets: bytes | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """The client has shown whether it knows the user's password.  octets: sent with the outcome if it does."""

    login: str
    is_right: bool
    octets: bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """reason: for our log; the peer learns only that the login failed."""

    reason: str


Step = Challenge | Check | Proof | Success | Failure


@dataclass(slots=True, eq=False)
class Login:
    """One attempt.  mechanisms: those on offer.  identity: the one in the peer's certificate, "" for none."""

    mechanisms: tuple[str, ...]
    credentials: Credentials
    identity: str = ""
    mechanism: str = ""
    scram: _Scram | None = None

    def start(self, mechanism: str, response: bytes | None) -> Step:
        """Take the client's choice, and its initial response if it sent one."""
        if mechanism not in self.mechanisms:
            return Failure(f"mechanism {mechanism[:80]!r} is not offered; offered are {', '.join(self.mechanisms)}")
        self.mechanism = mechanism
        if response is None and mechanism != ANONYMOUS:
            return Challenge(b"")  # the client speaks first in each, so its next octets are its initial response
        return self.respond(response or b"")

    def respond(self, response: bytes) -> Step:
        """Take the next response."""
        if len(response) > RESPONSE_BYTES_MAX:
            return Failure(f"a response of {len(response)} octets; the limit is {RESPONSE_BYTES_MAX}")
        if self.mechanism == PLAIN:
            return _plain(response)
        if self.mechanism == ANONYMOUS:
            return Success("")
        if self.mechanism == EXTERNAL:
            return self._external(response)
        if self.mechanism in (OAUTHBEARER, XOAUTH2):
            return _bearer(self.mechanism, response)
        if self.scram is None:
            self.scram = _Scram(self.mechanism, self.credentials)
            return self.scram.first(response)
        return self.scram.final(response)

    def _external(self, response: bytes) -> Step:
        if not self.identity:
            return Failure("EXTERNAL without a client certificate")
        if response not in (b"", self.identity.encode()):
            return Failure("EXTERNAL with another identity than the certificate's")
        return Success(self.identity)


def _plain(response: bytes) -> Step:
    parts = response.split(b"\0")
    if len(parts) != 3:
        return Failure(f"PLAIN with {len(parts) - 1} NUL octets; it has 2")
    try:
        authorization, login, passcode = (part.decode() for part in parts)
    except UnicodeDecodeError:
        return Failure("PLAIN that is not UTF-8")
    if authorization not in ("", login):
        return Failure("PLAIN has another authorization identity")
    return Check(login, passcode)


def _bearer(mechanism: str, response: bytes) -> Step:
    """Take a token: ``n,a=user,^Aauth=Bearer token^A^A`` or ``user=user^Aauth=Bearer token^A^A``; ^A is the octet 1."""
    try:
        first, *pairs = response.decode().split("\1")
    except UnicodeDecodeError:
        return Failure(f"{mechanism} that is not UTF-8")
    tokens = [pair[5:].partition(" ") for pair in pairs if pair.startswith("auth=")]
    if pairs[-2:] != ["", ""] or len(tokens) != 1 or tokens[0][0].lower() != "bearer":
        return Failure(f"{mechanism} without one auth=Bearer, or without its end")
    token = tokens[0][2].strip()
    if mechanism == XOAUTH2:
        login = first.removeprefix("user=")
        return Check(login, token) if first.startswith("user=") else Failure("XOAUTH2 does not begin with user=")
    binding, _, rest = first.partition(",")
    authorization, _, more = rest.partition(",")
    name = _name(authorization[2:]) if authorization else ""
    if binding not in ("n", "y") or more or name is None or (authorization and authorization[:2] != "a="):
        return Failure("OAUTHBEARER does not begin as in n,a=user,")
    return Check(name, token, name)


class _Scram:
    """The two steps of SCRAM."""

    __slots__ = ("hash_name", "mechanism", "credentials", "login", "verifier", "header", "nonce", "messages")

    def __init__(self, mechanism: str, credentials: Credentials) -> None:
        self.mechanism = mechanism
        self.hash_name = SCRAM_HASHES[mechanism]
        self.credentials = credentials
        self.login = ""
        self.verifier: ScramVerifier | None = None
        self.header = ""  # gs2-header, which the client repeats under its proof
        self.nonce = ""
        self.messages = ""  # client-first-message-bare "," server-first-message

    def first(self, response: bytes) -> Step:
        """Take client-first-message, as in ``n,,n=user,r=nonce``."""
        try:
            text = response.decode()
        except UnicodeDecodeError:
            return Failure("SCRAM that is not UTF-8")
        binding, _, rest = text.partition(",")
        authorization, _, bare = rest.partition(",")
        attributes = bare.split(",")
        # Channel binding (p=) needs a mechanism with -PLUS, and none is offered; m= is for extensions of the future.
        if binding not in ("n", "y") or len(attributes) < 2:
            return Failure("SCRAM's first message is not as in n,,n=user,r=nonce")
        name, nonce = attributes[0], attributes[1]
        login = _name(name[2:])
        if name[:2] != "n=" or nonce[:2] != "r=" or len(nonce) == 2 or login is None:
            return Failure("SCRAM's first message lacks a user or a nonce")
        if authorization and authorization != f"a={name[2:]}":
            return Failure("SCRAM has another authorization identity")
        self.login = login
        self.header = f"{binding},{authorization},"
        self.nonce = nonce[2:] + self.credentials.nonce()
        self.verifier = verifier = self.credentials.scram(self.mechanism, login)
        salt = base64.b64encode(verifier.salt).decode()
        answer = f"r={self.nonce},s={salt},i={verifier.iterations}"
        self.messages = f"{bare},{answer}"
        return Challenge(answer.encode())

    def final(self, response: bytes) -> Step:
        """Take client-final-message, as in ``c=biws,r=nonce,p=proof``."""
        verifier = self.verifier
        if verifier is None:
            return Failure("SCRAM's final message without a first")
        text = response.decode("utf-8", "replace")
        without_proof, separator, encoded_proof = text.rpartition(",p=")
        attributes = without_proof.split(",")
        try:
            proof = base64.b64decode(encoded_proof, validate=True)
        except (binascii.Error, ValueError):
            proof = b""
        binding = "c=" + base64.b64encode(self.header.encode()).decode()
        if not separator or len(attributes) < 2 or attributes[0] != binding or attributes[1] != f"r={self.nonce}":
            return Failure("SCRAM's final message does not match the first")
        message = f"{self.messages},{without_proof}".encode()
        signature = hmac.digest(verifier.stored_key, message, self.hash_name)
        self.verifier = None  # one attempt
        if len(proof) != len(signature):
            return Proof(self.login, False, b"")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self.hash_name, client_key).digest(), verifier.stored_key):
            return Proof(self.login, False, b"")
        server_signature = hmac.digest(verifier.server_key, message, self.hash_name)
        return Proof(self.login, True, b"v=" + base64.b64encode(server_signature))


def _name(text: str) -> str | None:
    """Return a saslname unescaped: =2C is a comma, =3D an equals sign, and no other = is allowed."""
    parts = text.split("=")
    if any(part[:2] not in ("2C", "3D") for part in parts[1:]) or not text:
        return None
    return parts[0] + "".join({"2C": ",", "3D": "="}[part[:2]] + part[2:] for part in parts[1:])
