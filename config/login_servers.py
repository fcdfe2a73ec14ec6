"""Settings of servers that vouch for users who are not in the configuration: the issuer of tokens, a directory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

SECOND_MS: Final = 1_000
ALGORITHMS: Final = (  # all with public keys; with none and HMAC a token could be made without a private key
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
DISCOVERY: Final = "/.well-known/openid-configuration"
LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")  # which may be asked without TLS


@dataclass(frozen=True, slots=True)
class JwtConfig:
    """Tokens of one issuer as logins.

    issuer: the claim ``iss``; "" for no tokens.  audience: one of the claim ``aud``.
    keys: a file (JWKS), the URL of one, or of a discovery document; "" for the discovery document of the issuer.
    ca: authority of that URL's server, a file in PEM; "" for the system's.
    user_claim: holds the name of the user.  groups_claim: holds its groups; "" for none.
    user_prefix, groups_prefix: put before these names, so that they are different from those of the configuration.
    scope: which a token must have, "" for any.
    """

    issuer: str = ""
    audience: str = ""
    keys: str = ""
    ca: str = ""
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    leeway_ms: int = 30 * SECOND_MS  # between the issuer's clock and ours
    user_claim: str = "sub"
    user_prefix: str = ""
    groups_claim: str = "groups"
    groups_prefix: str = ""
    scope: str = ""
    refresh_ms: int = 600 * SECOND_MS  # between two readings of the keys
    fetch_time_ms: int = 5 * SECOND_MS  # for one reading

    def keys_place(self) -> str:
        """Return the file or URL of the keys."""
        return self.keys or self.issuer.removesuffix("/") + DISCOVERY


@dataclass(frozen=True, slots=True)
class LdapConfig:
    """A directory whose users log in with their passwords there.

    url: ``ldaps://HOST:PORT`` or ``ldap://...``; "" for no directory.  ca: authority of its certificate, a file in PEM.
    user_dn: the name of a user's entry; "" to search for it below ``user_base`` by ``user_filter``.
    user_name: the attribute with the name under which the user is known here, after ``user_prefix``.
    bind_dn, bind_password_file: who searches; without them the user does.
    member_of: the attribute with the user's groups, "" for none.
    group_base, group_filter: find groups; of ``member_of`` only those below ``group_base`` count.  group_name: their
    attribute.
    In names and filters ``{user}`` is the login, and in ``group_filter`` ``{dn}`` the name of the user's entry.
    """

    url: str = ""
    start_tls: bool = False
    ca: str = ""
    user_dn: str = ""
    user_base: str = ""
    user_filter: str = "(uid={user})"
    user_name: str = "uid"
    user_prefix: str = ""
    bind_dn: str = ""
    bind_password_file: str = ""
    member_of: str = ""
    group_base: str = ""
    group_filter: str = ""
    group_name: str = "cn"
    groups_prefix: str = ""
    time_ms: int = 5 * SECOND_MS  # for each step: connecting, an answer
    remember_ms: int = 60 * SECOND_MS  # a right password, with the groups


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    jwt: JwtConfig = field(default_factory=JwtConfig)
    ldap: LdapConfig = field(default_factory=LdapConfig)


def contradictions(security: SecurityConfig, keys_set: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield the key and the text of each problem that only a combination of settings has.

    keys_set: dotted keys that are set.
    """
    for name, first, value in (("jwt", "issuer", security.jwt.issuer), ("ldap", "url", security.ldap.url)):
        for key in () if value else sorted(keys_set):
            if key.startswith(f"security.{name}.") and key != f"security.{name}.{first}":
                yield key, f"has no effect without security.{name}.{first}"
    if security.jwt.issuer:
        yield from _of_tokens(security.jwt)
    if security.ldap.url:
        yield from _of_directory(security.ldap)


def _of_tokens(jwt: JwtConfig) -> Iterator[tuple[str, str]]:
    if not jwt.audience:
        yield "security.jwt.audience", "is needed with security.jwt.issuer: else tokens for other services let in here"
    place = jwt.keys_place()
    if is_url(place) and not may_be_asked(place):
        key = "security.jwt.keys" if jwt.keys else "security.jwt.issuer"
        yield key, f"{place!r} is no place for keys; allowed is a file or https://, of this machine also http://"
    elif not jwt.keys and not is_url(place):
        yield "security.jwt.keys", "is needed, because security.jwt.issuer is no URL with a discovery document"


def _of_directory(ldap: LdapConfig) -> Iterator[tuple[str, str]]:
    scheme, host = _scheme_and_host(ldap.url)
    if scheme not in ("ldap", "ldaps") or not host:
        yield (
            "security.ldap.url",
            f"{ldap.url!r} is no directory; allowed is ldaps://HOST, ldaps://HOST:PORT, or ldap://",
        )
    elif scheme == "ldap" and not ldap.start_tls and host not in LOCAL_HOSTS:
        yield "security.ldap.url", "passwords would cross the network unencrypted; use ldaps:// or start-tls: true"
    elif scheme == "ldaps" and ldap.start_tls:
        yield "security.ldap.start-tls", "has no meaning with ldaps://, where TLS comes first"
    if bool(ldap.user_dn) == bool(ldap.user_base):
        yield "security.ldap.user-dn", "either this or security.ldap.user-base is needed, to find a user's entry"
    if ldap.user_base and not ldap.bind_dn:
        yield "security.ldap.bind-dn", "is needed to search for users below security.ldap.user-base"
    if bool(ldap.bind_dn) != bool(ldap.bind_password_file):
        yield "security.ldap.bind-password-file", "goes with security.ldap.bind-dn; set both or none"
    if ldap.group_filter and not ldap.group_base:
        yield "security.ldap.group-base", "is needed with security.ldap.group-filter"
    for key, text, place in (
        ("user-dn", ldap.user_dn, "{user}"),
        ("user-filter", ldap.user_filter, "{user}"),
    ):
        if text and place not in text:
            yield f"security.ldap.{key}", f"lacks {place}, the place of the login"
    if ldap.group_filter and "{dn}" not in ldap.group_filter and "{user}" not in ldap.group_filter:
        yield "security.ldap.group-filter", "lacks {dn} or {user}, the place of the user's entry or login"


def _scheme_and_host(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
        is_plain = parts.port != 0 and parts.username is None and parts.path in ("", "/") and not parts.query
        return (parts.scheme, parts.hostname or "") if is_plain else ("", "")
    except ValueError:
        return "", ""


def is_url(place: str) -> bool:
    return "://" in place


def may_be_asked(url: str) -> bool:
    """Say whether keys may come from a URL: nobody between may change them."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    if not host or parts.username is not None:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in LOCAL_HOSTS)
