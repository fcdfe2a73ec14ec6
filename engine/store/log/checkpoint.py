"""The checkpoint file: where recovery starts and where readers stop.  Layout: format/layout.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.store.disk.files import File, Files, read_fully, write_fully
from engine.store.format import layout
from engine.store.format.file_heads import Checkpoint, pack_checkpoint, unpack_checkpoint, unpack_slot

FILE_NAME: Final = "checkpoint"


@dataclass(slots=True, eq=False)
class CheckpointFile:
    """The open checkpoint file, and the values of its next slot, which ``publish`` numbers.

    The slots are written alternately, and both are on the disk before either is written without a sync.  So one slot is
    whole even after a power cut that tears the other one.
    """

    _files: Files
    _directory: str
    path: str = field(init=False)
    values: Checkpoint = field(init=False)
    _file: File | None = None
    _next_slot: int = 0

    def __post_init__(self) -> None:
        self.path = f"{self._directory}/{FILE_NAME}"
        self.values = Checkpoint(0, False, 0, 0, 0, 0, 0, 0)

    def load(self) -> Checkpoint | None:
        """Open the file, or make it if it is missing; return its content."""
        if not self._files.exists(self.path):
            self._file = self._files.create(self.path)
            return None
        self._file = self._files.open(self.path)
        octets = read_fully(self._file, 2 * layout.CHECKPOINT_SLOT_BYTES, 0)
        found = unpack_checkpoint(octets, self.path)
        if found is not None:
            self.values.generation = found.generation
            self._next_slot = 1 if unpack_slot(octets, 0, self.path) == found else 0
        return found

    def begin(self) -> None:
        """Publish the values in both slots, and make them survive a power cut.

        A slot of an earlier start might be the only one left after it, and would say that nothing was written after a
        clean stop, or have this start's count given to the next one.
        """
        for _ in range(2):
            self.publish()
            self.sync()

    def publish(self, is_clean: bool = False) -> None:
        """Write the values into the older slot; not synced."""
        assert self._file is not None
        values = self.values
        values.generation += 1
        values.is_clean = is_clean
        write_fully(self._file, pack_checkpoint(values), self._next_slot * layout.CHECKPOINT_SLOT_BYTES)
        self._next_slot = 1 - self._next_slot

    def sync(self) -> None:
        """Make what was published, and the file itself, survive a power cut."""
        assert self._file is not None
        self._file.fsync()
        self._files.sync_directory(self._directory)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
