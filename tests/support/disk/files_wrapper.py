"""A file layer that forwards every call; planted bugs of the store are subclasses of it."""

from __future__ import annotations

from engine.store.disk.files import File, Files, WholeSync


class FileWrapper(File):
    """path: at the opening; the file may have another name now."""

    def __init__(self, inner: File, path: str) -> None:
        self.inner = inner
        self.path = path

    def pwrite(self, octets: bytes | memoryview, position: int) -> int:
        return self.inner.pwrite(octets, position)

    def pread(self, size: int, position: int) -> bytes:
        return self.inner.pread(size, position)

    def preallocate(self, size: int) -> None:
        self.inner.preallocate(size)

    def truncate(self, size: int) -> None:
        self.inner.truncate(size)

    def size(self) -> int:
        return self.inner.size()

    def begin_write_back(self) -> None:
        self.inner.begin_write_back()

    def fdatasync(self) -> None:
        self.inner.fdatasync()

    def fsync(self) -> None:
        self.inner.fsync()

    def close(self) -> None:
        self.inner.close()


class FilesWrapper(Files):
    """file_class: the wrapper of opened files."""

    file_class: type[FileWrapper] = FileWrapper

    def __init__(self, inner: Files) -> None:
        self.inner = inner

    def create(self, path: str) -> File:
        return self.file_class(self.inner.create(path), path)

    def open(self, path: str) -> File:
        return self.file_class(self.inner.open(path), path)

    def open_to_read(self, path: str) -> File:
        return self.file_class(self.inner.open_to_read(path), path)

    def lock(self, path: str) -> File | None:
        return self.inner.lock(path)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def list_directory(self, path: str) -> list[str]:
        return self.inner.list_directory(path)

    def make_directory(self, path: str) -> None:
        self.inner.make_directory(path)

    def remove_directory(self, path: str) -> None:
        self.inner.remove_directory(path)

    def rename(self, source: str, target: str) -> None:
        self.inner.rename(source, target)

    def unlink(self, path: str) -> None:
        self.inner.unlink(path)

    def sync_directory(self, path: str) -> None:
        self.inner.sync_directory(path)

    def open_whole(self, path: str) -> WholeSync | None:
        return self.inner.open_whole(path)

    def random_bytes(self, count: int) -> bytes:
        return self.inner.random_bytes(count)

    def process_id(self) -> int:
        return self.inner.process_id()
