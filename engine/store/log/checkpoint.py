"""The checkpoint file: where recovery starts and where readers stop.  Layout: format/layout.py."""

from __future__ import annotations

from typing import Final

from crc32c import crc32c

from engine.store.disk.files import File, Files, read_fully, write_fully
from engine.store.format import layout
from engine.store.format.file_heads import Checkpoint, unpack_checkpoint, unpack_slot

FILE_NAME: Final = "checkpoint"


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


class CheckpointFile:
    """The open checkpoint file, and the values of its next slot.

    The slots are written alternately, and both are on the disk before either is written without a sync.  So one slot is
    whole even after a power cut that tears the other one.
    """

    __slots__ = (
        "path",
        "durable_offset",
        "durable_time_ms",
        "next_sequence",
        "consume_queue_offset",
        "first_offset",
        "start_count",
        "version",
        "_files",
        "_directory",
        "_file",
        "_generation",
        "_next_slot",
        "_are_both_open",
    )

    def __init__(self, files: Files, directory: str) -> None:
        self.path = f"{directory}/{FILE_NAME}"
        self.durable_offset = 0
        self.durable_time_ms = 0
        self.next_sequence = 0
        self.consume_queue_offset = 0
        self.first_offset = 0
        self.start_count = 0
        self.version = layout.FORMAT_VERSION
        self._files = files
        self._directory = directory
        self._file: File | None = None
        self._generation = 0
        self._next_slot = 0
        self._are_both_open = False

    def load(self) -> Checkpoint | None:
        """Open the file, or make it if it is missing; return its content."""
        if not self._files.exists(self.path):
            self._file = self._files.create(self.path)
            return None
        self._file = self._files.open(self.path)
        octets = read_fully(self._file, 2 * layout.CHECKPOINT_SLOT_BYTES, 0)
        found = unpack_checkpoint(octets, self.path)
        if found is not None:
            self._generation = found.generation
            slots = [unpack_slot(octets, start, self.path) for start in (0, layout.CHECKPOINT_SLOT_BYTES)]
            self._next_slot = 1 if slots[0] == found else 0
            self._are_both_open = all(slot is not None and not slot.is_clean for slot in slots)
        return found

    def begin(self) -> None:
        """Publish the values and make them survive a power cut; in both slots, if one is not whole or says "clean".

        After a power cut that slot might be the only one left, and would say that nothing was written after it.
        """
        self.publish()
        self.sync()
        if not self._are_both_open:
            self.publish()
            self.sync()
            self._are_both_open = True

    def publish(self, is_clean: bool = False) -> None:
        """Write the values into the older slot; not synced."""
        assert self._file is not None
        values = Checkpoint(
            self._generation + 1,
            is_clean,
            self.durable_offset,
            self.durable_time_ms,
            self.next_sequence,
            self.consume_queue_offset,
            self.first_offset,
            self.start_count,
            self.version,
        )
        write_fully(self._file, pack_checkpoint(values), self._next_slot * layout.CHECKPOINT_SLOT_BYTES)
        self._generation += 1
        self._next_slot = 1 - self._next_slot

    def sync(self) -> None:
        """Make what was published, and the file itself, survive a power cut."""
        assert self._file is not None
        self._file.fsync()
        self._files.sync_directory(self._directory)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
