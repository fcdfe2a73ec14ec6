"""JSON web tokens as logins: who the issuer says the client is, in which groups, and until when.

Sources: RFC 7519 (JWT), RFC 8725 (best current practices), RFC 9068 (access tokens).  The kind of the issuer's key
decides which algorithm a token may have, so a public key is never the secret of an HMAC.  Headers that bring or name
a key (``jwk``, ``jku``, ``x5u``, ``x5c``) have no effect.  A refusal says what is wrong in words of ours: nothing of a
token is in it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import jwt

from config.login_servers import JwtConfig
from gateway.logins.key_source import KeySource
from gateway.logins.names import NAME_MAX_CHARACTERS, is_name
from gateway.logins.web_keys import PublicKey, WebKeys
from protocols.peer_socket import LoggedIn

BEGINNING: Final = "eyJ"  # of every JWT: {" in Base64
CONCURRENT_CHECKS_MAX: Final = 2  # the others wait in the order in which they came
TOKEN_MAX_CHARACTERS: Final = 8_192  # what aiohttp takes as a header, and less than a STOMP header
KEPT: Final = 1_000  # tokens that were found right; the oldest are forgotten first
REFUSALS_KEPT: Final = 100
TIME_MAX_S: Final = 2**40  # later ends count as this one
TYPES: Final = ("jwt", "at+jwt", "application/at+jwt")  # in lower case; others are no access tokens (RFC 8725, 3.11)

# What a header or a claim may make the library raise.
_FAULTS: Final = (jwt.PyJWTError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError)
_REASONS: Final[tuple[tuple[type[jwt.PyJWTError], str], ...]] = (
    (jwt.InvalidSignatureError, "its signature is wrong"),
    (jwt.InvalidAudienceError, "it is for another audience than security.jwt.audience"),
    (jwt.InvalidIssuerError, "it is of another issuer than security.jwt.issuer"),
)


class TokenRefused(Exception):
    """The text completes "the token is refused: ..."."""


class BearerTokens:
    """clock: seconds since 1970.  ``check`` is for a worker thread, all else for the event loop.

    _known: by digest, with the keys that they were checked with: other keys need another check.
    """

    def __init__(self, config: JwtConfig, source: KeySource, clock: Callable[[], float] = time.time) -> None:
        self.source = source
        self._config = config
        self._clock = clock
        self._leeway_s = config.leeway_ms / 1_000
        self._known: dict[bytes, tuple[LoggedIn, WebKeys]] = {}
        self._refusals: dict[bytes, str] = {}
        self._lock = threading.Lock()
        self._places = asyncio.Semaphore(CONCURRENT_CHECKS_MAX)

    def known(self, text: str) -> LoggedIn | None:
        """Return who comes with a token that was found right and has not ended; None for any other."""
        if len(text) > TOKEN_MAX_CHARACTERS:
            return None
        found = self._known.get(_digest(text))
        if found is None:
            return None
        login, keys = found
        is_over = login.ends_s is not None and self._clock() >= login.ends_s
        return None if is_over or keys is not self.source.keys else login

    async def checked(self, text: str) -> LoggedIn | None:
        """Return the result of ``check``, on a worker thread if it is needed.  Cancel it when the client has gone."""
        if len(text) > TOKEN_MAX_CHARACTERS:
            return self.check(text)
        await self._places.acquire()
        if (found := self.known(text)) is not None:
            self._places.release()
            return found
        # A thread that has begun keeps its place although the client has gone.
        check = asyncio.get_running_loop().run_in_executor(None, self.check, text)
        check.add_done_callback(lambda _: self._places.release())
        return await asyncio.shield(check)

    def check(self, text: str) -> LoggedIn | None:
        """Return who comes with a token, None if it is refused.  Takes part of a millisecond: for a worker thread."""
        keys = self.source.keys
        try:
            if keys is None:
                raise TokenRefused("the keys of the issuer could not be read yet")
            login = self._verified(text, keys)
        except TokenRefused as refused:
            self._keep(self._refusals, REFUSALS_KEPT, text, str(refused))
            return None
        self._keep(self._known, KEPT, text, (login, keys))
        return login

    def refusal(self, text: str) -> str:
        """Return why a token was refused, "" if that is not known (any more)."""
        return "" if len(text) > TOKEN_MAX_CHARACTERS else self._refusals.get(_digest(text), "")

    @staticmethod
    def is_meant(text: str) -> bool:
        """Say whether a password can only be meant as a JWT."""
        return text.startswith(BEGINNING) and text.count(".") == 2

    async def look_for_key(self, text: str) -> None:
        """Have the keys read if a token's one is unknown, as far as ``KeySource.look_for`` does that."""
        if len(text) <= TOKEN_MAX_CHARACTERS:
            key_id = _part(text, 0).get("kid")
            await self.source.look_for(key_id if isinstance(key_id, str) else "")

    def claimed_user(self, text: str) -> str:
        """Return whom a token names, unchecked: wrong tokens of one name wait for each other only."""
        claimed = _claim(_part(text, 1), self._config.user_claim) if len(text) <= TOKEN_MAX_CHARACTERS else None
        return claimed[:NAME_MAX_CHARACTERS] if isinstance(claimed, str) else ""

    # -- the steps

    def _keep(self, kept: dict[bytes, Any], most: int, text: str, value: object) -> None:
        with self._lock:
            if len(kept) >= most:
                del kept[next(iter(kept))]
            kept[_digest(text)] = value

    def _verified(self, text: str, keys: WebKeys) -> LoggedIn:
        """Raises: TokenRefused."""
        if len(text) > TOKEN_MAX_CHARACTERS:
            raise TokenRefused(f"it has more than {TOKEN_MAX_CHARACTERS} characters")
        try:
            header = jwt.get_unverified_header(text)
        except _FAULTS:
            raise TokenRefused("its header cannot be read") from None
        algorithm, key = self._key(header, keys)
        claims = self._claims(text, key, algorithm)
        ends_s = self._end(claims)
        self._require_scope(claims)
        return LoggedIn(self._user(claims), self._groups(claims), ends_s, is_external=True)

    def _key(self, header: dict[str, Any], keys: WebKeys) -> tuple[str, PublicKey]:
        algorithm, key_id, kind = header.get("alg"), header.get("kid", ""), header.get("typ", "jwt")
        if algorithm not in self._config.algorithms:
            raise TokenRefused(f"its algorithm is none of {', '.join(self._config.algorithms)}")
        if "crit" in header:
            raise TokenRefused("its header has crit, and no extension is understood")
        if not isinstance(kind, str) or kind.lower() not in TYPES:
            raise TokenRefused("its header has a typ that is no JWT's")
        if not isinstance(key_id, str):
            raise TokenRefused("its key id is no text")
        key = keys.find(key_id, algorithm)
        if key is None:
            found = (
                "the issuer has no key with its key id" if key_id else "it has no key id, and not one key fits alone"
            )
            raise TokenRefused(f"{found}, for its algorithm")
        return algorithm, key

    def _claims(self, text: str, key: PublicKey, algorithm: str) -> dict[str, Any]:
        options: Any = {"require": ["exp", "iss", "aud"], "verify_exp": False, "verify_nbf": False, "verify_iat": False}
        try:
            return dict(
                jwt.decode(
                    text,
                    key,
                    algorithms=[algorithm],
                    audience=self._config.audience,
                    issuer=self._config.issuer,
                    options=options,
                )
            )
        except jwt.MissingRequiredClaimError as error:
            raise TokenRefused(f"it lacks the claim {error.claim}") from None
        except _FAULTS as error:
            reason = next((words for kind, words in _REASONS if isinstance(error, kind)), "its claims cannot be read")
            raise TokenRefused(reason) from None

    def _end(self, claims: dict[str, Any]) -> float:
        """Return when it ends; it must have begun."""
        now_s = self._clock()
        ends_s = _time_s(claims, "exp") + self._leeway_s
        if now_s >= ends_s:
            raise TokenRefused("it has expired")
        for name in ("nbf", "iat"):
            if name in claims and _time_s(claims, name) > now_s + self._leeway_s:
                raise TokenRefused(f"it is not valid yet ({name})")
        return ends_s

    def _require_scope(self, claims: dict[str, Any]) -> None:
        scope = self._config.scope
        if scope and not any(scope in _names(claims.get(name)) for name in ("scope", "scp")):
            raise TokenRefused("it lacks the scope of security.jwt.scope")

    def _user(self, claims: dict[str, Any]) -> str:
        name = _claim(claims, self._config.user_claim)
        if not isinstance(name, str) or not name:
            raise TokenRefused(f"its claim {self._config.user_claim!r} names no user")
        user = self._config.user_prefix + name
        if not is_name(user):
            raise TokenRefused(f"its user is no name of 1 to {NAME_MAX_CHARACTERS} printable characters")
        return user

    def _groups(self, claims: dict[str, Any]) -> frozenset[str]:
        """Return its groups; what could not be the name of a group in the configuration is none."""
        config = self._config
        claimed = _names(_claim(claims, config.groups_claim)) if config.groups_claim else []
        named = (config.groups_prefix + name for name in claimed if isinstance(name, str) and name not in ("", "*"))
        return frozenset(name for name in named if is_name(name) and "," not in name)


def _claim(claims: dict[str, Any], name: str) -> object:
    """Return a claim; a name with dots may also lead into objects, as in realm_access.roles."""
    if name in claims:
        return claims[name]
    at: object = claims
    for part in name.split("."):
        if not isinstance(at, dict) or part not in at:
            return None
        at = at[part]
    return at


def _names(value: object) -> list[object]:
    """Return what a list, or a text with blanks between, names."""
    if isinstance(value, str):
        return list(value.split())
    return value if isinstance(value, list) else []


def _time_s(claims: dict[str, Any], name: str) -> float:
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:  # NaN is not
        raise TokenRefused(f"its claim {name} is no time")
    return float(min(value, TIME_MAX_S))


def _part(text: str, at: int) -> dict[str, Any]:
    """Return the header (0) or the claims (1), unchecked; empty if there are none."""
    encoded = text.split(".")[at : at + 1]
    try:
        found = json.loads(base64.urlsafe_b64decode(encoded[0] + "=" * (-len(encoded[0]) % 4))) if encoded else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
