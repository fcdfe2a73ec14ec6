"""Settings of servers that vouch for users who are not in the configuration: the issuer of tokens."""

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
class SecurityConfig:
    jwt: JwtConfig = field(default_factory=JwtConfig)


def contradictions(security: SecurityConfig, keys_set: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield the key and the text of each problem that only a combination of settings has.

    keys_set: dotted keys that are set.
    """
    jwt = security.jwt
    if not jwt.issuer:
        for key in sorted(keys_set):
            if key.startswith("security.jwt.") and key != "security.jwt.issuer":
                yield key, "has no effect without security.jwt.issuer"
        return
    if not jwt.audience:
        yield "security.jwt.audience", "is needed with security.jwt.issuer: else tokens for other services let in here"
    place = jwt.keys_place()
    if is_url(place) and not may_be_asked(place):
        key = "security.jwt.keys" if jwt.keys else "security.jwt.issuer"
        yield key, f"{place!r} is no place for keys; allowed is a file or https://, of this machine also http://"
    elif not jwt.keys and not is_url(place):
        yield "security.jwt.keys", "is needed, because security.jwt.issuer is no URL with a discovery document"


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
