"""The content of a message: inflated, and its text."""

from __future__ import annotations

import zlib
from typing import Final

from protocols.errors import FrameError
from protocols.openwire.wire.messages import BYTES_MESSAGE, WireMessage
from protocols.openwire.wire.modified_utf8 import decode_text, encode_text

INFLATED_MAX: Final = 64 * 1024 * 1024  # octets
INFLATED_FREE: Final = 1024 * 1024  # octets that any content may inflate to
INFLATED_A_STEP: Final = 2_048  # octets that come out, of a step of a turn
DEFLATED_A_STEP: Final = 256  # octets that go in
RATIO_MAX: Final = 100  # beyond these: few octets must not cost a turn
SIZE: Final = 4  # of a text, and of a compressed BytesMessage


def content_of(message: WireMessage, limit_bytes: int = INFLATED_MAX) -> bytes | None:
    """Return the content, inflated if it is compressed; None for an absent one.

    limit_bytes: of an inflated one.  Raises: FrameError.
    """
    content = message.content
    if content is None or not message.compressed:
        return content
    if message.CODE == BYTES_MESSAGE:
        content = content[SIZE:]
    most = min(limit_bytes, inflated_most(content))
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(content, most)
    except zlib.error as error:
        raise FrameError(f"a content cannot be inflated: {error}") from None
    if inflater.unconsumed_tail:
        raise FrameError(f"a content of {len(content)} octets inflates to more than {most}, which is the limit")
    return inflated


def inflating_steps(content: bytes, inflated_bytes: int) -> int:
    """Return how many steps of a turn inflating a content takes."""
    return len(content) // DEFLATED_A_STEP + inflated_bytes // INFLATED_A_STEP


def inflated_most(content: bytes) -> int:
    """Return how many octets a compressed content may have once it is inflated."""
    return min(INFLATED_MAX, max(INFLATED_FREE, RATIO_MAX * len(content)))


def text_of(content: bytes | None) -> str | None:
    """Return the text of a TextMessage; None for the null text.  Raises: FrameError."""
    if content is None or content[:SIZE] == b"\xff\xff\xff\xff":
        return None
    size = int.from_bytes(content[:SIZE], "big")
    if len(content) != SIZE + size:
        raise FrameError(f"a text announces {size} octets where {len(content) - SIZE} follow")
    try:
        return decode_text(content[SIZE:])
    except UnicodeDecodeError as error:
        raise FrameError(f"a text is not in modified UTF-8: {error.reason}") from None


def text_content(text: str) -> bytes:
    octets = encode_text(text)
    return len(octets).to_bytes(SIZE, "big") + octets
