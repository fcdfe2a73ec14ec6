"""Records of a log on the disk, and changes to what a careless recovery would read: for planted bugs."""

from __future__ import annotations

from struct import Struct
from typing import Final

from crc32c import crc32c

from engine.store.format import layout
from engine.values.message import IN_TRANSACTION
from tests.support.disk.faulty_files import FaultyFiles

FLAGS: Final = Struct("<H")
FLAGS_POSITION: Final = 10


def records(disk: FaultyFiles) -> list[tuple[bytearray, int, int]]:
    """Return (octets of the file, position, size) of everything that looks like a record in its place."""
    found: list[tuple[bytearray, int, int]] = []
    for path in disk.paths(".log"):
        octets = disk.octets(path)
        base = int(path.rpartition("/")[2].removesuffix(".log"))
        position = layout.SEGMENT_HEADER_BYTES
        while position + layout.RECORD_HEADER_BYTES <= len(octets):
            size, _, _, _, _, _, offset, _, _ = layout.RECORD_HEADER.unpack_from(octets, position)
            is_record = offset == base + position - layout.SEGMENT_HEADER_BYTES and position + size <= len(octets)
            if size < layout.RECORD_HEADER_BYTES or not is_record:
                break
            found.append((octets, position, size))
            position += layout.padded(size)
    return found


def ignore_commits(disk: FaultyFiles) -> None:
    """Make whole records of a transaction without a commit record look as if they were in no transaction."""
    unfinished: dict[int, list[tuple[bytearray, int, int]]] = {}
    torn: set[int] = set()
    for octets, position, size in records(disk):
        if not is_whole(octets, position, size):
            torn.add(id(octets))  # no reader reads beyond it in this file
        if id(octets) in torn:
            continue
        if FLAGS.unpack_from(octets, position + FLAGS_POSITION)[0] & IN_TRANSACTION:
            unfinished.setdefault(id(octets), []).append((octets, position, size))
        else:
            unfinished.pop(id(octets), None)  # its commit record
    for several in unfinished.values():
        for octets, position, size in several:
            flags = FLAGS.unpack_from(octets, position + FLAGS_POSITION)[0]
            FLAGS.pack_into(octets, position + FLAGS_POSITION, flags & ~IN_TRANSACTION)
            sign(octets, position, size)


def is_whole(octets: bytearray, position: int, size: int) -> bool:
    """Say whether the checksum of a record matches."""
    crc = layout.RECORD_HEADER.unpack_from(octets, position)[1]
    return bool(crc32c(octets[position + 8 : position + size]) == crc)


def sign(octets: bytearray, position: int, size: int) -> None:
    """Make the checksum of a record match."""
    crc = crc32c(octets[position + 8 : position + size])
    layout.SIZE_AND_CRC.pack_into(octets, position, size, crc)
