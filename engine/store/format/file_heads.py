"""The heads of a store's files: the checkpoint's slots, a segment's header, its seal.

The gateway and the readers both take these from here.  Spark workers load this module, so it imports nothing live.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.store.format import layout
from engine.store.format.checksum import crc32c
from engine.values.errors import StoreCorrupt


class NotWhole(StoreCorrupt):
    """Octets that are not a whole header or seal: damaged, or still being written."""


@dataclass(slots=True)
class Checkpoint:
    """One slot of the checkpoint.  Consume queues hold the entries of all records below ``consume_queue_offset``.

    first_offset: base of the oldest segment kept.  version: of the format, needed to read the store.
    """

    generation: int
    is_clean: bool
    durable_offset: int
    durable_time_ms: int
    next_sequence: int
    consume_queue_offset: int
    first_offset: int
    start_count: int
    version: int = layout.FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    is_continuation: bool
    is_sparse: bool
    base: int
    capacity: int
    store_id: str


@dataclass(frozen=True, slots=True)
class SparseHead:
    """Location of the table of a sparse segment.  message_count: messages that remain."""

    table_position: int
    table_bytes: int
    table_crc: int
    message_count: int


@dataclass(frozen=True, slots=True)
class Seal:
    """End of a segment's records, and the sequence of the record that follows in the log."""

    end: int
    next_sequence: int


HEADS_BYTES: Final = (
    layout.SPARSE_HEAD_POSITION + layout.SPARSE_HEAD.size + layout.CRC.size
)  # octets that are read here


def pack_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return one slot."""
    octets = layout.CHECKPOINT.pack(
        layout.CHECKPOINT_MAGIC,
        checkpoint.version,
        layout.CLEAN_STOP if checkpoint.is_clean else 0,
        checkpoint.generation,
        checkpoint.durable_offset,
        checkpoint.durable_time_ms,
        checkpoint.next_sequence,
        checkpoint.consume_queue_offset,
        checkpoint.first_offset,
        checkpoint.start_count,
    )
    return (octets + layout.CRC.pack(crc32c(octets))).ljust(layout.CHECKPOINT_SLOT_BYTES, b"\0")


def unpack_checkpoint(octets: bytes, path: str) -> Checkpoint | None:
    """Return the newer of the slots in the file's octets; None if none of them is whole.

    Raises: StoreCorrupt for a whole slot of another version.
    """
    slots = [unpack_slot(octets, start, path) for start in (0, layout.CHECKPOINT_SLOT_BYTES)]
    return max((slot for slot in slots if slot is not None), key=_generation, default=None)


def unpack_slot(octets: bytes, start: int, path: str) -> Checkpoint | None:
    """Return the slot at ``start``, None if it is not whole.

    Raises: StoreCorrupt for a whole slot of another version.
    """
    size = layout.CHECKPOINT.size
    body = octets[start : start + size]
    if len(octets) < start + size + layout.CRC.size or not body.startswith(layout.CHECKPOINT_MAGIC):
        return None
    if not _is_crc_right(octets[start:], size):
        return None
    _, version, flags, generation, durable, time_ms, sequence, entries, first, starts = layout.CHECKPOINT.unpack(body)
    if version > layout.NEWEST_VERSION:
        raise other_version(path, start + 8, version)
    is_clean = flags & layout.CLEAN_STOP != 0
    return Checkpoint(generation, is_clean, durable, time_ms, sequence, entries, first, starts, version)


def unpack_segment_header(octets: bytes, path: str) -> SegmentHeader:
    """Return the header in the first octets of a segment file.

    Raises: NotWhole, StoreCorrupt for another version.
    """
    size = layout.SEGMENT_HEADER.size
    magic = layout.SEGMENT_MAGIC
    if not octets.startswith(magic):
        seen = octets[: len(magic)]
        raise NotWhole(
            f"{path}, position 0: no segment header: the file begins with {seen!r}, a segment with {magic!r}"
        )
    if len(octets) < size + layout.CRC.size:
        raise NotWhole(f"{path}, position {len(octets)}: the file ends inside its segment header")
    _, version, flags, base, capacity, _, owner = layout.SEGMENT_HEADER.unpack_from(octets)
    if version > layout.NEWEST_VERSION:
        raise other_version(path, 8, version)
    if not _is_crc_right(octets, size):
        raise NotWhole(f"{path}, position {size}: the checksum of the segment header does not match")
    store_id = owner.rstrip(b"\0").decode("ascii", "replace")
    is_continuation = flags & layout.CONTINUATION != 0
    return SegmentHeader(is_continuation, flags & layout.SPARSE != 0, base, capacity, store_id)


def unpack_seal(octets: bytes, path: str) -> Seal | None:
    """Return the seal of a segment; None if it has none.

    octets: of the file from its beginning.
    Raises: NotWhole.
    """
    seal = octets[layout.SEAL_POSITION : layout.SEAL_POSITION + layout.SEAL.size + layout.CRC.size]
    if not any(seal):
        return None
    if len(seal) < layout.SEAL.size + layout.CRC.size or not _is_crc_right(seal, layout.SEAL.size):
        raise NotWhole(f"{path}, position {layout.SEAL_POSITION}: the checksum of the seal does not match")
    end, next_sequence = layout.SEAL.unpack_from(seal)
    return Seal(end, next_sequence)


def unpack_sparse_head(octets: bytes, path: str) -> SparseHead | None:
    """Return the location of a segment's table, None if it is not sparse.

    octets: the first HEADS_BYTES of the file, whose header was found whole.
    Raises: StoreCorrupt.
    """
    if not layout.SEGMENT_HEADER.unpack_from(octets)[2] & layout.SPARSE:
        return None
    head = octets[layout.SPARSE_HEAD_POSITION : HEADS_BYTES]
    if len(head) < HEADS_BYTES - layout.SPARSE_HEAD_POSITION or not _is_crc_right(head, layout.SPARSE_HEAD.size):
        place = layout.SPARSE_HEAD_POSITION
        raise StoreCorrupt(f"{path}, position {place}: the checksum of the table's location does not match")
    position, count, message_count, crc = layout.SPARSE_HEAD.unpack_from(head)
    return SparseHead(position, count * layout.RUN.size, crc, message_count)


def _is_crc_right(octets: bytes, size: int) -> bool:
    return bool(layout.CRC.unpack_from(octets, size)[0] == crc32c(octets[:size]))


def other_version(path: str, position: int, version: object) -> StoreCorrupt:
    """Return the error for a file of an unknown version; position: -1 for none."""
    place = f", position {position}" if position >= 0 else ""
    return StoreCorrupt(
        f"{path}{place}: version {version} of the format; "
        f"supported are {layout.FORMAT_VERSION} to {layout.NEWEST_VERSION}"
    )


def is_known_version(version: object) -> bool:
    """Return whether a version found in a file is supported."""
    return isinstance(version, int) and layout.FORMAT_VERSION <= version <= layout.NEWEST_VERSION


def _generation(checkpoint: Checkpoint) -> int:
    return checkpoint.generation
