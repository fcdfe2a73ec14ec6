"""What an export tells the gateway's retention: a lease while it reads, and how far it is when it has ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time_ns

from engine.store.plain_words import duration
from engine.store.read.export_watermarks import Watermark, write_watermark
from engine.store.read.leases import Lease, end_lease, write_lease
from engine.store.read.selection import Selection
from engine.values.errors import RangeGone
from spark_bridge.arrow.schema import MESSAGES
from spark_bridge.read.plan import Plan


class RetentionNotes:
    """Those of one target.  lease_ms: see ``Request``.  is_silent: write nothing.

    token: see ``LakeFiles.hold``.  Several exports to an object store may run at once, so each has a lease of its own.
    Where a lock excludes that, an export also takes over the lease of a killed one.
    """

    def __init__(self, data: Path, identity: str, lease_ms: int, is_silent: bool, token: str) -> None:
        self._data = data
        self._identity = identity
        self._lease_ms = lease_ms
        self._is_silent = is_silent
        self._key = token

    @contextmanager
    def lease(self, store_id: str, start: int) -> Iterator[str]:
        """Ask retention to keep the exported range for the requested time; yield why it does not, "" if it does."""
        if self._is_silent:
            yield ""
            return
        now_ms = time_ns() // 1_000_000
        lease = Lease(f"the export to {self._identity}", start, now_ms + self._lease_ms)
        note = ""
        try:
            if self._lease_ms:
                write_lease(self._data, store_id, lease, now_ms, self._key)
        except OSError as error:
            note = f"the gateway's retention does not wait for this export: {error}"
        try:
            yield note
        except RangeGone as error:
            if time_ns() // 1_000_000 < lease.until_ms:
                raise
            told = f"this export's lease has run out after {duration(self._lease_ms)} (--lease)"
            raise RangeGone(f"{error}; {told}") from None
        finally:
            end_lease(self._data, lease.reader, self._key)

    def reached(self, chosen: Selection, plan: Plan) -> str:
        """Record how far the destinations are exported; return why that failed, "" if it did not.

        A target without messages frees none.
        """
        if self._is_silent or MESSAGES not in plan.tables:
            return ""
        try:
            now_ms = time_ns() // 1_000_000
            mark = Watermark(self._identity, chosen, plan.stop, now_ms, numbers=frozenset(plan.destinations))
            write_watermark(self._data, plan.store_id, mark)
        except OSError as error:
            return f"the gateway's retention does not learn of this export: {error}"
        return ""
