"""The destination of a message with a duplicate id, which its address accepts once."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NamedTuple

from crc32c import crc32c

from engine.sources.composite import Composite, Destination
from engine.values.errors import InvalidOption

ID_MOST_CHARACTERS: Final = 1_000
SHOWN_CHARACTERS: Final = 200  # of an id in errors
OBJECTS_BYTES: Final = 512  # of a destination that waits, without the text of its id, rounded up
CHARACTER_BYTES: Final = 4  # at most


class IdKey(NamedTuple):
    """What is remembered of an id: a hash of its address, with 32 bits, and a digest of both, with 63 bits."""

    address: int
    digest: int


class Identified(Composite):
    """Sends to ``inner`` what has an id.  It is a destination like others, so other sends pay nothing for it.

    shown_id: the beginning of the id, for errors; of the rest the digest is enough.
    """

    __slots__ = ("inner", "shown_id", "key")

    def __init__(self, inner: Destination, duplicate_id: str) -> None:
        super().__init__(inner.parts if isinstance(inner, Composite) else [inner])
        self.inner = inner
        self.shown_id = duplicate_id[:SHOWN_CHARACTERS]
        self.key = id_key(self.uri(), duplicate_id)

    def memory_bytes(self) -> int:
        """Return its memory while it waits with its message."""
        return OBJECTS_BYTES + CHARACTER_BYTES * len(self.shown_id)


def id_key(uri: str, duplicate_id: str) -> IdKey:
    octets = blake2b(f"{uri}\n{duplicate_id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return IdKey(crc32c(uri.encode()), int.from_bytes(octets, "little") >> 1)


def identified(destination: Destination, duplicate_id: str) -> Identified:
    """Return the destination of a message with an id.  Raises: InvalidOption."""
    if not 0 < len(duplicate_id) <= ID_MOST_CHARACTERS:
        raise InvalidOption(f"a duplicate id has {len(duplicate_id)} characters; allowed are 1 to {ID_MOST_CHARACTERS}")
    return Identified(destination, duplicate_id)
