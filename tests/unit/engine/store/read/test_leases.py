"""Leases of readers: what they keep, from whom, and when they end."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from engine.store.disk.files import RealFiles, write_fully
from engine.store.read.leases import (
    READER_CHARACTERS,
    Lease,
    end_lease,
    leased,
    read_leases,
    reader_elsewhere,
    write_lease,
)
from engine.store.space.disk_usage import space_of
from engine.store.space.retention_reasons import Keeping
from engine.store.space.retention_rules import NoPolicies
from engine.values.destination import QUEUE
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from tests.support.disk.modes import modes, umask
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import THINNING, FileHome

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000
MINE = "data/readers/me.json"


def test_a_lease_counts_until_its_deadline_or_that_of_the_gateway(tmp_path: Path) -> None:
    def found(now_ms: int, max_ms: int = HOUR_MS, store_id: str = "cafe") -> list[Lease]:
        return read_leases(RealFiles(), str(tmp_path), store_id, now_ms, max_ms)

    assert found(NOW_MS) == []
    lease = Lease("me", 4096, NOW_MS + 1_000)
    write_lease(tmp_path, "cafe", lease, NOW_MS)
    assert found(NOW_MS) == found(NOW_MS + 999) == [lease]
    assert found(NOW_MS + 1_000) == []
    assert found(NOW_MS, max_ms=400) == [replace(lease, until_ms=NOW_MS + 400)]
    assert found(NOW_MS + 400, max_ms=400) == found(NOW_MS, max_ms=0) == []
    assert found(NOW_MS, store_id="beef") == []
    later = Lease("me", 8192, NOW_MS + 2_000)
    write_lease(tmp_path, "cafe", later, NOW_MS)
    assert found(NOW_MS) == [later]
    far = NOW_MS + 2 * HOUR_MS
    write_lease(tmp_path, "cafe", Lease("you", 0, far), far)
    assert found(NOW_MS) == [later], "whose clock is ahead by more than a lease takes holds nothing"
    end_lease(tmp_path, "me")
    end_lease(tmp_path, "me")
    assert found(NOW_MS) == []


def test_what_killed_readers_left_long_ago_is_removed(tmp_path: Path) -> None:
    for name in ("killed", "old", "writing"):
        write_lease(tmp_path, "cafe", Lease(name, 0, NOW_MS + 1_000), NOW_MS, key=name)
    killed, old, writing = sorted((tmp_path / "readers").iterdir())
    writing = writing.rename(writing.with_suffix(".0123.tmp"))
    for path, days in ((killed, 29), (old, 31), (writing, 31)):
        then_s = path.stat().st_mtime - days * 24 * 3_600
        os.utime(path, (then_s, then_s))
    write_lease(tmp_path, "cafe", Lease("me", 0, NOW_MS + 1_000), NOW_MS)
    left = set((tmp_path / "readers").iterdir())
    assert killed in left and len(left) == 2


@pytest.mark.parametrize(("mask", "directories", "files"), [(0, 0o750, 0o640), (0o077, 0o700, 0o600)])
def test_a_lease_is_no_more_readable_than_the_store(tmp_path: Path, mask: int, directories: int, files: int) -> None:
    with umask(mask):
        write_lease(tmp_path, "cafe", Lease("me", 4096, NOW_MS + 1_000), NOW_MS)
    assert modes(tmp_path / "readers") == ({directories}, {files})


def test_a_directory_of_an_older_build_is_narrowed(tmp_path: Path) -> None:
    (tmp_path / "readers").mkdir()
    (tmp_path / "readers").chmod(0o755)
    write_lease(tmp_path, "cafe", Lease("me", 4096, NOW_MS + 1_000), NOW_MS)
    assert modes(tmp_path / "readers") == ({0o750}, {0o640})


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 2}'])
def test_what_is_no_lease_is_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "readers").mkdir()
    (tmp_path / "readers/x.json").write_text(text)
    assert read_leases(RealFiles(), str(tmp_path), "cafe", NOW_MS, HOUR_MS) == []


def test_what_stands_from_its_offset_on_is_kept() -> None:
    low, high = Lease("low", 0, NOW_MS + 1), Lease("high", 4096, NOW_MS + 2)
    assert leased([low, high], 4096) is low
    assert leased([low, high], 4104) is high
    assert leased([high], 4096) is None


def write(home: FileHome, from_offset: int, for_ms: int) -> None:
    now_ms = home.clock.wall_ms()
    described = {"format": 1, "store_id": home.file_store.store_id(), "reader": "me", "from_offset": from_offset}
    home.files.make_directory("data/readers")
    file = home.files.create(MINE)
    write_fully(file, json.dumps({**described, "written_ms": now_ms, "until_ms": now_ms + for_ms}).encode(), 0)
    file.close()


def filled(home: FileHome, kept: int = -1) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    for entry in range(300):
        (sent,) = home.send(queue, 1)
        if entry != kept:
            home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, entry, 1, 0, sent.size)])
        home.flush()


def bases(home: FileHome) -> list[int]:
    return [int(path[-24:-4]) for path in home.files.paths(".log")]


def thinned(home: FileHome) -> bool:
    home.flush()
    return len(home.files.octets(home.files.paths(".log")[0])) < 8192


def test_retention_waits_for_a_reader_until_its_deadline() -> None:
    home = FileHome(THINNING)
    filled(home)
    before = bases(home)
    assert len(before) > 4
    write(home, before[2], 60_000)
    home.pass_by(5_000)
    assert bases(home) == before[2:], "what stands below it goes"
    home.pass_by(50_000)
    assert bases(home) == before[2:]
    home.pass_by(10_000)
    assert bases(home)[0] > before[2]


def test_the_gateway_has_a_limit_of_its_own() -> None:
    home = FileHome(replace(THINNING, lease_max_ms=5_000))
    filled(home)
    write(home, 0, HOUR_MS)
    home.pass_by(3_000)
    assert bases(home)[0] == 0
    home.pass_by(5_000)
    assert bases(home)[0] > 0


def test_a_gateway_that_was_killed_waits_again() -> None:
    home = FileHome(THINNING)
    filled(home)
    write(home, 0, 60_000)
    home.pass_by(2_000)
    home.kill()
    home.pass_by(10_000)
    assert bases(home)[0] == 0
    home.pass_by(60_000)
    assert bases(home)[0] > 0


def test_compaction_leaves_what_is_read_as_it_is() -> None:
    home = FileHome(THINNING)
    filled(home, kept=5)
    write(home, 0, 60_000)
    home.pass_by(20_000)
    assert not thinned(home)
    home.pass_by(50_000)
    assert thinned(home)


def test_a_lease_that_comes_while_a_segment_is_thinned_leaves_it_whole() -> None:
    home = FileHome(THINNING)
    filled(home, kept=5)
    steps = 0
    while not home.files.paths(".log.sparse"):
        home.timers.advance(100)
        while not home.files.paths(".log.sparse") and home.workers.run_one():
            pass
        steps += 1
        assert steps < 100
    write(home, 0, 60_000)
    home.pass_by(10_000)
    assert not thinned(home) and not home.files.paths(".log.sparse")
    home.files.unlink(MINE)
    home.pass_by(10_000)
    assert thinned(home)


def test_du_names_the_reader(tmp_path: Path) -> None:
    home = FileHome(THINNING)
    filled(home)
    write(home, 0, 599_999)
    home.pass_by(3_000)
    reader = copy_to(tmp_path, home.files)
    keeping = Keeping(NoPolicies(), 0, 0, home.clock.wall_ms(), HOUR_MS)
    assert space_of(reader, True, keeping).segments[0].reasons == ["me reads it, 9 minutes more at most"]


def test_long_names_of_readers_elsewhere_remain_two_readers() -> None:
    ends = "/lake" * 50
    names = [reader_elsewhere(f"s3://{bucket}{ends}") for bucket in ("one", "two")]
    assert len(set(names)) == 2
    assert all(len(name) == READER_CHARACTERS and name.endswith(ends[-150:]) for name in names)
    assert reader_elsewhere("x" * READER_CHARACTERS) == "x" * READER_CHARACTERS
