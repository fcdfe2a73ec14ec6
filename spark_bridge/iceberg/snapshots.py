"""Old snapshots of a table are forgotten, so that its metadata, which each commit writes anew, stays small.

A snapshot names its manifest list, and that its manifests; later snapshots share manifests, never the list.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

KEPT: Final = 50  # at least, and at most twice as many


def forget_old(table: Table, kept: int = KEPT) -> None:
    """Forget all but the newest snapshots and those with a name, if there are many."""
    if len(table.snapshots()) <= 2 * kept:
        return
    named = {ref.snapshot_id for ref in table.refs().values()}
    newest_first = sorted(table.snapshots(), key=lambda one: one.sequence_number or 0, reverse=True)
    old = [one for one in newest_first[kept:] if one.snapshot_id not in named]
    before = {one.manifest_path for snapshot in old for one in snapshot.manifests(table.io)}
    with suppress(CommitFailedException):  # a later export does it
        table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in old]).commit()
        present = {one.manifest_path for snapshot in table.snapshots() for one in snapshot.manifests(table.io)}
        for path in [*(one.manifest_list for one in old), *sorted(before - present)]:
            with suppress(OSError):
                table.io.delete(path)
