"""Logins: passwords checked for users of the configuration or by a directory, tokens, certificates.

No listener is open to the network where logins are not checked.
"""

from __future__ import annotations

import asyncio
import base64
import math
import os
from collections import ChainMap
from collections.abc import Mapping
from time import time
from typing import Final

from config.exposure import refuse_open_listeners
from config.model import ServerConfig
from config.permissions import PermissionMap
from gateway.logins.configured import directory_of, tokens_of
from gateway.logins.login_queue import LoginQueue
from gateway.logins.users import ConfiguredUsers
from gateway.process.counters import GatewayCounters
from protocols.amqp.sasl import OAUTHBEARER, XOAUTH2, Credentials, ScramVerifier
from protocols.peer_socket import LoggedIn

NONCE_BYTES: Final = 18
EXTERNAL_KEPT: Final = 10_000  # users of tokens whose groups are known; the one who was seen longest ago is forgotten

DIRECTORY_PLACES: Final = 1_024  # different passwords that wait for the directory, of all addresses
DIRECTORY_PLACES_PER_ADDRESS: Final = 512
DIRECTORY_WAIT_MOST_S: Final = 30.0


class LoginCheck(Credentials):
    """Checks credentials; safe to call from several threads.

    users, permissions: of the configuration.
    passwords: those that wait for ``check``.  wrong_tokens: tokens whose refusal waits, as that of a password would.
    directory_logins: passwords that wait for the directory.  groups: of users, by login.
    tokens, directory: the checks of JWTs and by a directory, if there are any.
    known_groups: also those of the last token of other users, for what is done on their behalf while they are away.
    Raises: ConfigError for a listener that would be open to the network without logins, and for unusable files.
    """

    def __init__(self, config: ServerConfig, counters: GatewayCounters | None = None) -> None:
        refuse_open_listeners(config)
        self.users = ConfiguredUsers()
        self.groups: dict[str, frozenset[str]] = {}
        self._external: dict[str, frozenset[str]] = {}
        self.known_groups: Mapping[str, frozenset[str]] = ChainMap(self.groups, self._external)
        counters = counters or GatewayCounters()
        self.tokens = tokens_of(config, counters)
        self.directory = directory_of(config)
        self._is_reading = False  # groups of a user in the directory
        self.adopt(config)
        self.passwords = LoginQueue(self.check, counters)
        # A queue of its own: the name in a wrong token is nobody's, and delays no password.
        self.wrong_tokens = LoginQueue(self.check, counters)
        # A queue of its own: a directory that does not answer keeps no other passwords waiting.  A fleet behind one
        # address has a user for each client, and a question takes no processor here, so more may wait than elsewhere.
        self.directory_logins = LoginQueue(
            self._is_right_in_directory,
            counters,
            DIRECTORY_PLACES,
            DIRECTORY_PLACES_PER_ADDRESS,
            DIRECTORY_WAIT_MOST_S,
        )

    def adopt(self, config: ServerConfig) -> None:
        """Take over users, groups and permissions; passwords of changed users are checked anew."""
        self.users.adopt(config)
        self.permissions = PermissionMap(config.permissions)
        self.groups.clear()
        self.groups.update(config.groups)
        for login in config.users:
            self._external.pop(login, None)

    def tick(self) -> None:
        """Look after keys and connections to the directory; called each second."""
        if self.tokens is not None:
            self.tokens.source.check()
        if self.directory is not None:
            self.directory.tick()

    def refresh(self) -> None:
        """Read the keys of tokens again: the configuration is read again."""
        if self.tokens is not None:
            self.tokens.source.refresh()

    @property
    def is_required(self) -> bool:
        """Say whether credentials are checked; if not, any are accepted, and none."""
        return bool(self.users) or self.tokens is not None or self.directory is not None

    def user_named(self, name: str) -> str:
        """Return the user in a verified certificate, "" for none."""
        return name if name in self.users or not self.is_required else ""

    async def log_in(self, address: str, login: str, passcode: str) -> LoggedIn | None:
        """Return the user of credentials once they were checked; None for wrong ones, or if too many wait.

        A token says itself who its user is; ``login`` has no meaning then.  Cancel it when the client has gone.
        """
        tokens = self.tokens
        if tokens is None or not tokens.is_meant(passcode):
            if self.directory is not None and login not in self.users:
                is_right = await self.directory_logins.check(address, login, passcode)
                return self.remembered(login, passcode) if is_right else None
            is_right = await self.passwords.check(address, login, passcode)
            return LoggedIn(login, self.groups_of(login)) if is_right and self._is_there(login) else None
        await tokens.look_for_key(passcode)
        found = await tokens.checked(passcode)
        if found is not None and found.user not in self.users:
            # The check is cheap, and nobody guesses a signature: a right token waits for no wrong ones.
            return self.remembered("", passcode)
        await self.wrong_tokens.proved(address, tokens.claimed_user(passcode), False)
        return None

    async def log_in_proved(self, address: str, login: str, is_right: bool) -> LoggedIn | None:
        """Do the same for a login whose proof was checked."""
        is_right = await self.passwords.proved(address, login, is_right and self._is_there(login))
        return LoggedIn(login, self.groups_of(login)) if is_right and self._is_there(login) else None

    def remembered(self, login: str, passcode: str) -> LoggedIn | None:
        """Return the user of credentials if they need no check (any more); does not block."""
        tokens = self.tokens
        if tokens is not None and tokens.is_meant(passcode):
            found = tokens.known(passcode)
        elif self.directory is not None and login not in self.users:
            found = self.directory.known(login, passcode)
        else:
            return LoggedIn(login, self.groups_of(login)) if self.users.remembers(login, passcode) else None
        if found is None or found.user in self.users:
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
        if found is not None and found.user not in self.users:
            self._note_groups(found)
        return found, is_said

    def _has_read(self, reading: object) -> None:
        self._is_reading = False

    def counts_as(self, user: LoggedIn) -> LoggedIn | None:
        """Return a user who has logged in with the groups of now; None for one who could not log in so any more.

        That is a user who was removed, or is one of the configuration now, or whose token has ended.
        """
        if user.is_external:
            has_ended = user.ends_s is not None and time() >= user.ends_s
            return None if has_ended or user.user in self.users else user
        return LoggedIn(user.user, self.groups_of(user.user)) if self._is_there(user.user) else None

    def refusal(self, passcode: str) -> str:
        """Return why a token was refused; "" for a password, and if that is not known."""
        if self.tokens is None or not self.tokens.is_meant(passcode):
            return ""
        if self.tokens.known(passcode) is not None:
            return "its user is one of the configuration, who has a password"
        return self.tokens.refusal(passcode)

    def is_token(self, passcode: str) -> bool:
        """Say whether a password is a token, of ours or of an issuer."""
        return bool(self.users.login_of_token(passcode)) or (self.tokens is not None and self.tokens.is_meant(passcode))

    def check(self, login: str, passcode: str) -> bool:
        """Say whether ``login`` may connect with ``passcode``.  Blocks: for a worker thread."""
        return not self.is_required or self.users.check(login, passcode)

    def _is_right_in_directory(self, login: str, passcode: str) -> bool:
        assert self.directory is not None, "it has the queue"
        found = self.directory.check(login, passcode)
        return found is not None and found.user not in self.users

    def scram_mechanisms(self) -> tuple[str, ...]:
        """Return none with a directory: it checks passwords, not proofs, and clients prefer SCRAM to PLAIN."""
        return self.users.scram_mechanisms() if self.directory is None else ()

    def token_mechanisms(self) -> tuple[str, ...]:
        return () if self.tokens is None else (OAUTHBEARER, XOAUTH2)

    def scram(self, mechanism: str, login: str) -> ScramVerifier:
        return self.users.scram(mechanism, login)

    def nonce(self) -> str:
        return base64.b64encode(os.urandom(NONCE_BYTES)).decode("ascii")

    def groups_of(self, login: str) -> frozenset[str]:
        """Return the groups of a user; none where logins are not checked."""
        return self.groups.get(login, frozenset()) if self.is_required else frozenset()

    def _is_there(self, login: str) -> bool:
        """Say whether a user may still log in: a reload may have removed it while its login waited."""
        return login in self.users or not self.is_required
