"""Where the keys of an issuer come from, a file or a URL, and when they are read again.

Nothing that a client says adds to what is fetched but one thing: a token that names an unknown key brings the next
reading forward, at most once in ``ASKED_LEAST_S``.  A reading has a time and a size, and one goes on at a time.  If it
fails, the keys from before stay in use.  No redirection is followed: the URL is the one that was configured.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
import stat
from typing import Final

import aiohttp

from config.login_servers import DISCOVERY, JwtConfig, is_url, may_be_asked
from gateway.logins.web_keys import WebKeys, keys_of
from gateway.process.counters import GatewayCounters

DOCUMENT_BYTES_MAX: Final = 256 * 1024
URL_MAX_CHARACTERS: Final = 2_048
ASKED_LEAST_S: Final = 30.0  # between two readings that tokens with unknown keys have asked for
RETRY_S: Final = 30.0  # after a failure, if ``refresh`` is longer

log: Final = logging.getLogger("penstock.security")


class KeysUnusable(Exception):
    """The text says why, and names the place."""


class KeySource:
    """keys: in use, None before the first reading.  counters: count the readings that fail."""

    def __init__(self, config: JwtConfig, counters: GatewayCounters) -> None:
        """Raises: OSError for an unusable ``ca``, which ssl.SSLError is, too."""
        self.keys: WebKeys | None = None
        self.counters = counters
        self._config = config
        self._place = config.keys_place()
        self._tls = ssl.create_default_context(cafile=config.ca or None) if is_url(self._place) else None
        self._document: bytes | None = None
        self._task: asyncio.Task[None] | None = None
        self._due_s = float("-inf")
        self._asked_s = float("-inf")

    @property
    def is_reading(self) -> bool:
        return self._task is not None

    def check(self) -> None:
        """Begin a reading if one is due; called each second."""
        if asyncio.get_running_loop().time() >= self._due_s:
            self._begin()

    def refresh(self) -> None:
        """Read the keys again: an operator asks for it."""
        self._begin()

    async def look_for(self, key_id: str) -> None:
        """Wait for the reading that is going on, if a key is unknown; begin one if that was not asked for just now."""
        if self.keys is not None and (not key_id or self.keys.knows(key_id)):
            return
        now_s = asyncio.get_running_loop().time()
        if self._task is None and now_s - self._asked_s >= ASKED_LEAST_S:
            self._asked_s = now_s
            self._begin()
        if self._task is not None:
            await asyncio.wait([self._task])

    def read_file(self) -> None:
        """Read the keys now, if they are in a file.  Raises: KeysUnusable."""
        if not is_url(self._place):
            self._take(_file(self._place))

    # -- the steps

    def _begin(self) -> None:
        if self._task is None:
            self._due_s = float("inf")
            self._task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        refresh_s = self._config.refresh_ms / 1_000
        wait_s = min(refresh_s, RETRY_S)
        is_first = self.keys is None
        time_s = self._config.fetch_time_ms / 1_000
        try:
            async with asyncio.timeout(time_s):
                octets = await (self._fetched() if is_url(self._place) else asyncio.to_thread(_file, self._place))
                await asyncio.to_thread(self._take, octets)
            wait_s = refresh_s
            if is_first:
                self._asked_s = float("-inf")  # whoever asked for it knew no keys; a rotation may follow at once
        except KeysUnusable as error:
            self._failed(str(error))
        except TimeoutError:
            self._failed(f"{self._place} has not answered within {time_s:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self._failed(f"{self._place} cannot be read: {error or type(error).__name__}")
        finally:
            self._due_s = asyncio.get_running_loop().time() + wait_s
            self._task = None

    def _failed(self, why: str) -> None:
        self.counters.failed_key_readings += 1
        kept = (
            "no token is accepted until they can be read" if self.keys is None else "the keys from before stay in use"
        )
        log.error("security.jwt: no keys of the issuer: %s; %s", why, kept)

    def _take(self, octets: bytes) -> None:
        """Raises: KeysUnusable."""
        if octets == self._document:
            return
        try:
            keys = keys_of(_json(octets))
        except (ValueError, RecursionError) as error:
            raise KeysUnusable(f"{self._place} {error}") from None
        self._document = octets
        self.keys = keys
        log.info("security.jwt: %d keys of the issuer, from %s", len(keys), self._place)

    async def _fetched(self) -> bytes:
        """Return the JWKS of a URL, or the one that a discovery document there names.  Raises: KeysUnusable."""
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with aiohttp.ClientSession(headers=headers, auto_decompress=False) as session:
            octets = await self._get(session, self._place)
            if not self._place.endswith(DISCOVERY):
                return octets
            return await self._get(session, await asyncio.to_thread(self._discovered, octets))

    async def _get(self, session: aiohttp.ClientSession, url: str) -> bytes:
        async with session.get(url, allow_redirects=False, ssl=self._tls or True) as answer:
            if answer.status != 200:
                raise KeysUnusable(f"{url} answers {answer.status}; allowed is 200")
            octets = b""
            while len(octets) <= DOCUMENT_BYTES_MAX and (part := await answer.content.read(64 * 1024)):
                octets += part
        if len(octets) > DOCUMENT_BYTES_MAX:
            raise KeysUnusable(f"{url} answers more than {DOCUMENT_BYTES_MAX} octets, which is the limit")
        return octets

    def _discovered(self, octets: bytes) -> str:
        """Return the URL of the keys.  Source: OpenID Connect Discovery 1.0, section 4.3.  Raises: KeysUnusable."""
        try:
            document = _json(octets)
        except (ValueError, RecursionError) as error:
            raise KeysUnusable(f"{self._place} {error}") from None
        found = document if isinstance(document, dict) else {}
        issuer, url = found.get("issuer"), found.get("jwks_uri")
        if issuer != self._config.issuer:
            raise KeysUnusable(f"{self._place} is of another issuer than {self._config.issuer!r}")
        if not isinstance(url, str) or len(url) > URL_MAX_CHARACTERS or not may_be_asked(url):
            raise KeysUnusable(f"{self._place} names no jwks_uri that may be asked (https)")
        return url


def _json(octets: bytes) -> object:
    """Raises: ValueError, RecursionError."""
    try:
        return json.loads(octets)
    except ValueError:
        raise ValueError("is no JSON") from None


def _file(path: str) -> bytes:
    """Raises: KeysUnusable.  A FIFO or a device could block for ever."""
    octets = None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                octets = file.read(DOCUMENT_BYTES_MAX + 1)
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        raise KeysUnusable(f"{path!r} cannot be read: {reason}") from None
    if octets is None:
        raise KeysUnusable(f"{path!r} cannot be read: it is not a regular file")
    if len(octets) > DOCUMENT_BYTES_MAX:
        raise KeysUnusable(f"{path!r} has more than {DOCUMENT_BYTES_MAX} octets, which is the limit")
    return octets
