"""Encodes what a message adds to the log: its record and the entry of its consume queue.  Layout: layout.py.

``plain_append_message`` is the clear form.  Where there is a C compiler, native_message_record.c is built and serves
instead: the same results (a property test says so) for a tenth of the instructions.
"""

from __future__ import annotations

from typing import Final

from crc32c import crc32c

from engine.store.format import layout

MESSAGE: Final = layout.MESSAGE
PACK_HEAD: Final = layout.MESSAGE_HEAD.pack
PACK_SIZE_AND_CRC: Final = layout.SIZE_AND_CRC.pack
PACK_ENTRY: Final = layout.ENTRY.pack
PADDING: Final = [bytes(-size & 7) for size in range(8)]


def plain_append_message(
    parts: list[bytes],
    entries: bytearray,
    encoding: int,
    flags: int,
    destination_id: int,
    log_offset: int,
    sequence: int,
    store_time_ms: int,
    annotations: bytes,
    headers: bytes,
    body: bytes,
    priority: int,
    tag_hash: int,
    group_hash: int,
    expires_ms: int,
    queue_offset: int,
) -> None:
    """Append a message's record with its padding to ``parts``, and its entry to ``entries``.

    Raises ``struct.error`` or ``OverflowError`` for a number that its field cannot hold; then nothing is appended.
    """
    annotations_bytes, headers_bytes, body_bytes = len(annotations), len(headers), len(body)
    size = layout.MESSAGE_HEAD_BYTES + annotations_bytes + headers_bytes + body_bytes
    head = PACK_HEAD(
        MESSAGE,
        encoding,
        flags,
        destination_id,
        log_offset,
        sequence,
        store_time_ms,
        annotations_bytes,
        headers_bytes,
        body_bytes,
        priority,
        tag_hash,
        group_hash,
        expires_ms,
        queue_offset,
    )
    entry = PACK_ENTRY(
        log_offset, size, flags & 255, priority, MESSAGE, ~flags & 255, tag_hash, group_hash, expires_ms, store_time_ms
    )
    crc = crc32c(annotations, crc32c(head)) if annotations else crc32c(head)
    crc = crc32c(body, crc32c(headers, crc))
    parts += (PACK_SIZE_AND_CRC(size, crc), head, annotations, headers, body, PADDING[size & 7])
    entries += entry


try:
    from engine.store.format.native_message_record import append_message
except ImportError:
    append_message = plain_append_message

__all__ = ["append_message", "plain_append_message"]
