"""The destination of a message with a duplicate id, which its address accepts once.

Ids that senders choose and ids that the gateway makes are two spaces: a digest of the one is none of the other, so no
sender can use up the id of somebody else's message.
"""

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
_CHOSEN: Final = b""  # space of the ids that senders choose
_MADE: Final = b"gateway"


class IdKey(NamedTuple):
    """What is remembered of an id: a hash of its address, with 32 bits, and a digest of both, with 63 bits.

    former: its digest in stores of the time when all ids were one space; 0 for an id that its sender has chosen.
    """

    address: int
    digest: int
    former: int = 0


class Identified(Composite):
    """Sends to ``inner`` what has an id.  It is a destination like others, so other sends pay nothing for it.

    shown_id: the beginning of the id, for errors; of the rest the digest is enough.
    """

    __slots__ = ("inner", "shown_id", "key")

    def __init__(self, inner: Destination, duplicate_id: str, is_chosen: bool) -> None:
        super().__init__(inner.parts if isinstance(inner, Composite) else [inner])
        self.inner = inner
        self.shown_id = duplicate_id[:SHOWN_CHARACTERS]
        uri = self.uri()
        chosen = id_key(uri, duplicate_id[:ID_MOST_CHARACTERS])
        self.key = chosen if is_chosen else IdKey(chosen.address, _digest(uri, duplicate_id, _MADE), chosen.digest)

    def memory_bytes(self) -> int:
        """Return its memory while it waits with its message."""
        return OBJECTS_BYTES + CHARACTER_BYTES * len(self.shown_id)


def id_key(uri: str, duplicate_id: str) -> IdKey:
    """Return the key of an id that a sender has chosen, or of one in a place that is no address of senders."""
    return IdKey(crc32c(uri.encode()), _digest(uri, duplicate_id, _CHOSEN))


def identified(destination: Destination, duplicate_id: str) -> Identified:
    """Return the destination of a message with an id that its sender has chosen.  Raises: InvalidOption."""
    if not 0 < len(duplicate_id) <= ID_MOST_CHARACTERS:
        raise InvalidOption(f"a duplicate id has {len(duplicate_id)} characters; allowed are 1 to {ID_MOST_CHARACTERS}")
    return Identified(destination, duplicate_id, is_chosen=True)


def sent_again(destination: Destination, made_id: str) -> Identified:
    """Return the destination of a message that may come again, with an id that the gateway makes of who sent it."""
    return Identified(destination, made_id, is_chosen=False)


def _digest(uri: str, duplicate_id: str, space: bytes) -> int:
    octets = blake2b(f"{uri}\n{duplicate_id}".encode("utf-8", "surrogatepass"), digest_size=8, person=space).digest()
    return int.from_bytes(octets, "little") >> 1
