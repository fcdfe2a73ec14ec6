"""The checks of logins that a configuration asks for, and what they need installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from config.errors import ConfigError, Problem
from config.loader import place_of
from config.model import ServerConfig
from gateway.process.counters import GatewayCounters

if TYPE_CHECKING:
    from gateway.logins.bearer_tokens import BearerTokens


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
        raise _problem(config, "issuer", "needs an extra that is not installed: pip install 'penstock[jwt]'") from None
    try:
        source = KeySource(jwt, counters)
        source.read_file()
    except OSError as error:
        raise _problem(config, "ca", f"{jwt.ca!r} cannot be used: {error.strerror or error}") from None
    except KeysUnusable as error:
        raise _problem(config, "keys", str(error)) from None
    return BearerTokens(jwt, source)


def _problem(config: ServerConfig, name: str, text: str) -> ConfigError:
    key = f"security.jwt.{name}"
    return ConfigError([Problem(*place_of(config.sources.get(key, "")), key, text)])
