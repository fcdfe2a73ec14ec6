"""Leases of exports whose targets have the same path in different containers."""

from __future__ import annotations

from pathlib import Path
from time import time_ns

from engine.store.disk.files import RealFiles
from engine.store.read.leases import read_leases
from spark_bridge.retention_notes import RetentionNotes

HOUR_MS = 3_600_000


def kept_from(data: Path) -> list[int]:
    leases = read_leases(RealFiles(), str(data), "cafe", time_ns() // 1_000_000, HOUR_MS)
    return sorted(lease.from_offset for lease in leases)


def notes(data: Path, token: str) -> RetentionNotes:
    return RetentionNotes(data, "/lake", HOUR_MS, False, token)


def test_a_lease_of_another_directory_at_the_same_path_stays(tmp_path: Path) -> None:
    with notes(tmp_path, "a").lease("cafe", 100):
        with notes(tmp_path, "b").lease("cafe", 900):
            assert kept_from(tmp_path) == [100, 900]
        assert kept_from(tmp_path) == [100]
    assert kept_from(tmp_path) == []


def test_an_export_takes_over_the_lease_of_a_killed_one(tmp_path: Path) -> None:
    killed = notes(tmp_path, "a").lease("cafe", 100)
    killed.__enter__()
    with notes(tmp_path, "a").lease("cafe", 200):
        assert kept_from(tmp_path) == [200]
    assert kept_from(tmp_path) == []
