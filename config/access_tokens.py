"""Access tokens: passwords of programs that nobody chooses, of which a configuration holds a digest only.

The text form in a file is ``<name>$<expires>$<SHA-256 in hexadecimal>``; expires is ``never``, or the day at whose
beginning (UTC) the token ends.  A token has 256 random bits, so a digest without salt or iterations tells nobody what
it is, and a check costs a microsecond.
"""

from __future__ import annotations

import hashlib
import os
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

PREFIX: Final = "pst_"  # tools that look for leaked secrets find it
NEVER: Final = "never"
TOKEN_BYTES: Final = 32
DAY_FORM: Final = "%Y-%m-%d"


@dataclass(frozen=True, slots=True)
class AccessToken:
    """ends_s: since 1970, None for never."""

    name: str
    ends_s: float | None
    digest: str

    @classmethod
    def parse(cls, text: str) -> AccessToken:
        """Parse a text that ``config.names.AccessTokenText`` has accepted."""
        name, day, digest = text.split("$")
        return cls(name, None if day == NEVER else day_s(day), digest)


def new_token() -> str:
    """Return a token that nobody has."""
    return PREFIX + urlsafe_b64encode(os.urandom(TOKEN_BYTES)).decode("ascii").rstrip("=")


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def token_line(name: str, expires: str, token: str) -> str:
    """Return the text form.  expires: a day, or "never"."""
    return f"{name}${expires}${digest_of(token)}"


def day_s(text: str) -> float:
    """Return the beginning of a day, UTC.  Raises: ValueError."""
    return datetime.strptime(text, DAY_FORM).replace(tzinfo=UTC).timestamp()
