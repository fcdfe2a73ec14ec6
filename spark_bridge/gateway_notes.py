"""What an export of a gateway elsewhere tells its retention: a lease while it reads, then how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from platform import node

from engine.store.read.export_watermarks import Watermark
from engine.store.read.selection import Selection
from engine.store.read.store_files import RemotePath, StoreFiles
from engine.values.errors import RangeGone
from spark_bridge.arrow.schema import MESSAGES
from spark_bridge.errors import LakeError
from spark_bridge.files.gateway_readers import begin
from spark_bridge.files.gateway_store import GatewayRanges
from spark_bridge.files.place import is_url
from spark_bridge.read.plan import Plan
from spark_bridge.retention_notes import RetentionNotes


class GatewayNotes(RetentionNotes):
    """Those of one target.  lease_ms: see ``Request``."""

    def __init__(self, files: StoreFiles, identity: str, lease_ms: int) -> None:
        assert isinstance(files, GatewayRanges)
        self._gateway = files.gateway
        self._identity = identity
        self._reader = f"the export to {identity}"
        self._lease_ms = lease_ms

    @contextmanager
    def lease(self, store_id: str, start: int) -> Iterator[str]:
        if not self._lease_ms:
            yield ""
            return
        held = self._gateway.lease(self._reader, start, self._lease_ms)
        try:
            yield held.note
        except RangeGone as error:
            if not held.note:
                raise
            raise type(error)(f"{error}; {held.note}") from None
        finally:
            held.end()

    def reached(self, chosen: Selection, plan: Plan) -> str:
        if MESSAGES not in plan.tables:
            return ""
        mark = Watermark(self._named(), chosen, plan.stop, 0)
        try:
            begin(self._gateway.client, plan.store_id, mark)
        except LakeError as error:
            return f"the gateway's retention does not learn of this export: {error}"
        return ""

    def _named(self) -> str:
        """Return the target, with this machine if it is a directory: others may have one of that path."""
        return self._identity if is_url(self._identity) else f"{node()}:{self._identity}"


def notes_for(store: Path, identity: str, lease_ms: int, is_rehearsal: bool, token: str) -> RetentionNotes:
    """Return the notes for a store of this machine, of a gateway elsewhere, or of a copy, which nobody is to change."""
    files = store.files if isinstance(store, RemotePath) else None
    if files is not None and files.is_live and not is_rehearsal:
        return GatewayNotes(files, identity, lease_ms)
    return RetentionNotes(store, identity, lease_ms, is_rehearsal or files is not None, token)
