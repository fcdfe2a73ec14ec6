"""What an export of a gateway elsewhere tells its retention: a lease while it reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.store.read.selection import Selection
from engine.store.read.store_files import RemotePath, StoreFiles
from engine.values.errors import RangeGone
from spark_bridge.files.gateway_store import GatewayRanges
from spark_bridge.read.plan import Plan
from spark_bridge.retention_notes import RetentionNotes


class GatewayNotes(RetentionNotes):
    """Those of one target.  lease_ms: see ``Request``."""

    def __init__(self, files: StoreFiles, identity: str, lease_ms: int) -> None:
        assert isinstance(files, GatewayRanges)
        self._files = files
        self._reader = f"the export to {identity}"
        self._lease_ms = lease_ms

    @contextmanager
    def lease(self, store_id: str, start: int) -> Iterator[str]:
        if not self._lease_ms:
            yield ""
            return
        held = self._files.lease(self._reader, start, self._lease_ms)
        try:
            yield held.note
        except RangeGone as error:
            if not held.note:
                raise
            raise RangeGone(f"{error}; {held.note}") from None
        finally:
            held.end()

    def reached(self, chosen: Selection, plan: Plan) -> str:
        return ""  # that would let retention drop messages, which is no right of a reader


def notes_for(store: Path, identity: str, lease_ms: int, is_rehearsal: bool, token: str) -> RetentionNotes:
    """Return the notes for a store of this machine, of a gateway elsewhere, or of a copy, which nobody is to change."""
    files = store.files if isinstance(store, RemotePath) else None
    if files is not None and files.is_live and not is_rehearsal:
        return GatewayNotes(files, identity, lease_ms)
    return RetentionNotes(store, identity, lease_ms, is_rehearsal or files is not None, token)
