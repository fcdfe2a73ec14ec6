"""A message's record in the log, and the entry of its consume queue.  Layout: layout.py.

The ``plain_`` functions are the clear form.  Where there is a C compiler, native_message_record.c is built and serves
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
UNPACK_RECORD: Final = layout.MESSAGE_RECORD.unpack_from
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


def plain_read_message(
    octets: bytes,
    start: int,
    size: int,
    destination_id: int,
    priority: int,
    log_offset: int,
    queue_offset: int,
    body_max: int,
) -> tuple[int, int, int, int, int, int, bytes, bytes, bytes | None]:
    """Read the record of ``size`` octets at ``start``, which must be that of the entry with these numbers.

    Return encoding, flags, store time, tag hash, group hash, expires, annotations, headers and body.  The body is None
    if it is longer than ``body_max``: then it is the record's end.  Raises: ValueError with the flaw of the record.
    """
    if start + size > len(octets) or size < layout.MESSAGE_HEAD_BYTES:
        raise ValueError("the record reaches past the end of the file")
    (
        record_size,
        crc,
        record_type,
        encoding,
        flags,
        record_destination,
        record_offset,
        time_ms,
        annotations_bytes,
        headers_bytes,
        body_bytes,
        record_priority,
        tag_hash,
        group_hash,
        expires_ms,
        record_queue_offset,
    ) = UNPACK_RECORD(octets, start)
    if record_size != size or crc32c(memoryview(octets)[start + 8 : start + size]) != crc:
        raise ValueError("its checksum does not match")
    at_headers = start + layout.MESSAGE_HEAD_BYTES + annotations_bytes
    at_body = at_headers + headers_bytes
    if (
        record_queue_offset != queue_offset
        or record_type != MESSAGE
        or record_destination != destination_id
        or record_priority != priority
        or record_offset != log_offset
        or at_body + body_bytes != start + size
    ):
        raise ValueError("it is not the record of its entry")
    return (
        encoding,
        flags,
        time_ms,
        tag_hash,
        group_hash,
        expires_ms,
        octets[start + layout.MESSAGE_HEAD_BYTES : at_headers],
        octets[at_headers:at_body],
        octets[at_body : start + size] if body_bytes <= body_max else None,
    )


try:
    from engine.store.format.native_message_record import append_message, read_message
except ImportError:
    append_message = plain_append_message
    read_message = plain_read_message

__all__ = ["append_message", "plain_append_message", "plain_read_message", "read_message"]
