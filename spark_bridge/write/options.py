"""The options of a write.

    frame.write.format("penstock").mode("append").option("url", "stomp://gateway:61613").option("destination", "orders")

url: of the gateway's STOMP listener; stomp+ssl:// for TLS.  user, password: the login, "" for none.
destination: of rows without one of their own.  write-id: the same id never writes its messages twice; by default each
write has a new one.  timeout-ms: longest wait for a confirmation.  dry-run: the gateway checks everything and takes
nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

PLAIN_SCHEMES: Final = ("stomp", "tcp")
TLS_SCHEMES: Final = ("stomp+ssl", "ssl", "tls")
DEFAULT_PORT: Final = 61613
NAMES: Final = ("url", "user", "password", "destination", "write-id", "timeout-ms", "dry-run")
OF_STREAMS: Final = "checkpointlocation"  # Spark's own, which it gives to the writer, too
WRITE_ID_MOST_CHARACTERS: Final = 200
_TRUTH: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Parsed options; the module describes them."""

    host: str
    port: int
    is_tls: bool
    user: str
    password: str
    destination: str
    write_id: str
    timeout_s: float
    is_dry_run: bool


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Raises: ValueError with the option and its allowed values."""
    given = _named(options)
    url = given.get("url", f"stomp://127.0.0.1:{DEFAULT_PORT}")
    host, port, is_tls = _address(url)
    write_id = given.get("write-id", "")
    if len(write_id) > WRITE_ID_MOST_CHARACTERS:
        raise ValueError(f"option 'write-id' has {len(write_id)} characters; allowed are {WRITE_ID_MOST_CHARACTERS}")
    timeout = given.get("timeout-ms", "600000")
    if not timeout.isdecimal() or not int(timeout):
        raise ValueError(f"option 'timeout-ms' is {timeout!r}; it takes a whole number, at least 1")
    dry_run = given.get("dry-run", "false").lower()
    if dry_run not in _TRUTH:
        raise ValueError(f"option 'dry-run' is {dry_run!r}; it takes true or false")
    return WriteOptions(
        host,
        port,
        is_tls,
        given.get("user", ""),
        given.get("password", ""),
        given.get("destination", ""),
        write_id or str(uuid.uuid4()),
        int(timeout) / 1000,
        _TRUTH[dry_run],
    )


def _named(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options by their names in NAMES; Spark folds their case.  Raises: ValueError."""
    names = {name.replace("-", ""): name for name in NAMES}
    given: dict[str, str] = {}
    for name, value in options.items():
        folded = name.lower().replace("-", "").replace("_", "")
        if folded == OF_STREAMS:
            continue
        known = names.get(folded)
        if known is None:
            raise ValueError(f"unknown option {name!r}; a write takes {', '.join(NAMES)}")
        if known in given:
            raise ValueError(f"option {known!r} is given twice, also as {name!r}")
        given[known] = value
    return given


def _address(url: str) -> tuple[str, int, bool]:
    """Return host, port and whether it speaks TLS.  Raises: ValueError."""
    if "@" in url:
        raise ValueError("option 'url' has a login; it belongs into the options user and password")
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORT
    except ValueError as error:
        raise ValueError(f"option 'url' is {url!r}: {error}") from None
    if parts.scheme not in PLAIN_SCHEMES + TLS_SCHEMES or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError(f"option 'url' is {url!r}; it takes stomp://HOST:PORT, or stomp+ssl://HOST:PORT for TLS")
    return parts.hostname, port, parts.scheme in TLS_SCHEMES
