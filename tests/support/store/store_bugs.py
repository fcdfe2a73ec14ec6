"""Planted bugs of the store: mistakes in its file layer, at its interface and in recovery that histories must find."""

from __future__ import annotations

from engine.ports.store import Store
from engine.store.disk.files import Files
from engine.values.stored import Range
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.disk.files_wrapper import FilesWrapper, FileWrapper
from tests.support.store.store_history import Bug
from tests.support.store.store_records import ignore_commits, records, sign
from tests.support.store.store_world import RecordingListener
from tests.support.world.store import StoreWrapper


class ReceiptBeforeSync(Bug):
    """A confirmation is sent once its record is written, not once it survives a power cut."""

    def confirmed_offset(self, store: Store, listener: RecordingListener) -> int:
        return store.written_offset()


class SettlementLost(Bug):
    """Some settlements are not logged."""

    class Wrapper(StoreWrapper):
        def settle(self, destination_id: int, consumer_id: int, outcome: int, cause: int, ranges: list[Range]) -> None:
            if ranges[0].first % 5 != 3:
                super().settle(destination_id, consumer_id, outcome, cause, ranges)

    def store(self, store: Store) -> Store:
        return self.Wrapper(store)


class CrcUnchecked(Bug):
    """Recovery accepts every record with a correct header, as if the checksum were never compared."""

    def disk_found(self, disk: FaultyFiles) -> None:
        for octets, position, size in records(disk):
            sign(octets, position, size)


class TornTailAccepted(Bug):
    """Recovery accepts the last record of each segment as whole, although only its head was written."""

    def disk_found(self, disk: FaultyFiles) -> None:
        last = {id(octets): (octets, position, size) for octets, position, size in records(disk)}
        for octets, position, size in last.values():
            sign(octets, position, size)


class TransactionHalfRecovered(Bug):
    """Recovery accepts the records of a transaction without a commit record."""

    def disk_found(self, disk: FaultyFiles) -> None:
        ignore_commits(disk)


class FileBug(Bug):
    """A system call that a careless store would omit, or whose result it would ignore."""

    layer: type[FilesWrapper]

    def files(self, disk: FaultyFiles) -> Files:
        return self.layer(disk)


class DirectorySyncForgotten(FileBug):
    """Names are never synced."""

    class Layer(FilesWrapper):
        def sync_directory(self, path: str) -> None:
            pass

    layer = Layer


class RenamedBeforeSync(FileBug):
    """A file that is made under another name is renamed into place before its content is on the disk."""

    class Layer(FilesWrapper):
        class Unsynced(FileWrapper):
            def fsync(self) -> None:
                if not self.path.endswith((".new", ".prepared")):
                    self.inner.fsync()

        file_class = Unsynced

    layer = Layer


class SyncErrorIgnored(FileBug):
    """A failed sync counts as successful, or is simply repeated."""

    class Layer(FilesWrapper):
        class Deaf(FileWrapper):
            def fdatasync(self) -> None:
                try:
                    self.inner.fdatasync()
                except OSError:
                    self.inner.fdatasync()

            def fsync(self) -> None:
                try:
                    self.inner.fsync()
                except OSError:
                    self.inner.fsync()

        file_class = Deaf

    layer = Layer


class ShortWriteIgnored(FileBug):
    """The rest of a short write is never written."""

    class Layer(FilesWrapper):
        class Trusting(FileWrapper):
            def pwrite(self, octets: bytes | memoryview, position: int) -> int:
                self.inner.pwrite(octets, position)
                return len(octets)

        file_class = Trusting

    layer = Layer


class WriteErrorIgnored(FileBug):
    """A failed write counts as successful."""

    class Layer(FilesWrapper):
        class Hopeful(FileWrapper):
            def pwrite(self, octets: bytes | memoryview, position: int) -> int:
                try:
                    return self.inner.pwrite(octets, position)
                except OSError:
                    return len(octets)

        file_class = Hopeful

    layer = Layer


class ReadErrorIsTheEnd(FileBug):
    """An unreadable file counts as a missing one."""

    class Layer(FilesWrapper):
        class Blind(FileWrapper):
            def pread(self, size: int, position: int) -> bytes:
                try:
                    return self.inner.pread(size, position)
                except OSError:
                    return b""

        file_class = Blind

    layer = Layer
