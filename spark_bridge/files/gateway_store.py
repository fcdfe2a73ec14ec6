"""The files of a running gateway's store, by ranges over HTTP: ``http://USER:PASSWORD@HOST:PORT``.

The list is that of one moment and brings the checkpoint that was read before it.  What is below that checkpoint stays
as it is, unless the gateway's retention drops or thins a segment; a range of such a file is an error that names it.

A gateway that was killed begins by cutting off the room after its last record, and by making the newest entries of
consume queues again in files that replace the old ones.  Readers wait for these: below the checkpoint they are equal.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import quote

from engine.store.format.file_heads import HEADS_BYTES, unpack_checkpoint
from engine.store.read.segment_files import CHECKPOINT_TRIES
from spark_bridge.errors import LakeError, ListOutdated
from spark_bridge.files.gateway_client import PATIENT_ATTEMPTS, PAUSE_S, Answer, GatewayClient
from spark_bridge.files.store_ranges import RangedFiles

if TYPE_CHECKING:
    from spark_bridge.files.gateway_lease import GatewayLease

CHECKPOINT: Final = "checkpoint"
SEGMENTS: Final = "commitlog/"
QUEUES: Final = "consumequeue/"
RANGE_GIVEN: Final = re.compile(r"bytes (?:([0-9]+)-[0-9]+|\*)/([0-9]+)")
TOO_OLD: Final = "it is no gateway, or one of an older version, which gives no files"
HeadKey = tuple[str, int, str]
NO_FILE: Final = (-1, "")  # size and tag
PART: Final = 206
NOT_FOUND: Final = 404
PAST_END: Final = 416  # of the file
DROPPED: Final = "its retention has dropped it"
NO_HEADS: Final[Mapping[HeadKey, bytes]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Listed:
    """The answer to the list.  files: octets and tag by path."""

    checkpoint: bytes
    files: dict[str, tuple[int, str]]

    def entries_offset(self) -> int:
        """Return the log offset below which the consume queues have all entries."""
        found = unpack_checkpoint(self.checkpoint, CHECKPOINT)
        return 0 if found is None else found.consume_queue_offset


class GatewayStore:
    """Opened where it is used: a copy sent to another process opens its own connection, with the same login and list.

    Raises: TargetError for a wrong URL; LakeError.
    """

    def __init__(
        self, url: str | GatewayClient, environment: Mapping[str, str] = os.environ, pause_s: float = PAUSE_S
    ) -> None:
        self.client = url if isinstance(url, GatewayClient) else GatewayClient(url, environment, pause_s)
        self.title = self.client.title
        self._listed = self._list()

    def sizes(self) -> dict[str, int]:
        """Return the octets of all files by path, as listed."""
        return {path: size for path, (size, _) in self._listed.files.items()} | {
            CHECKPOINT: len(self._listed.checkpoint)
        }

    def segments(self) -> list[HeadKey]:
        """Return path, size and tag of the segments in the order of the log."""
        files = self._listed.files
        return sorted((path, *files[path]) for path in files if path.startswith(SEGMENTS))

    def told(self, what: str) -> AbstractContextManager[None]:
        return nullcontext()  # its errors say what was asked for

    def lease(self, reader: str, from_offset: int, lease_ms: int) -> GatewayLease:
        """Ask retention to keep the log while it is read."""
        from spark_bridge.files.gateway_lease import GatewayLease  # workers have neither it nor a lease

        return GatewayLease(self.client.another(), reader, from_offset, lease_ms)

    def open(self, path: str) -> GatewayFile:
        return GatewayFile(self, path)

    def read_at(self, path: str, size: int, position: int) -> bytes:
        """Return octets of a file.  Raises: ListOutdated if retention has dropped or changed it; LakeError."""
        if path == CHECKPOINT:
            return self._listed.checkpoint[position : position + size]
        found = b""
        while len(found) < size:
            part = self._part(path, position + len(found), position + size - 1)
            if not part:
                return found.ljust(size, b"\0")  # as room that was not used
            found = part if not found else found + part
        return found

    def _part(self, path: str, first: int, last: int) -> bytes:
        """Return the beginning of a range; nothing where a start has cut off the room after the last record."""
        for _ in range(PATIENT_ATTEMPTS):
            size, tag = self._listed.files[path]
            answer = self.client.get(f"/api/store/file?path={quote(path, safe='')}", f"bytes={first}-{last}")
            size_now, tag_now = self._file_now(path, first, answer)
            if tag_now == tag and (size_now >= size or path.startswith(SEGMENTS)):
                return answer.octets if answer.status == PART else b""
            if not path.startswith(QUEUES):
                break
            self._wait_for_entries(path)
        raise self._gone(path, DROPPED if size_now < 0 else "its retention has removed messages from it")

    def _file_now(self, path: str, first: int, answer: Answer) -> tuple[int, str]:
        """Return size and tag of the file of a range, NO_FILE if there is none.  Raises: LakeError."""
        if answer.status == NOT_FOUND:
            return NO_FILE
        given = RANGE_GIVEN.fullmatch(answer.headers.get("content-range", ""))
        if given is None or answer.status not in (PART, PAST_END):
            raise _failed(self.client, f"read {path}", answer)
        if answer.status == PART and (given[1] != str(first) or not answer.octets):
            raise _failed(self.client, f"read {path}", answer)
        return int(given[2]), answer.headers.get("etag", "").removeprefix('W/"').removesuffix('"')

    def _wait_for_entries(self, path: str) -> None:
        """Wait until a consume queue has its entries again.  Raises: ListOutdated, LakeError."""
        for attempt in range(1, PATIENT_ATTEMPTS + 1):
            now = self._list()
            if now.entries_offset() >= self._listed.entries_offset():
                break
            self.client.pause(attempt)
        size = now.files.get(path, NO_FILE)[0]
        if size < self._listed.files[path][0]:
            raise self._gone(path, DROPPED if size < 0 else "entries of it were removed")
        again = (each for each in now.files if each.startswith(QUEUES) and each in self._listed.files)
        self._listed.files.update((each, (self._listed.files[each][0], now.files[each][1])) for each in again)

    def _gone(self, path: str, what: str) -> ListOutdated:
        name = path.rpartition("/")[2].partition(".")[0]
        offsets = f"log offsets from {int(name)} on" if path.startswith(SEGMENTS) else "parts of the log"
        return ListOutdated(
            f"{offsets} are gone: since {self.title} listed {path}, {what}; a new read takes what is left"
        )

    def _list(self) -> Listed:
        answer = self.client.get("/api/store/files")
        if answer.status != 200:
            raise _failed(self.client, "list the files", answer)
        try:
            told = json.loads(answer.octets)
            files = {str(one["path"]): (int(one["size"]), str(one["tag"])) for one in told["files"]}
            return Listed(base64.b64decode(told["checkpoint"], validate=True), files)
        except (ValueError, TypeError, KeyError):
            raise LakeError(f"cannot list the files of {self.title}: {TOO_OLD}") from None


class GatewayFile:
    def __init__(self, store: GatewayStore, path: str) -> None:
        self._store = store
        self._path = path

    def read_at(self, size: int, position: int) -> bytes:
        return self._store.read_at(self._path, size, position)


class GatewayRanges(RangedFiles):
    """The gateway has the store open, so its checkpoint says how far the log may be read.

    heads: of segments that are written, known from an earlier list: by path, size and tag.  Those that are gone are
    left out, and those that are read come to them.
    """

    is_live: ClassVar[bool] = True

    def __init__(
        self, store: GatewayStore, sizes: Mapping[str, int] | None = None, heads: Mapping[HeadKey, bytes] = NO_HEADS
    ) -> None:
        super().__init__(store, sizes)
        self.gateway = store
        listed = store.segments()
        self._keys = {key[0]: key for key in listed[:-1]}  # the last one is being written
        self.heads = {key: heads[key] for key in self._keys.values() if key in heads}

    def head(self, path: str, size: int) -> bytes:
        key = self._keys.get(path)
        if key is None or size > HEADS_BYTES:
            return super().head(path, size)
        if key not in self.heads:
            self.heads[key] = self.octets(path, 0, min(HEADS_BYTES, self.size(path)))
        return self.heads[key][:size]


def published_end(client: GatewayClient) -> int:
    """Return the log offset up to which a gateway's log may be read now.  Raises: LakeError, StoreCorrupt."""
    for _ in range(CHECKPOINT_TRIES):  # the gateway overwrites one slot while it reads the other
        answer = client.get(f"/api/store/file?path={CHECKPOINT}")
        if answer.status != 200:
            raise _failed(client, f"read {CHECKPOINT}", answer)
        if (found := unpack_checkpoint(answer.octets, f"{client.title}/{CHECKPOINT}")) is not None:
            return found.durable_offset
    raise LakeError(f"cannot read {CHECKPOINT} of {client.title}: it is no checkpoint")


def _failed(client: GatewayClient, what: str, answer: Answer) -> LakeError:
    reason = TOO_OLD if answer.status == 404 else answer.detail()
    return LakeError(f"cannot {what} of {client.title}: it answers {answer.status}: {reason}")
