"""A lake in an object store or in HDFS, through ``pyarrow.fs``.  A file is there when it is whole; none is renamed.

What must not be replaced is written with a condition that the store itself checks: see ``conditional``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from spark_bridge.errors import LakeError, TargetError
from spark_bridge.files.conditional import NO_CONNECTION, ConditionalStore
from spark_bridge.files.lake_files import FileStatus, LakeFiles, OutputFile
from spark_bridge.files.place import S3, Place, s3_access
from spark_bridge.files.region import region_of

CONNECT_LIMIT_S: Final = 10
REQUEST_LIMIT_S: Final = 60
ATTEMPTS: Final = 4
# Words of Arrow's messages, and what they mean.
REASONS: Final = {
    "NO_SUCH_BUCKET": "there is no such bucket",
    "ACCESS_DENIED": "access is denied: no credentials, or they lack the right",
    "INVALID_ACCESS_KEY_ID": "the access key is not known",
    "SIGNATURE_DOES_NOT_MATCH": "the secret key is wrong",
    "NETWORK_CONNECTION": NO_CONNECTION,
    "REQUEST_TIMEOUT": "the object store did not answer in time",
}


class ObjectFiles(LakeFiles):
    """Opened where it is used: a copy sent to another process opens its own connections."""

    is_remote = True

    def __init__(self, place: Place) -> None:
        self._place = place
        self.title = place.title()
        self.identity = place.identity()
        self._opened: tuple[fs.FileSystem, str] | None = None
        self._conditional: ConditionalStore | None = None
        self._has_bucket = False
        self._is_checked = False

    def __reduce__(self) -> tuple[type[ObjectFiles], tuple[Place]]:
        return ObjectFiles, (self._place,)

    def names(self, folder: str) -> list[str]:
        return sorted(found.base_name for found in self._listed(folder, False))

    def walk(self, folder: str) -> list[str]:
        start = len(self._path("")) + 1
        found = (one.path[start:].split("/") for one in self._listed(folder, True) if one.type == fs.FileType.File)
        return ["/".join(parts) for parts in sorted(found) if not any(part.startswith("_") for part in parts[:-1])]

    def sizes(self) -> dict[str, int]:
        """Return the octets of all files by path.  Raises: LakeError."""
        start = len(self._path("")) + 1
        return {one.path[start:]: one.size for one in self._listed("", True) if one.type == fs.FileType.File}

    def _listed(self, folder: str, is_recursive: bool) -> list[fs.FileInfo]:
        with self.told(f"list {folder or 'the files'}"):
            selector = fs.FileSelector(self._path(folder), allow_not_found=True, recursive=is_recursive)
            found: list[fs.FileInfo] = self._system().get_file_info(selector)
        if not found and not self._has_bucket:
            self._check_bucket()
        return found

    def _check_bucket(self) -> None:
        """Raise LakeError if the bucket is missing, which looks like an empty folder."""
        bucket = self._path("").partition("/")[0]
        with self.told("look for the bucket"):
            is_missing = bool(bucket) and self._system().get_file_info(bucket).type == fs.FileType.NotFound
        if is_missing:
            raise LakeError(f"cannot read {self.title}: {REASONS['NO_SUCH_BUCKET']}")
        self._has_bucket = True

    def status(self, path: str) -> FileStatus | None:
        with self.told(f"look for {path}"):
            found = self._system().get_file_info(self._path(path))
        if found.type != fs.FileType.File:
            return None
        return FileStatus(found.size, (found.mtime_ns or 0) // 1_000_000)

    def open(self, path: str) -> pa.NativeFile:
        with self.told(f"read {path}"):
            return self._system().open_input_file(self._path(path))

    def read(self, path: str) -> bytes:
        with self.told(f"read {path}"):
            return super().read(path)

    def write(self, path: str, octets: bytes) -> None:
        with self.told(f"write {path}"), self._system().open_output_stream(self._path(path)) as output:
            output.write(octets)

    def write_if_absent(self, path: str, octets: bytes) -> bool:
        """True also if the same octets are there: an answer that was lost is asked for again."""
        try:
            is_made = self._store().create(path, octets)
        except LakeError:
            if self._is(path, octets):
                return True
            raise
        return is_made or self._is(path, octets)

    def _is(self, path: str, octets: bytes) -> bool:
        with suppress(LakeError, FileNotFoundError):
            return self.read(path) == octets
        return False

    def output(self, path: str) -> OutputFile:
        with self.told(f"write {path}"):
            return _ObjectOutput(self, path, self._system().open_output_stream(self._path(path)))

    def delete(self, paths: Iterable[str]) -> None:
        self._store().delete(list(paths))

    def marks(self, path: str) -> set[str]:
        return set(self.names(path))

    def mark(self, path: str, text: str) -> None:
        self.write(f"{path}/{text}", b"")

    @contextmanager
    def hold(self, folder: str) -> Iterator[str]:
        """Make sure that the store keeps conditions; exports at once are kept apart by them, not here.

        Raises: TargetError if it does not; LakeError if this program may not write, or not delete.
        """
        if not self._is_checked:
            self._store().check(folder)
            self._is_checked = True
        yield token_hex(8)

    def narrow(self, folder: str, exported: Callable[[], Iterable[str]]) -> None:
        pass

    def reason(self, error: OSError) -> str:
        text = str(error)
        return next((reason for word, reason in REASONS.items() if word in text), text)

    def _path(self, path: str) -> str:
        self._system()
        assert self._opened is not None
        return f"{self._opened[1]}/{path}".rstrip("/")

    def _system(self) -> fs.FileSystem:
        if self._opened is None:
            with self.told("begin"):
                self._opened = _open_s3(self._place) if self._place.scheme == S3 else _open(self._place)
        return self._opened[0]

    def _store(self) -> ConditionalStore:
        if self._conditional is None:
            self._conditional = ConditionalStore(self._place)
        return self._conditional


def _open(place: Place) -> tuple[fs.FileSystem, str]:
    url = place.url.replace("gcs://", "gs://", 1) if place.scheme == "gcs" else place.url
    try:
        system, base = fs.FileSystem.from_uri(url)
    except (pa.ArrowException, NotImplementedError, ImportError) as error:
        raise TargetError(f"pyarrow cannot open {place.title()}: {error}") from None
    return system, base


def _open_s3(place: Place) -> tuple[fs.FileSystem, str]:
    access = s3_access(place)
    credentials = {"access_key": access.key, "secret_key": access.secret, "session_token": access.token or None}
    system = fs.S3FileSystem(
        **(credentials if access.key else {}),
        region=access.region or region_of(access.bucket, access.endpoint),
        scheme=access.scheme,
        endpoint_override=access.endpoint or None,
        connect_timeout=CONNECT_LIMIT_S,
        request_timeout=REQUEST_LIMIT_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        allow_delayed_open=True,  # a small file is one request, not three
    )
    return system, f"{access.bucket}/{access.prefix}".rstrip("/")


class _ObjectOutput(OutputFile):
    def __init__(self, files: ObjectFiles, path: str, stream: pa.NativeFile) -> None:
        self.stream: Any = stream
        self._files = files
        self._path = path

    def finish(self) -> int:
        with self._files.told(f"write {self._path}"):
            size = int(self.stream.tell())
            self.stream.close()
        return size

    def discard(self) -> None:
        with suppress(LakeError, OSError):
            self.stream.close()  # which makes an object of what was written
        with suppress(LakeError):
            self._files.delete([self._path])
