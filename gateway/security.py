"""Who may connect: passwords against SCRAM verifiers, and no open listener without users.

A verifier proves a password without holding it, in the text form of RFC 5803 with the mechanism in front:
``SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`` (salt and keys in base64).  One check costs as much as
the iterations ask for, tens of milliseconds: ``check`` belongs on a worker thread.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import os
import threading
from dataclasses import dataclass
from typing import Final

from config.errors import ConfigError, Problem
from config.model import Endpoint, ServerConfig

# Mechanism -> hash.  The order is that of ``hash_password``'s output.
MECHANISMS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
DEFAULT_ITERATIONS: Final = 100_000
SALT_BYTES: Final = 16
REMEMBERED_MAX: Final = 1_000

# Longer ones are refused unread, so that nobody makes us hash megabytes.
LOGIN_MAX_CHARACTERS: Final = 255
PASSCODE_MAX_CHARACTERS: Final = 4_096

# A check keeps a worker thread busy for long; a flood of wrong passwords, whatever the protocol, must not take all.
CONCURRENT_CHECKS_MAX: Final = 2


@dataclass(frozen=True, slots=True)
class Verifier:
    """One parsed verifier."""

    mechanism: str
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def parse(cls, text: str) -> Verifier:
        """Take what ``config.values.Verifier`` has let through."""
        mechanism, parameters, keys = text.split("$")
        iterations, salt = parameters.split(":")
        stored_key, server_key = keys.split(":")
        return cls(
            mechanism,
            int(iterations),
            base64.b64decode(salt),
            base64.b64decode(stored_key),
            base64.b64decode(server_key),
        )

    @classmethod
    def create(cls, mechanism: str, passcode: str, salt: bytes, iterations: int) -> Verifier:
        """RFC 5802, section 3: StoredKey is H(ClientKey), both keys are HMACs keyed with the salted password."""
        hash_name = MECHANISMS[mechanism]
        salted = hashlib.pbkdf2_hmac(hash_name, prepare(passcode), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        stored_key = hashlib.new(hash_name, client_key).digest()
        return cls(mechanism, iterations, salt, stored_key, hmac.digest(salted, b"Server Key", hash_name))

    def __str__(self) -> str:
        salt, stored_key, server_key = (
            base64.b64encode(octets).decode("ascii") for octets in (self.salt, self.stored_key, self.server_key)
        )
        return f"{self.mechanism}${self.iterations}:{salt}${stored_key}:{server_key}"

    def proves(self, passcode: str) -> bool:
        """Say whether ``passcode`` is the password, in a time that does not tell how close it came."""
        candidate = Verifier.create(self.mechanism, passcode, self.salt, self.iterations)
        return hmac.compare_digest(candidate.stored_key, self.stored_key)


def hash_password(passcode: str, iterations: int = DEFAULT_ITERATIONS) -> list[str]:
    """Return a verifier for each mechanism, each with a salt of its own."""
    return [str(Verifier.create(mechanism, passcode, os.urandom(SALT_BYTES), iterations)) for mechanism in MECHANISMS]


def prepare(passcode: str) -> bytes:
    """Normalise a password as SCRAM clients do (SASLprep, RFC 4013); one that it forbids is taken as it is.

    The latter is PostgreSQL's way: a password that was accepted once must stay usable.
    """
    if passcode.isascii() and passcode.isprintable():
        return passcode.encode("ascii")
    from gateway.saslprep import saslprep  # its tables are rarely needed, and slow to load

    prepared = saslprep(passcode)
    return (passcode if prepared is None else prepared).encode("utf-8", "surrogatepass")


class Security:
    """Checks credentials; safe to call from several threads.

    Raises: ConfigError for a listener that would be open to the network without users.
    """

    def __init__(self, config: ServerConfig) -> None:
        refuse_open_listeners(config)
        self._users = {
            login: tuple(Verifier.parse(text) for text in verifiers) for login, verifiers in config.users.items()
        }
        # What an unknown user is checked against: parameters as some real user has them, keys that nothing proves.
        self._decoys = [
            Verifier(own[0].mechanism, own[0].iterations, os.urandom(SALT_BYTES), b"", b"")
            for own in self._users.values()
        ]
        self._secret = os.urandom(32)
        self._remembered: dict[tuple[str, bytes], None] = {}
        self._lock = threading.Lock()
        self._places = asyncio.Semaphore(CONCURRENT_CHECKS_MAX)

    @property
    def is_required(self) -> bool:
        """Say whether credentials are looked at; False takes any, and none."""
        return bool(self._users)

    def check(self, login: str, passcode: str) -> bool:
        """Say whether ``login`` may connect with ``passcode``.  Blocks: for a worker thread.

        An unknown user costs the same work as a known one.
        """
        if not self.is_required or self.remembers(login, passcode):
            return True
        if len(login) > LOGIN_MAX_CHARACTERS or len(passcode) > PASSCODE_MAX_CHARACTERS:
            return False
        # All verifiers of a user are of one password, so the first decides.
        known = self._users.get(login)
        verifier = known[0] if known is not None else self._decoy(login)
        if not verifier.proves(passcode):
            return False
        self.remember(login, passcode)
        return True

    async def check_on_worker(self, login: str, passcode: str) -> bool:
        """Do ``check`` on a worker thread, at most ``CONCURRENT_CHECKS_MAX`` at a time for all listeners together."""
        async with self._places:
            return await asyncio.to_thread(self.check, login, passcode)

    def remember(self, login: str, passcode: str) -> None:
        """Take these credentials as good from now on; the oldest are forgotten first."""
        key = self._key(login, passcode)
        with self._lock:
            if len(self._remembered) >= REMEMBERED_MAX:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[key] = None

    def remembers(self, login: str, passcode: str) -> bool:
        """Say whether exactly this has been checked and found good; does not block.

        Clients that reconnect in a storm are let in by this, at the cost of one HMAC each.
        """
        if len(passcode) > PASSCODE_MAX_CHARACTERS:
            return False
        return self._key(login, passcode) in self._remembered

    def _key(self, login: str, passcode: str) -> tuple[str, bytes]:
        # Keyed with a secret of this process: what is remembered is of no use in a memory dump.
        return login, hmac.digest(self._secret, passcode.encode("utf-8", "surrogatepass"), "sha256")

    def _decoy(self, login: str) -> Verifier:
        """Choose by the name, so that one unknown name always costs the same."""
        digest = hmac.digest(self._secret, login.encode("utf-8", "surrogatepass"), "sha256")
        return self._decoys[int.from_bytes(digest[:8], "big") % len(self._decoys)]


def refuse_open_listeners(config: ServerConfig) -> None:
    """Raises: ConfigError naming each listener that binds more than loopback although nobody has to log in."""
    if config.users:
        return
    problems = [
        _open_listener(config, f"listeners.{name}", endpoint)
        for name, endpoint in (("stomp", config.listeners.stomp), ("http", config.listeners.http))
        if not is_loopback(endpoint.host)
    ]
    if problems:
        raise ConfigError(problems)


def _open_listener(config: ServerConfig, element: str, endpoint: Endpoint) -> Problem:
    source, _, line = config.sources.get(element, "default").rpartition(":")
    if not source:
        source, line = line, "0"
    text = (
        f"{endpoint} is open to the network, and no users are configured; allowed is a loopback address "
        "(127.0.0.1, ::1, localhost), or add users: 'penstock user hash NAME' prints what to add"
    )
    return Problem(source, int(line), element, text)


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach ``host``.  A name but ``localhost`` could become anything."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
