"""Feeds octets to the STOMP decoder in any pieces, and returns the frames as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from protocols.errors import FrameError
from protocols.stomp.codec.decoder import Decoder
from protocols.stomp.codec.frame_limits import FrameLimits
from protocols.stomp.codec.frames import NAMES, Frame


class Seen(NamedTuple):
    """All of a frame.  ``headers`` holds neither receipt nor content-length."""

    command: str
    headers: dict[str, str]
    body: bytes = b""
    receipt: bytes | None = None
    id: bytes | None = None
    block: bytes = b""
    has_length: bool = False


class Outcome(NamedTuple):
    """``error``: condition and text of the error that ended it, or None."""

    frames: list[Seen]
    error: tuple[str, str] | None


def seen(frame: Frame) -> Seen:
    head = frame.head
    assert frame.command == head.command
    assert head.is_plain == (b"\\" not in head.block)
    return Seen(
        NAMES[frame.command].decode(),
        head.headers,
        frame.body,
        frame.receipt,
        frame.id,
        head.block,
        head.content_length >= 0,
    )


def pieces(octets: bytes, size: int) -> Iterator[bytes]:
    """Cut ``octets``; without octets the result is one empty piece."""
    if not octets:
        yield b""
    for start in range(0, len(octets), size):
        yield octets[start : start + size]


def less_than(before_bytes: int, left_bytes: int) -> int:
    """Return what is left.  The law of progress: a frame takes octets, or a peer could hold everybody for ever."""
    assert left_bytes < before_bytes, f"a frame that takes no octets: {left_bytes} are left of {before_bytes}"
    return left_bytes


def decode(decoder: Decoder, octets: bytes, size: int = 0, *, is_slow: bool = False) -> Outcome:
    """Feed ``octets`` in pieces of ``size`` (0: at once) and take all frames after each piece."""
    frames: list[Seen] = []
    try:
        for piece in pieces(octets, size or len(octets) or 1):
            decoder.receive_data(piece)
            left_bytes = decoder.buffered_bytes()
            while (frame := decoder.next_frame_slow() if is_slow else decoder.next_frame()) is not None:
                frames.append(seen(frame))
                left_bytes = less_than(left_bytes, decoder.buffered_bytes())
    except FrameError as error:
        return Outcome(frames, (error.condition, str(error)))
    return Outcome(frames, None)


def decoder_of(version: int, limits: FrameLimits | None = None) -> Decoder:
    decoder = Decoder(limits)
    decoder.version = version
    return decoder
