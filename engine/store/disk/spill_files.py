"""Temporary files for messages that are not logged: written once, never synced, gone with the process.

Blocks are appended to files of FILE_BYTES.  A file is removed once none of its blocks is needed.  Files left by a
killed process are removed at the next start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from struct import Struct
from typing import Final

from crc32c import crc32c

from engine.ports.temp_store import SpilledBlock, SpillListener, SpillSpace
from engine.ports.workers import FILE_LANE, READ_LANE, Job, Workers
from engine.store.disk.disk_job import DiskJob
from engine.store.disk.files import Files, describe, read_file, write_fully
from engine.values.message import Message

FOLDER: Final = "spill"
SUFFIX: Final = ".spill"
FILE_BYTES: Final = 16 << 20  # a file of this size gets no more blocks
# position, destination, encoding, priority, flags, tag, group, expires, store time, serial, log offset, queue offset,
# then the lengths of the parts
HEAD: Final = Struct("<qiBBHIIqqqqqIII")
CRC: Final = Struct("<I")


def pack_messages(messages: list[Message], positions: list[int]) -> bytes:
    """Return consecutive messages with their positions, and a checksum."""
    parts: list[bytes] = []
    for position, each in zip(positions, messages, strict=True):
        parts += (
            HEAD.pack(
                position,
                each.destination_id,
                each.encoding,
                each.priority,
                each.flags,
                each.tag_hash,
                each.group_hash,
                each.expires_ms,
                each.store_time_ms,
                each.serial,
                each.log_offset,
                each.queue_offset,
                len(each.annotations),
                len(each.headers),
                len(each.body),
            ),
            each.annotations,
            each.headers,
            each.body,
        )
    octets = b"".join(parts)
    return octets + CRC.pack(crc32c(octets))


def unpack_messages(octets: bytes, count: int) -> tuple[list[Message], list[int]]:
    """Return what was packed.  Raises: ValueError."""
    end = len(octets) - CRC.size
    if end < 0 or CRC.unpack_from(octets, end)[0] != crc32c(memoryview(octets)[:end]):
        raise ValueError("the checksum of a block does not match")
    messages: list[Message] = []
    positions: list[int] = []
    at = 0
    for _ in range(count):
        (
            position,
            number,
            encoding,
            priority,
            flags,
            tag,
            group,
            expires,
            stored,
            serial,
            log_offset,
            queue_offset,
            *(lengths),
        ) = HEAD.unpack_from(octets, at)
        headers_at = at + HEAD.size + lengths[0]
        body_at = headers_at + lengths[1]
        message = Message(
            number,
            encoding,
            flags,
            priority,
            tag,
            group,
            expires,
            octets[at + HEAD.size : headers_at],
            octets[headers_at:body_at],
            octets[body_at : body_at + lengths[2]],
        )
        message.store_time_ms = stored
        message.serial = serial
        message.log_offset = log_offset
        message.queue_offset = queue_offset
        messages.append(message)
        positions.append(position)
        at = body_at + lengths[2]
    return messages, positions


class SpillFiles(SpillSpace):
    """Temporary files in their own directory.  _wanted: by number of a file, its blocks still needed or under way."""

    __slots__ = ("_files", "_directory", "_workers", "_listener", "_number", "_used", "_wanted", "_is_made")

    def __init__(self, files: Files, directory: str, workers: Workers) -> None:
        """Raises: OSError if files of an earlier process cannot be removed."""
        self._files = files
        self._directory = f"{directory}/{FOLDER}"
        self._workers = workers
        self._listener: SpillListener | None = None
        self._number = 0
        self._used = 0
        self._wanted: dict[int, int] = {}
        self._is_made = False
        self.remove_all()

    def attach(self, listener: SpillListener) -> None:
        self._listener = listener

    def remove_all(self) -> None:
        for name in self._files.list_directory(self._directory):
            if name.endswith(SUFFIX):
                self._files.unlink(f"{self._directory}/{name}")

    def path(self, number: int) -> str:
        return f"{self._directory}/{number:08d}{SUFFIX}"

    def write(self, block: SpilledBlock) -> None:
        assert self._listener is not None, "the answer needs a listener"
        octets = pack_messages(block.messages, block.positions)
        if self._used >= FILE_BYTES:
            self._number += 1
            self._used = 0
        block.file_number = self._number
        block.place = self._used
        block.length = len(octets)
        self._used += len(octets)
        self._wanted[self._number] = self._wanted.get(self._number, 0) + 1
        directory = "" if self._is_made else self._directory
        self._is_made = True
        path = self.path(self._number)
        work = partial(_write, self._files, directory, path, octets, block.place)
        self._workers.submit(DiskJob(work, partial(self._wrote, block), path), FILE_LANE)

    def _wrote(self, block: SpilledBlock, _: None, reason: str) -> None:
        if reason:
            self._is_made = False
            self._let_go(block.file_number)
        assert self._listener is not None
        self._listener.written(block, reason)

    def read(self, block: SpilledBlock) -> None:
        assert self._listener is not None, "the answer needs a listener"
        self._workers.submit(ReadJob(self._listener, self._files, self.path(block.file_number), block), READ_LANE)

    def free(self, block: SpilledBlock) -> None:
        self._let_go(block.file_number)

    def _let_go(self, number: int) -> None:
        self._wanted[number] -= 1
        if not self._wanted[number]:
            del self._wanted[number]
            if number == self._number:
                self._number += 1
                self._used = 0
            # If that fails, the next start removes it.
            self._workers.submit(DiskJob(partial(self._files.unlink, self.path(number))), FILE_LANE)


def _write(files: Files, directory: str, path: str, octets: bytes, place: int) -> None:
    """Write one block, without a sync, as nothing is promised to survive.  directory: to be made, "" if it is there."""
    if directory:
        files.make_directory(directory)
    file = files.open(path) if files.exists(path) else files.create(path)
    try:
        write_fully(file, octets, place)
    finally:
        file.close()


@dataclass(slots=True, eq=False)
class ReadJob(Job):
    """Reads one block.  After a refusal of the disk it may be tried again; a missing or altered block is lost."""

    _listener: SpillListener
    _files: Files
    _path: str
    _block: SpilledBlock
    _messages: list[Message] = field(default_factory=list)
    _positions: list[int] = field(default_factory=list)
    _reason: str = ""
    _is_lost: bool = False

    def run(self) -> None:
        try:
            octets = read_file(self._files, self._path, self._block.length, self._block.place)
            self._messages, self._positions = unpack_messages(octets, self._block.count)
        except OSError as error:
            self._reason = describe(error, self._path)
            self._is_lost = isinstance(error, FileNotFoundError)
        except ValueError as error:
            self._reason = f"{self._path}, position {self._block.place}: {error}"
            self._is_lost = True

    def finish(self) -> None:
        if self._reason:
            self._listener.refused(self._block, self._reason, self._is_lost)
        else:
            self._listener.loaded(self._block, self._positions, self._messages)
