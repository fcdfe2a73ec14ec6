"""Logins: passwords checked with SCRAM verifiers (config.scram) or by a directory, tokens, certificates.

No listener is open to the network where logins are not checked.

The iterations of one check take tens of milliseconds, so ``check`` belongs on a worker thread.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import math
import os
import ssl
import threading
from collections import ChainMap
from collections.abc import Mapping
from time import time
from typing import Final

from config.access_tokens import PREFIX, AccessToken, digest_of
from config.exposure import refuse_open_listeners
from config.model import ServerConfig
from config.permissions import Action, PermissionMap
from config.scram import DEFAULT_ITERATIONS, MECHANISMS, SALT_BYTES, Verifier
from gateway.connections.login_queue import LoginChecks
from gateway.connections.tls import ServerTls
from gateway.logins.configured import directory_of, tokens_of
from gateway.process.counters import GatewayCounters
from protocols.amqp.sasl import OAUTHBEARER, XOAUTH2, Credentials, ScramVerifier
from protocols.peer_socket import LoggedIn

NONCE_BYTES: Final = 18
REMEMBERED_MAX: Final = 1_000
EXTERNAL_KEPT: Final = 10_000  # users of tokens whose groups are known; the one who was seen longest ago is forgotten

DIRECTORY_PLACES: Final = 1_024  # different passwords that wait for the directory, of all addresses
DIRECTORY_PLACES_PER_ADDRESS: Final = 512
DIRECTORY_WAIT_MOST_S: Final = 30.0

# Longer ones are refused unread, so that no client makes us hash megabytes.
LOGIN_MAX_CHARACTERS: Final = 255
PASSCODE_MAX_CHARACTERS: Final = 4_096


class Security(Credentials):
    """Checks credentials; safe to call from several threads.

    logins: passwords that wait for ``check``.  wrong_tokens: tokens whose refusal waits, as that of a password would.
    directory_logins: passwords that wait for the directory.  groups: of users, by login.
    tokens, directory: the checks of JWTs and by a directory, if there are any.
    known_groups: also those of the last token of other users, for what is done on their behalf while they are away.
    Raises: ConfigError for a listener that would be open to the network without logins, and for unusable files.
    """

    def __init__(self, config: ServerConfig, counters: GatewayCounters | None = None) -> None:
        refuse_open_listeners(config)
        self._users: dict[str, tuple[Verifier, ...]] = {}
        self.tls = ServerTls(config)
        self.groups: dict[str, frozenset[str]] = {}
        self._external: dict[str, frozenset[str]] = {}
        self.known_groups: Mapping[str, frozenset[str]] = ChainMap(self.groups, self._external)
        counters = counters or GatewayCounters()
        self.tokens = tokens_of(config, counters)
        self.directory = directory_of(config)
        self._tokens: dict[str, tuple[str, AccessToken]] = {}  # by digest, with the login
        self._secret = os.urandom(32)
        self._remembered: dict[tuple[str, bytes], None] = {}
        self._lock = threading.Lock()
        self._is_reading = False  # groups of a user in the directory
        self.adopt(config)
        self.logins = LoginChecks(self.check, counters)
        # A queue of its own: the name in a wrong token is nobody's, and delays no password.
        self.wrong_tokens = LoginChecks(self.check, counters)
        # A queue of its own: a directory that does not answer keeps no other passwords waiting.  A fleet behind one
        # address has a user for each client, and a question takes no processor here, so more may wait than elsewhere.
        self.directory_logins = LoginChecks(
            self._is_right_in_directory,
            counters,
            DIRECTORY_PLACES,
            DIRECTORY_PLACES_PER_ADDRESS,
            DIRECTORY_WAIT_MOST_S,
        )

    def adopt(self, config: ServerConfig) -> None:
        """Take over users, groups and permissions; passwords of changed users are checked anew."""
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
        self._permissions = PermissionMap(config.permissions)
        self.groups.clear()
        self.groups.update(config.groups)
        for login in users:
            self._external.pop(login, None)

    def tick(self) -> None:
        """Look after files, keys and connections to the directory; called each second."""
        self.tls.check()
        if self.tokens is not None:
            self.tokens.source.check()
        if self.directory is not None:
            self.directory.tick()

    def refresh(self) -> None:
        """Read the keys of tokens again: the configuration is read again."""
        if self.tokens is not None:
            self.tokens.source.refresh()

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context of the next connection, None without TLS."""
        return self.tls.context

    @property
    def is_required(self) -> bool:
        """Say whether credentials are checked; if not, any are accepted, and none."""
        return bool(self._users) or self.tokens is not None or self.directory is not None

    def verifiers_of(self, login: str) -> tuple[Verifier, ...] | None:
        """Return those of a user's password; None for an unknown user."""
        return self._users.get(login)

    def user_named(self, name: str) -> str:
        """Return the user in a verified certificate, "" for none."""
        return name if name in self._users or not self.is_required else ""

    def may_everywhere(self, groups: frozenset[str], action: Action) -> bool:
        """Say whether a user in these groups has a permission for every destination."""
        return self._permissions.allows_everywhere(action, groups)

    def may(self, groups: frozenset[str], action: Action, kind: int, name: str) -> bool:
        """Say the same for one destination.  kind: QUEUE or TOPIC of config.matching."""
        return self._permissions.allows(action, kind, name, groups)

    async def log_in(self, address: str, login: str, passcode: str) -> LoggedIn | None:
        """Return the user of credentials once they were checked; None for wrong ones, or if too many wait.

        A token says itself who its user is; ``login`` has no meaning then.  Cancel it when the client has gone.
        """
        tokens = self.tokens
        if tokens is None or not tokens.is_meant(passcode):
            if self.directory is not None and login not in self._users:
                is_right = await self.directory_logins.check(address, login, passcode)
                return self.remembered(login, passcode) if is_right else None
            is_right = await self.logins.check(address, login, passcode)
            return LoggedIn(login, self.groups_of(login)) if is_right and self._is_there(login) else None
        await tokens.look_for_key(passcode)
        found = await tokens.checked(passcode)
        if found is not None and found.user not in self._users:
            # The check is cheap, and nobody guesses a signature: a right token waits for no wrong ones.
            return self.remembered("", passcode)
        await self.wrong_tokens.proved(address, tokens.claimed_user(passcode), False)
        return None

    async def log_in_proved(self, address: str, login: str, is_right: bool) -> LoggedIn | None:
        """Do the same for a login whose proof was checked."""
        is_right = await self.logins.proved(address, login, is_right and self._is_there(login))
        return LoggedIn(login, self.groups_of(login)) if is_right and self._is_there(login) else None

    def remembered(self, login: str, passcode: str) -> LoggedIn | None:
        """Return the user of credentials if they need no check (any more); does not block."""
        tokens = self.tokens
        if tokens is not None and tokens.is_meant(passcode):
            found = tokens.known(passcode)
        elif self.directory is not None and login not in self._users:
            found = self.directory.known(login, passcode)
        else:
            return LoggedIn(login, self.groups_of(login)) if self.remembers(login, passcode) else None
        if found is None or found.user in self._users:
            return None
        self._note_groups(found)
        return found

    def _note_groups(self, user: LoggedIn) -> None:
        self._external.pop(user.user, None)
        if len(self._external) >= EXTERNAL_KEPT:
            del self._external[next(iter(self._external))]
        self._external[user.user] = user.groups

    @property
    def groups_last_s(self) -> float:
        """Return how long groups of a directory count; infinity if they cannot be read without a password."""
        directory = self.directory
        return directory.remember_s if directory is not None and directory.can_look_up else math.inf

    async def read_again(self, user: LoggedIn) -> tuple[LoggedIn | None, bool]:
        """Return a user of a directory as it is there now, None if it is gone; False if that could not be asked.

        One user is asked for at a time; meanwhile that is the answer for others.
        """
        directory = self.directory
        if directory is None or not directory.can_look_up or self._is_reading:
            return None, False
        self._is_reading = True
        reading = asyncio.get_running_loop().run_in_executor(None, directory.look_up, user.user)
        reading.add_done_callback(self._has_read)
        found, is_said = await asyncio.shield(reading)
        if found is not None and found.user not in self._users:
            self._note_groups(found)
        return found, is_said

    def _has_read(self, reading: object) -> None:
        self._is_reading = False

    def refusal(self, passcode: str) -> str:
        """Return why a token was refused; "" for a password, and if that is not known."""
        if self.tokens is None or not self.tokens.is_meant(passcode):
            return ""
        if self.tokens.known(passcode) is not None:
            return "its user is one of the configuration, who has a password"
        return self.tokens.refusal(passcode)

    def is_token(self, passcode: str) -> bool:
        """Say whether a password is a token, of ours or of an issuer."""
        return bool(self.login_of_token(passcode)) or (self.tokens is not None and self.tokens.is_meant(passcode))

    def check(self, login: str, passcode: str) -> bool:
        """Say whether ``login`` may connect with ``passcode``.  Blocks: for a worker thread.

        An unknown user costs the same work as a known one.
        """
        if not self.is_required or self.remembers(login, passcode):
            return True
        if not self._users:
            return False
        if len(login) > LOGIN_MAX_CHARACTERS or len(passcode) > PASSCODE_MAX_CHARACTERS:
            return False
        # All verifiers of a user have one password, so the first decides.
        known = self._users.get(login)
        verifier = known[0] if known is not None else self._decoy(login)
        if not verifier.proves(passcode):
            return False
        with self._lock:
            if self._users.get(login) == known:
                self._remember(login, passcode)
                return True
        return self.check(login, passcode)  # the user was changed meanwhile

    def _is_right_in_directory(self, login: str, passcode: str) -> bool:
        assert self.directory is not None, "it has the queue"
        found = self.directory.check(login, passcode)
        return found is not None and found.user not in self._users

    def scram_mechanisms(self) -> tuple[str, ...]:
        """Return the mechanisms for which every user has a verifier, the strongest first; none without users.

        Nor with a directory: it checks passwords, not proofs, and clients prefer SCRAM to PLAIN.
        """
        return tuple(
            mechanism
            for mechanism in reversed(MECHANISMS)
            if self._users
            and self.directory is None
            and all(any(one.mechanism == mechanism for one in own) for own in self._users.values())
        )

    def token_mechanisms(self) -> tuple[str, ...]:
        return () if self.tokens is None else (OAUTHBEARER, XOAUTH2)

    def scram(self, mechanism: str, login: str) -> ScramVerifier:
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

    def nonce(self) -> str:
        return base64.b64encode(os.urandom(NONCE_BYTES)).decode("ascii")

    def remember(self, login: str, passcode: str) -> None:
        """Accept these credentials from now on without a check; the oldest are forgotten first."""
        with self._lock:
            self._remember(login, passcode)

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

    def groups_of(self, login: str) -> frozenset[str]:
        """Return the groups of a user; none where logins are not checked."""
        return self.groups.get(login, frozenset()) if self.is_required else frozenset()

    def _is_there(self, login: str) -> bool:
        """Say whether a user may still log in: a reload may have removed it while its login waited."""
        return login in self._users or not self.is_required

    def _remember(self, login: str, passcode: str) -> None:
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
