"""The keys by which a message can be found: its correlation id and each word of its header ``keys``.

The log keeps messages in their native encodings.  STOMP's encoding is part of the log format and is read here; readers
of other encodings are passed in.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Final

from mypy_extensions import mypyc_attr

from engine.values.message import STOMP, unescaped

KEYS_MAX: Final = 64  # per message; further keys are not indexed
KEY_BYTES_MAX: Final = 1024  # longer keys are not indexed

CORRELATION_ID: Final = b"correlation-id:"
KEYS: Final = b"keys:"


@mypyc_attr(allow_interpreted_subclasses=True)
class KeyReader:
    """Reads the keys of messages of one encoding."""

    @abstractmethod
    def keys(self, headers: bytes) -> tuple[str, str]:
        """Return the correlation id and the words of ``keys``, each "" for none.

        headers: ``Message.headers``.
        """


class StompKeys(KeyReader):
    """Reads STOMP headers; the first header of a name counts."""

    def keys(self, headers: bytes) -> tuple[str, str]:
        return _value(headers, CORRELATION_ID), _value(headers, KEYS)


def _value(headers: bytes, name: bytes) -> str:
    if headers.startswith(name):
        start = len(name)
    else:
        start = headers.find(b"\n" + name) + len(name) + 1
        if start == len(name):
            return ""
    end = headers.find(b"\n", start)
    return unescaped(headers[start : end if end >= 0 else len(headers)].decode("utf-8", "replace"))


@mypyc_attr(allow_interpreted_subclasses=True)
class Keys:
    """Finds keys in messages of each encoding that has a reader; other messages have no keys."""

    __slots__ = ("_readers",)

    def __init__(self, others: Mapping[int, KeyReader] | None = None) -> None:
        self._readers: dict[int, KeyReader] = {STOMP: StompKeys(), **(others or {})}

    def of(self, encoding: int, headers: bytes) -> list[str]:
        """Return the keys of a message, each once."""
        reader = self._readers.get(encoding)
        if reader is None:
            return []
        correlation_id, words = reader.keys(headers)
        found = dict.fromkeys([correlation_id, *words.split(" ")] if correlation_id else words.split(" "))
        found.pop("", None)
        return [key for key in found if len(key.encode("utf-8", "replace")) <= KEY_BYTES_MAX][:KEYS_MAX]

    def may_be_in(self, encoding: int, octets: bytes, start: int, stop: int) -> bool:
        """Say whether headers at ``start`` to ``stop`` may hold keys: a quick test, as most do not."""
        if encoding == STOMP:
            return octets.find(CORRELATION_ID, start, stop) >= 0 or octets.find(KEYS, start, stop) >= 0
        return encoding in self._readers
