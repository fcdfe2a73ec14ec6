"""What readers write into a store's directory, by several at once: some have the same process number.

Two containers that share a store may have that.  Here they are threads of a process.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.store.disk.files import RealFiles
from engine.store.read.export_watermarks import Watermark, read_watermarks, write_watermark
from engine.store.read.leases import Lease, read_leases, write_lease
from engine.store.read.selection import parse

WRITERS = 4
TIMES = 100


def mark(data: Path, number: int) -> None:
    write_watermark(data, "cafe", Watermark("/lake", parse(">"), number, number))


def lease(data: Path, number: int) -> None:
    write_lease(data, "cafe", Lease("the export to /lake", number, number + 1_000), number)


@pytest.mark.parametrize("write", [mark, lease])
def test_writers_at_once_do_not_disturb_each_other(tmp_path: Path, write: Callable[[Path, int], None]) -> None:
    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(lambda number: write(tmp_path, number), range(WRITERS * TIMES)))
    marks = read_watermarks(RealFiles(), str(tmp_path), "cafe").marks
    leases = read_leases(RealFiles(), str(tmp_path), "cafe", 500, 1_000)
    assert len(marks) + len(leases) == 1
    (folder,) = tmp_path.iterdir()
    assert [path.suffix for path in folder.iterdir()] == [".json"]
