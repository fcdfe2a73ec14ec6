"""A store that an earlier version left with a transaction in one segment and its commit record in the next.

Its reserve was too small; tests/vectors/store_split_commit.tar.gz was made by that version.  It opens with
``--skip-corruption``, which says what it met, and nothing of the transaction is lost.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from engine.store.disk.files import RealFiles
from engine.store.file_store import FileStore
from engine.store.settings import StoreSettings
from engine.store.verify.store_check import verify
from engine.values.errors import StoreCorrupt
from tests.support.fakes import START_WALL_MS, HeldWorkers, VirtualClock, VirtualTimers
from tests.support.store.store_home import lane
from tests.support.store.store_world import RecordingListener

VECTOR = Path(__file__).resolve().parents[4] / "vectors" / "store_split_commit.tar.gz"
SPLIT = 46  # the entry that the transaction sent; it settled entry 0


def _unpacked(directory: Path) -> Path:
    with tarfile.open(VECTOR) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(directory)
    return directory / "data"


def _opened(data: Path, is_skipping: bool) -> tuple[FileStore, HeldWorkers]:
    clock = VirtualClock(START_WALL_MS + 3_600_000)
    workers = HeldWorkers()
    settings = StoreSettings(segment_bytes=8192)
    return FileStore(str(data), RealFiles(), workers, clock, VirtualTimers(clock), settings, is_skipping), workers


@pytest.mark.damages_store("as an earlier version did")
@pytest.mark.parametrize("lost", [(), ("checkpoint",), ("consumequeue/1/4/00000000000000000000.cq",)])
def test_it_opens_on_command_and_loses_nothing(tmp_path: Path, lost: tuple[str, ...]) -> None:
    """Whether the start is in front of the transaction or behind it."""
    data = _unpacked(tmp_path)
    for name in lost:
        (data / name).unlink()
    with pytest.raises(StoreCorrupt, match="transaction"):
        _opened(data, False)
    store, workers = _opened(data, True)
    (told,) = store.report.skipped
    assert (
        "at the end of the segment before; they are taken" in told.reason or "its commit record says 2" in told.reason
    )
    found = lane(store.recovered(), "orders")
    assert (found.tail, found.cursor, found.settled) == (SPLIT + 3, 1, [])
    listener = RecordingListener()
    store.attach(listener)
    store.request(1, 4, 0, SPLIT + 3, 1 << 20)
    workers.run_all()
    (page,) = listener.pages
    assert [message.queue_offset for message in page.messages] == list(range(SPLIT + 3))
    assert page.messages[SPLIT].body == b"split 1"
    store.close()
    again, _ = _opened(data, False)
    assert lane(again.recovered(), "orders").tail == SPLIT + 3
    again.close()


@pytest.mark.damages_store("as an earlier version did")
def test_verify_names_it_once(tmp_path: Path) -> None:
    findings = [str(finding) for finding in verify(RealFiles(), str(_unpacked(tmp_path))).findings]
    assert any("transaction" in finding for finding in findings), findings
