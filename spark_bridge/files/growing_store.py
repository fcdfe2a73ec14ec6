"""A store that a gateway adds to, as whoever follows it sees it: where its log ends, and its files as they are now.

It also says how far it has been read.  Workers load this module, and say nothing.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from engine.store.disk.directory_lock import is_held
from engine.store.read.reader import StoreReader
from engine.store.read.segment_files import read_checkpoint
from engine.store.read.store_files import RemotePath
from spark_bridge.errors import TargetError
from spark_bridge.files.gateway_client import GatewayClient
from spark_bridge.files.gateway_store import NO_HEADS, GatewayRanges, GatewayStore, HeadKey, published_end
from spark_bridge.files.place import is_gateway, is_url

if TYPE_CHECKING:
    from engine.store.read.export_watermarks import Watermark

ALLOWED: Final = "the directory of a store, or http://USER@HOST:PORT"
LOOK_INTERVAL_S: Final = 0.2  # Spark asks for the end of the log a hundred times a second


class GrowingStore(ABC):
    """It may be sent to other processes."""

    @abstractmethod
    def end(self) -> tuple[str, int]:
        """Return the id of the store, and the offset where its log ends.  Raises: StoreError, LakeError."""

    @abstractmethod
    def now(self) -> Path:
        """Return the path of the store as it is now.  Raises: LakeError."""

    @abstractmethod
    def begin(self, store_id: str, mark: Watermark) -> None:
        """Say where a reader begins.  Raises: OSError, LakeError."""

    @abstractmethod
    def advance(self, store_id: str, mark: Watermark) -> None:
        """Say that a reader has gone on.  Raises: OSError, LakeError."""


class LocalStore(GrowingStore):
    """A directory of this machine."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: tuple[object, tuple[str, int]] | None = None

    def end(self) -> tuple[str, int]:
        # Spark asks every few milliseconds, and a list of segments takes long where there are many.
        state = (read_checkpoint(self._directory / "checkpoint"), is_held(self._directory / "lock"))
        if self._seen is None or self._seen[0] != state:
            reader = StoreReader(self._directory)
            self._seen = state, (reader.store_id, reader.end().offset)
        return self._seen[1]

    def now(self) -> Path:
        return self._directory

    def begin(self, store_id: str, mark: Watermark) -> None:
        from engine.store.read.export_watermarks import write_watermark

        write_watermark(self._directory, store_id, mark)

    def advance(self, store_id: str, mark: Watermark) -> None:
        self.begin(store_id, mark)


class StoreOfGateway(GrowingStore):
    """That of a gateway elsewhere.  One connection stays open, and a gateway that has answered once is waited for."""

    def __init__(self, client: GatewayClient, look_interval_s: float = LOOK_INTERVAL_S) -> None:
        self._client = client
        self._look_interval_s = look_interval_s
        self._heads: Mapping[HeadKey, bytes] = NO_HEADS
        self._store_id = ""
        self._end = 0
        self._looked_s = 0.0

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_heads": {}}

    def end(self) -> tuple[str, int]:
        if not self._store_id:
            reader = StoreReader(self.now())
            self._store_id, self._end = reader.store_id, reader.end().offset
        elif monotonic() - self._looked_s >= self._look_interval_s:
            self._end = published_end(self._client)
        else:
            return self._store_id, self._end
        self._looked_s = monotonic()
        return self._store_id, self._end

    def now(self) -> Path:
        files = GatewayRanges(GatewayStore(self._client), heads=self._heads)
        self._heads = files.heads
        return RemotePath.of(files)

    def begin(self, store_id: str, mark: Watermark) -> None:
        from spark_bridge.files.gateway_readers import begin

        begin(self._client, store_id, mark)

    def advance(self, store_id: str, mark: Watermark) -> None:
        from spark_bridge.files.gateway_readers import advance

        advance(self._client, store_id, mark)


def growing_store(place: str | Path) -> GrowingStore:
    """Return a store by its directory, or by the URL of its gateway.  Raises: TargetError for another URL."""
    text = os.fspath(place)
    if is_gateway(text):
        return StoreOfGateway(GatewayClient(text))
    if is_url(text):
        raise TargetError(f"nobody adds to a copy in {text.partition(':')[0]}://; allowed is {ALLOWED}")
    return LocalStore(Path(text).absolute())
