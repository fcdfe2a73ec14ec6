"""Users of the configuration: their passwords, which SCRAM verifiers check (config.scram), and their access tokens.

``login_check`` checks each login and asks here, or a directory or the checks of JWTs.
The iterations of one check take tens of milliseconds, so ``check`` belongs on a worker thread.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
from time import time
from typing import Final

from config.access_tokens import PREFIX, AccessToken, digest_of
from config.model import ServerConfig
from config.scram import DEFAULT_ITERATIONS, MECHANISMS, SALT_BYTES, Verifier
from protocols.amqp.sasl import ScramVerifier

REMEMBERED_MAX: Final = 1_000

# Longer ones are refused unread, so that no client makes us hash megabytes.
LOGIN_MAX_CHARACTERS: Final = 255
PASSCODE_MAX_CHARACTERS: Final = 4_096


class ConfiguredUsers:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._users: dict[str, tuple[Verifier, ...]] = {}
        self._decoys: list[Verifier] = []
        self._tokens: dict[str, tuple[str, AccessToken]] = {}  # by digest, with the login
        self._secret = os.urandom(32)
        self._remembered: dict[tuple[str, bytes], None] = {}
        self._lock = threading.Lock()

    def adopt(self, config: ServerConfig) -> None:
        """Take over the users; passwords of changed ones are checked anew."""
        before = self._users
        users = {login: tuple(Verifier.parse(text) for text in verifiers) for login, verifiers in config.users.items()}
        with self._lock:
            self._users = users
            self._remembered = {key: None for key in self._remembered if users.get(key[0]) == before.get(key[0])}
        tokens = ((login, AccessToken.parse(text)) for login, texts in config.access_tokens.items() for text in texts)
        self._tokens = {token.digest: (login, token) for login, token in tokens if login in users}
        # The verifier of unknown users: parameters like those of real users, keys that no password fits.
        self._decoys = [
            Verifier(own[0].mechanism, own[0].iterations, os.urandom(SALT_BYTES), b"", b"") for own in users.values()
        ]

    def __len__(self) -> int:
        return len(self._users)

    def __contains__(self, login: str) -> bool:
        return login in self._users

    def verifiers_of(self, login: str) -> tuple[Verifier, ...] | None:
        """Return those of a user's password; None for an unknown user."""
        return self._users.get(login)

    def check(self, login: str, passcode: str) -> bool:
        """Say whether ``passcode`` is the password of ``login``, and remember it.  Blocks: for a worker thread.

        An unknown user costs the same work as a known one.
        """
        if self.remembers(login, passcode):
            return True
        if not self._users or len(login) > LOGIN_MAX_CHARACTERS or len(passcode) > PASSCODE_MAX_CHARACTERS:
            return False
        # All verifiers of a user have one password, so the first decides.
        known = self._users.get(login)
        verifier = known[0] if known is not None else self._decoy(login)
        if not verifier.proves(passcode):
            return False
        with self._lock:
            if self._users.get(login) == known:
                self.remember(login, passcode)
                return True
        return self.check(login, passcode)  # the user was changed meanwhile

    def remembers(self, login: str, passcode: str) -> bool:
        """Say whether exactly these credentials were checked and found right, or are a token; does not block.

        So a storm of reconnecting clients costs one HMAC each.
        """
        if len(passcode) > PASSCODE_MAX_CHARACTERS:
            return False
        if login and self.login_of_token(passcode) == login:
            return True
        return self._key(login, passcode) in self._remembered

    def login_of_token(self, text: str) -> str:
        """Return whose access token this is; "" if it is none, or has ended."""
        if not text.startswith(PREFIX) or len(text) > PASSCODE_MAX_CHARACTERS:
            return ""
        login, token = self._tokens.get(digest_of(text), ("", None))
        return login if token is not None and (token.ends_s is None or time() < token.ends_s) else ""

    def scram_mechanisms(self) -> tuple[str, ...]:
        """Return the mechanisms for which every user has a verifier, the strongest first; none without users."""
        return tuple(
            mechanism
            for mechanism in reversed(MECHANISMS)
            if self._users and all(any(one.mechanism == mechanism for one in own) for own in self._users.values())
        )

    def scram(self, mechanism: str, login: str) -> ScramVerifier:
        """Return the verifier of a user; an unknown user gets one that looks the same and that no password fits."""
        for one in self._users.get(login, ()):
            if one.mechanism == mechanism:
                return ScramVerifier(one.salt, one.iterations, one.stored_key, one.server_key)
        # An unknown user always has the same salt, too, and random keys.
        digest = hmac.digest(self._secret, f"{mechanism} {login}".encode("utf-8", "surrogatepass"), "sha512")
        size = hashlib.new(MECHANISMS[mechanism]).digest_size
        iterations = next(
            (one.iterations for own in self._users.values() for one in own if one.mechanism == mechanism),
            DEFAULT_ITERATIONS,
        )
        return ScramVerifier(digest[:SALT_BYTES], iterations, os.urandom(size), os.urandom(size))

    def remember(self, login: str, passcode: str) -> None:
        """Accept these credentials from now on without a check; the oldest are forgotten first.

        The caller holds ``_lock``, unless nothing else can change the users meanwhile.
        """
        if len(self._remembered) >= REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[self._key(login, passcode)] = None

    def _key(self, login: str, passcode: str) -> tuple[str, bytes]:
        # Keyed with a secret of this process: the remembered values are of no use in a memory dump.
        return login, hmac.digest(self._secret, passcode.encode("utf-8", "surrogatepass"), "sha256")

    def _decoy(self, login: str) -> Verifier:
        """Choose the parameters by the name, so that one unknown name always costs the same."""
        digest = hmac.digest(self._secret, login.encode("utf-8", "surrogatepass"), "sha256")
        return self._decoys[int.from_bytes(digest[:8], "big") % len(self._decoys)]
