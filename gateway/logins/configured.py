"""The checks of logins that a configuration asks for, and what they need installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from config.errors import ConfigError, Problem
from config.loader import place_of
from config.model import ServerConfig
from gateway.process.counters import GatewayCounters

if TYPE_CHECKING:
    from gateway.logins.bearer_tokens import BearerTokens
    from gateway.logins.directory import Directory


def tokens_of(config: ServerConfig, counters: GatewayCounters) -> BearerTokens | None:
    """Return the check of tokens, None without an issuer.

    Raises: ConfigError for a file that cannot be used, and without the libraries, which only this needs.
    """
    jwt = config.security.jwt
    if not jwt.issuer:
        return None
    try:
        from gateway.logins.bearer_tokens import BearerTokens
        from gateway.logins.key_source import KeySource, KeysUnusable
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("jwt", "cryptography"):
            raise
        raise _missing(config, "jwt", "issuer") from None
    try:
        source = KeySource(jwt, counters)
        source.read_file()
    except OSError as error:
        raise _problem(config, "jwt.ca", f"{jwt.ca!r} cannot be used: {error.strerror or error}") from None
    except KeysUnusable as error:
        raise _problem(config, "jwt.keys", str(error)) from None
    return BearerTokens(jwt, source)


def directory_of(config: ServerConfig) -> Directory | None:
    """Return the check of passwords by a directory, None without one.  Raises: ConfigError as above."""
    ldap = config.security.ldap
    if not ldap.url:
        return None
    try:
        from gateway.logins.directory import Directory, WrongName
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("ldap3", "pyasn1"):
            raise
        raise _missing(config, "ldap", "url") from None
    try:
        return Directory(ldap)
    except OSError as error:
        raise _problem(config, "ldap.ca", f"{ldap.ca!r} cannot be used: {error.strerror or error}") from None
    except WrongName as error:
        raise _problem(config, f"ldap.{error.key}", str(error)) from None


def _missing(config: ServerConfig, extra: str, name: str) -> ConfigError:
    text = f"needs an extra that is not installed: pip install 'penstock[{extra}]'"
    return _problem(config, f"{extra}.{name}", text)


def _problem(config: ServerConfig, name: str, text: str) -> ConfigError:
    key = f"security.{name}"
    return ConfigError([Problem(*place_of(config.sources.get(key, "")), key, text)])
