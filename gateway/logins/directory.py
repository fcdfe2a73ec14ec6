"""A directory (LDAP) that knows users, their passwords and their groups.

The gateway asks as the user (a simple bind), so it never sees a password that is stored.  What a client has written is
escaped wherever it becomes part of a name (RFC 4514) or of a filter (RFC 4515).  A bind without a password succeeds
with any name (RFC 4513, 5.1.2), so none is ever sent.  Referrals are not followed: they would take passwords elsewhere.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import math
import os
import re
import socket
import ssl
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it uses old names of pyasn1
    import ldap3
    from ldap3.core import results
    from ldap3.core.exceptions import LDAPException, LDAPSASLPrepError
    from ldap3.protocol.sasl.sasl import validate_simple_password
    from ldap3.utils.conv import escape_filter_chars
    from ldap3.utils.dn import escape_rdn, parse_dn
    from pyasn1.error import PyAsn1Error

from config.login_servers import LdapConfig
from engine.values.errors import DATA_FAULTS
from gateway.logins.metered_socket import endpoint_of, metered
from gateway.logins.names import is_name
from protocols.peer_socket import LoggedIn

PASSCODE_MAX_CHARACTERS: Final = 4_096
PASSWORD_FILE_BYTES_MAX: Final = 4_096
GROUPS_MAX: Final = 1_000  # of a user; further ones are left out
STEPS_MOST: Final = 10  # times ``security.ldap.time``: for all that one connection does
KEPT: Final = 1_000  # passwords that were found right; the oldest are forgotten first
ANY: Final = "(objectClass=*)"
SAID_LEAST_S: Final = 30.0  # between two lines of the log about a directory that cannot be asked
NO_ANSWER: Final = (
    results.RESULT_OPERATIONS_ERROR,
    results.RESULT_TIME_LIMIT_EXCEEDED,
    results.RESULT_BUSY,
    results.RESULT_UNAVAILABLE,
    results.RESULT_OTHER,
)
# What a directory, or an answer that is none, makes the library raise.
_FAULTS: Final = (LDAPException, PyAsn1Error, OSError, *DATA_FAULTS)

log: Final = logging.getLogger("penstock.security")


class WrongName(Exception):
    """A setting is no distinguished name.  key: of the setting."""

    def __init__(self, key: str, name: str) -> None:
        super().__init__(f"{name!r} is no distinguished name as in ou=people,dc=example,dc=org")
        self.key = key


class Directory:
    """Checks passwords by binding; ``check`` blocks and is for a worker thread.

    server: the one of the configuration unless given.  strategy: of its connections.  clock: seconds, monotonic.
    remember_s: how long what it has said of a user counts.
    Raises: WrongName; OSError for an unusable ``ca``.
    """

    def __init__(
        self,
        config: LdapConfig,
        server: Any = None,
        strategy: str = ldap3.SYNC,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        _require_names(config)
        self._config = config
        self.remember_s = config.remember_ms / 1_000
        self._time_s = math.ceil(config.time_ms / 1_000)  # the library takes whole seconds
        self._server = _server(config) if server is None else server
        self._strategy = strategy
        self._clock = clock
        self._secret = os.urandom(32)
        self._lock = threading.Lock()
        self._known: dict[bytes, tuple[LoggedIn, float]] = {}
        self._silent_until_s = float("-inf")
        self._open: dict[int, tuple[Any, float]] = {}  # connections, and until when they may stay

    def known(self, login: str, passcode: str) -> LoggedIn | None:
        """Return the user of a password that was found right not long ago; does not block."""
        found = self._known.get(self._key(login, passcode))
        return found[0] if found is not None and self._clock() < found[1] else None

    def check(self, login: str, passcode: str) -> LoggedIn | None:
        """Return the user, None for a wrong password, an unknown user, or if the directory cannot be asked."""
        if len(passcode) > PASSCODE_MAX_CHARACTERS or not is_name(login) or not _can_be_sent(passcode):
            return None
        try:
            found = self._asked(login, passcode)
        except _FAULTS as error:
            self._say(error)
            return None
        if found is not None:
            until_s = self._clock() + self.remember_s
            with self._lock:
                if len(self._known) >= KEPT:
                    del self._known[next(iter(self._known))]
                self._known[self._key(login, passcode)] = found, until_s
        return found

    @property
    def can_look_up(self) -> bool:
        """Say whether users can be asked for without their passwords."""
        return bool(self._config.bind_dn)

    def look_up(self, user: str) -> tuple[LoggedIn | None, bool]:
        """Return a user as the entry is now, None if there is none any more; False if the directory cannot be asked.

        user: the name here.  Blocks, as ``check`` does.
        """
        login = user.removeprefix(self._config.user_prefix)
        try:
            with self._searching() as searching:
                dn = self._dn(searching, login)
                is_there = bool(dn) and bool(self._searched(searching, 1, dn, ANY, ldap3.BASE, self._config.user_name))
                found = self._found(searching, login, dn) if is_there else None
        except _FAULTS as error:
            self._say(error)
            return None, False
        return found if found is not None and found.user == user else None, True

    def tick(self) -> None:
        """Cut connections that have taken too long: an answer may come octet by octet.  Called each second."""
        now_s = self._clock()
        with self._lock:
            late = [endpoint_of(connection.socket) for connection, until_s in self._open.values() if now_s >= until_s]
        for endpoint in late:
            if endpoint is not None:  # there is none before it is open
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(endpoint, socket.SHUT_RDWR)  # that of TLS would first forget its state

    # -- the steps

    def _asked(self, login: str, passcode: str) -> LoggedIn | None:
        config = self._config
        if not config.bind_dn:
            dn = config.user_dn.replace("{user}", escape_rdn(login))
            with _Bound(self, dn, passcode) as connection:
                return self._found(connection, login, dn) if connection is not None else None
        with self._searching() as searching:
            dn = self._dn(searching, login)
            with _Bound(self, dn, passcode) as connection:
                is_right = connection is not None
            return self._found(searching, login, dn) if dn and is_right else None

    @contextlib.contextmanager
    def _searching(self) -> Iterator[Any]:
        """Yield a connection as ``bind_dn``."""
        config = self._config
        with _Bound(self, config.bind_dn, _password(config.bind_password_file)) as connection:
            if connection is None:
                raise ValueError("the directory refuses security.ldap.bind-dn with its password")
            yield connection

    def _dn(self, connection: Any, login: str) -> str:
        """Return the name of a user's entry; "" if there is none, or more than one."""
        config = self._config
        if config.user_dn:
            return config.user_dn.replace("{user}", escape_rdn(login))
        query = config.user_filter.replace("{user}", escape_filter_chars(login))
        entries = self._searched(connection, 2, config.user_base, query, ldap3.SUBTREE, config.user_name)
        return str(entries[0]["dn"]) if len(entries) == 1 else ""

    def _found(self, connection: Any, login: str, dn: str) -> LoggedIn | None:
        """Return the user of an entry, as it is spelt there: a directory takes ANN for ann, and here these are two."""
        config = self._config
        wanted = [config.user_name, *([config.member_of] if config.member_of else [])]
        entries = self._searched(connection, 1, dn, ANY, ldap3.BASE, *wanted)
        names = _texts(entries[0], config.user_name) if entries else []
        name = next((one for one in names if one.casefold() == login.casefold()), "")
        user = config.user_prefix + name
        if not name or not is_name(user):
            raise ValueError(f"the entry of a user has no attribute {config.user_name} that is the login, or hides it")
        groups = [_common_name(one, config.group_base) for one in _texts(entries[0], config.member_of)]
        if config.group_filter:
            places = {"dn": escape_filter_chars(dn), "user": escape_filter_chars(name)}
            query = re.sub(r"\{(dn|user)\}", lambda place: places[place[1]], config.group_filter)
            found = self._searched(connection, GROUPS_MAX, config.group_base, query, ldap3.SUBTREE, config.group_name)
            groups += [name for entry in found for name in _texts(entry, config.group_name)]
        named = (config.groups_prefix + one for one in groups[:GROUPS_MAX] if one not in ("", "*"))
        return LoggedIn(user, frozenset(one for one in named if is_name(one) and "," not in one), is_external=True)

    def _searched(
        self, connection: Any, most: int, base: str, query: str, scope: str, *attributes: str
    ) -> list[dict[str, Any]]:
        """Return ``most`` entries; further ones are left out.  Raises: ValueError if the directory could not search."""
        connection.search(base, query, scope, attributes=list(attributes), size_limit=most, time_limit=self._time_s)
        if connection.result["result"] in NO_ANSWER:
            raise ValueError(f"the directory answers a search with {connection.result['description']}")
        found = (one for one in connection.response or () if one.get("type", "searchResEntry") == "searchResEntry")
        return list(islice(found, most))

    def bound(self, dn: str, passcode: str) -> Any:
        """Return a connection as somebody; None for a wrong password.  Raises: LDAPException, OSError."""
        if not dn or not passcode:
            return None
        connection = ldap3.Connection(
            self._server,
            dn,
            passcode,
            client_strategy=self._strategy,
            authentication=ldap3.SIMPLE,
            auto_referrals=False,
            check_names=False,
            read_only=True,
            receive_timeout=self._time_s,
        )
        with self._lock:
            self._open[id(connection)] = connection, self._clock() + STEPS_MOST * self._time_s
        try:
            connection.open()
            connection.socket = metered(connection.socket)
            if self._config.start_tls:
                if not connection.start_tls():
                    raise ValueError("the directory refuses STARTTLS")
                connection.socket = metered(connection.socket)  # TLS is another socket
            if connection.bind():
                return connection
        except BaseException:
            with contextlib.suppress(*_FAULTS):  # without a socket it fails, and the first error says why
                self.leave(connection)
            if (endpoint := endpoint_of(connection.socket)) is not None:  # which it leaves open after a failure
                endpoint.close()
            raise
        self.leave(connection)
        return None

    def leave(self, connection: Any) -> None:
        try:
            connection.unbind()
        finally:
            with self._lock:
                self._open.pop(id(connection), None)

    def _say(self, error: BaseException) -> None:
        """Log a failure, rarely: each login during an outage has one.  Texts of the library hold no password."""
        now_s = self._clock()
        if now_s >= self._silent_until_s:
            self._silent_until_s = now_s + SAID_LEAST_S
            log.error(
                "security.ldap: %s cannot be asked: %s", self._config.url, str(error)[:500] or type(error).__name__
            )

    def _key(self, login: str, passcode: str) -> bytes:
        return hmac.digest(self._secret, f"{login}\0{passcode}".encode("utf-8", "surrogatepass"), "sha256")


class _Bound:
    """A connection as somebody for a ``with``; None for a wrong password."""

    def __init__(self, directory: Directory, dn: str, passcode: str) -> None:
        self._directory = directory
        self._connection = directory.bound(dn, passcode)

    def __enter__(self) -> Any:
        return self._connection

    def __exit__(self, *raised: object) -> None:
        if self._connection is not None:
            self._directory.leave(self._connection)


class _CheckedTls(ldap3.Tls):  # type: ignore[misc]  # the library has no types
    """TLS in which OpenSSL compares the directory's name or address with its certificate.

    From Python 3.12 on the library's own comparison knows no addresses.
    """

    def __init__(self, config: LdapConfig) -> None:
        """Raises: OSError."""
        super().__init__(validate=ssl.CERT_REQUIRED)
        self._context = ssl.create_default_context(cafile=config.ca or None)

    def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:
        """Raises: OSError."""
        connection.socket = self._context.wrap_socket(
            connection.socket, do_handshake_on_connect=do_handshake, server_hostname=connection.server.host
        )


def _require_names(config: LdapConfig) -> None:
    """Raises: WrongName."""
    for key, name in (
        ("user-dn", config.user_dn.replace("{user}", "x")),
        ("user-base", config.user_base),
        ("bind-dn", config.bind_dn),
        ("group-base", config.group_base),
    ):
        try:
            if name:
                parse_dn(name, strip=True)
        except LDAPException:
            raise WrongName(key, name) from None


def _server(config: LdapConfig) -> Any:
    """Raises: OSError."""
    return ldap3.Server(
        config.url, connect_timeout=math.ceil(config.time_ms / 1_000), get_info=ldap3.NONE, tls=_CheckedTls(config)
    )


def _password(path: str) -> str:
    """Raises: OSError, ValueError."""
    with open(path, "rb") as file:
        octets = file.read(PASSWORD_FILE_BYTES_MAX + 1)
    if not octets.strip() or len(octets) > PASSWORD_FILE_BYTES_MAX:
        raise ValueError("security.ldap.bind-password-file holds no password")
    return octets.decode().rstrip("\r\n")


def _can_be_sent(passcode: str) -> bool:
    """Say whether it is a password (RFC 4513, 5.1.3); a wrong one must not look as if the directory were away."""
    try:
        return bool(passcode and validate_simple_password(passcode))
    except LDAPSASLPrepError:
        return False


def _texts(entry: dict[str, Any], attribute: str) -> list[str]:
    """Return the values of an attribute, whatever the case of its name."""
    for name, values in (entry.get("raw_attributes") or {}).items():
        if attribute and name.lower() == attribute.lower():
            return [text for one in values if (text := _decoded(one))]
    return []


def _decoded(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return ""


def _common_name(dn: str, base: str) -> str:
    """Return the first value of a group's name; "" if the group is not below ``base``."""
    try:
        parts = parse_dn(dn, strip=True)
        below = [_part(one) for one in parse_dn(base, strip=True)] if base else []
    except LDAPException:
        return ""
    own = [_part(one) for one in parts]
    if not own or (below and (len(own) <= len(below) or own[-len(below) :] != below)):
        return ""
    value = str(parts[0][1])
    return "" if "\\" in value else value


def _part(part: tuple[str, str, str]) -> tuple[str, str]:
    return part[0].lower(), part[1].strip().casefold()
