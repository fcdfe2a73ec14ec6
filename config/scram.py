"""SCRAM verifiers, which prove a password without containing it.

The text form is that of RFC 5803 with the mechanism in front:
``SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`` (salt and keys in base64).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from dataclasses import dataclass
from typing import Final

# Mechanism -> hash.  The order is that of ``hash_password``'s output.
MECHANISMS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
DEFAULT_ITERATIONS: Final = 100_000
# The least that RFC 7677 allows: for passwords that are in a file in plain text anyway, used in this process only.
LEAST_ITERATIONS: Final = 4_096
SALT_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Verifier:
    mechanism: str
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def parse(cls, text: str) -> Verifier:
        """Parse a text that ``config.values.Verifier`` has accepted."""
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
        """Say whether ``passcode`` is the password, in constant time."""
        candidate = Verifier.create(self.mechanism, passcode, self.salt, self.iterations)
        return hmac.compare_digest(candidate.stored_key, self.stored_key)


def hash_password(passcode: str, iterations: int = DEFAULT_ITERATIONS, secret: bytes = b"") -> list[str]:
    """Return a verifier for each mechanism, each with a salt of its own.

    secret: with it the same password has the same verifiers again.
    """
    return [
        str(Verifier.create(mechanism, passcode, _salt(secret, mechanism, passcode), iterations))
        for mechanism in MECHANISMS
    ]


def _salt(secret: bytes, mechanism: str, passcode: str) -> bytes:
    if not secret:
        return os.urandom(SALT_BYTES)
    return hmac.digest(secret, f"{mechanism} {passcode}".encode("utf-8", "surrogatepass"), "sha256")[:SALT_BYTES]


def prepare(passcode: str) -> bytes:
    """Normalise a password as SCRAM clients do (SASLprep, RFC 4013); a password that it forbids is not changed.

    The latter is as in PostgreSQL: a password that was accepted once must stay usable.
    """
    if passcode.isascii() and passcode.isprintable():
        return passcode.encode("ascii")
    from config.saslprep import saslprep  # its tables are rarely needed and slow to load

    prepared = saslprep(passcode)
    return (passcode if prepared is None else prepared).encode("utf-8", "surrogatepass")
