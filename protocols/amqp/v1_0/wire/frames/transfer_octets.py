"""What each transfer of the hot path needs of octets: one that is like the last one, and the head of one that is sent.

The ``plain_`` functions are the clear form.  Where there is a C compiler, native_transfer_octets.c is built and serves
instead: the same results (a property test says so) for a tenth of the instructions.
"""

from __future__ import annotations

from typing import Final

_TAG_HEAD: Final = b"\xa0\x04"  # binary of four octets


def plain_alike_id(
    octets: bytes, start: int, head: bytes, tag_head: bytes, tail: bytes, tail_at: int, frame_bytes: int
) -> int:
    """Return the delivery-id of the transfer at ``start``, -1 if it is not there whole or not like the last one.

    It is like the last one if it has ``head``, four octets of the delivery-id, ``tag_head``, a tag, and ``tail``.
    tail_at, frame_bytes: octets from ``start`` to the tail and to the end of the frame.
    """
    id_at = start + len(head)
    if (
        start + frame_bytes <= len(octets)
        and octets.startswith(head, start)
        and octets.startswith(tag_head, id_at + 4)
        and octets.startswith(tail, start + tail_at)
    ):
        return int.from_bytes(octets[id_at : id_at + 4], "big")
    return -1


def plain_transfer_head(frame_bytes: int, middle: bytes, delivery_id: int, flags: bytes) -> bytes:
    """Return the octets of a transfer from the frame's size to the last flag; its tag is its delivery-id."""
    number = delivery_id.to_bytes(4, "big")
    return frame_bytes.to_bytes(4, "big") + middle + number + _TAG_HEAD + number + flags


try:
    from protocols.amqp.v1_0.wire.frames.native_transfer_octets import alike_id, transfer_head
except ImportError:
    alike_id = plain_alike_id
    transfer_head = plain_transfer_head

__all__ = ["alike_id", "plain_alike_id", "plain_transfer_head", "transfer_head"]
