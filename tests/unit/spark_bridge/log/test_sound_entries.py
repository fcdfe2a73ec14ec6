"""Consume queues that a disk has damaged: an export has the rows of the log all the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from engine.store.format import layout
from engine.store.read.entry_files import entry_files
from engine.store.read.reader import StoreReader
from engine.store.read.selection import parse
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import StoreCorrupt
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from spark_bridge.log.sound_entries import are_sound
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import make_plan
from tests.support.store.earlier_entries import remove_checks
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import THINNING, FileHome

pytestmark = pytest.mark.damages_store("damaged on purpose")

COUNT = 400
TABLES = ("messages", "deliveries")
Rows = dict[str, list[str]]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a store with several segments, whose last one has no entries yet; two destinations, one settled."""
    home = FileHome()
    queue, topic = home.store.open_destination(QUEUE, "orders"), home.store.open_destination(TOPIC, "news")
    for entry in range(COUNT):
        (sent,) = home.send(queue, 1)
        home.send(topic, 1)
        if entry % 3:
            home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, entry, 1, 0, sent.size)])
        home.flush()
    reader = copy_to(tmp_path, home.files)
    assert len(reader.segments) > 3 and 0 < reader.entries_offset < reader.end().offset
    assert are_sound(reader, parse(">"), 0, reader.end().offset)
    return reader.directory


def exported(directory: Path) -> Rows:
    """Return the rows that an export has."""
    plan = make_plan(StoreReader(directory), parse(">"), tables=TABLES, checks_entries=True)
    batches = {
        table: [batch for pieces in plan.partitions for batch in read_pieces(plan.of_table(table), pieces)]
        for table in TABLES
    }
    return {table: sorted(repr(row) for each in batches[table] for row in each.to_pylist()) for table in TABLES}


def queue_files(directory: Path) -> list[Path]:
    return sorted((directory / "consumequeue").rglob("*.cq"))


def test_zeros_cost_no_row(directory: Path) -> None:
    whole = exported(directory)
    assert [len(whole[table]) for table in TABLES] == [2 * COUNT, COUNT * 2 // 3]
    for path in queue_files(directory):
        octets = path.read_bytes()
        half = len(octets) // layout.ENTRY_BYTES // 2 * layout.ENTRY_BYTES
        for zeros in (slice(None), slice(half), slice(half, None), slice(half, half + 40)):
            damaged = bytearray(octets)
            damaged[zeros] = bytes(len(damaged[zeros]))
            path.write_bytes(damaged)
            assert exported(directory) == whole
        path.write_bytes(octets)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_flipped_bit_costs_no_row(directory: Path, seed: int) -> None:
    """Of the offset, the size, or the higher octets of the time of any entry: the same rows, or an error."""
    choose = random.Random(seed)
    whole = exported(directory)
    errors = 0
    for path in queue_files(directory) * 4:
        octets = path.read_bytes()
        damaged = bytearray(octets)
        entry = choose.randrange(len(octets) // layout.ENTRY_BYTES)
        damaged[entry * layout.ENTRY_BYTES + choose.choice([*range(12), *range(36, 40)])] ^= 1 << choose.randrange(8)
        path.write_bytes(damaged)
        try:
            assert exported(directory) == whole
        except StoreCorrupt:
            errors += 1
        path.write_bytes(octets)
    assert errors < len(queue_files(directory)) * 2, "most are seen by the order of the entries"


def test_a_flipped_bit_of_what_readers_choose_by_is_seen(directory: Path) -> None:
    """Flags, type, destination of a record of the system queue, and their checks: every bit of some entries."""
    reader = StoreReader(directory)
    end = reader.end().offset
    for path in queue_files(directory):
        is_system = path.parent.parent.name == str(layout.SYSTEM_QUEUE)
        octets = path.read_bytes()
        for entry in (0, 2, len(octets) // layout.ENTRY_BYTES // 2):
            for at in (12, 14, layout.CHECK_AT, *(range(16, 24) if is_system else ())):
                for bit in range(8):
                    damaged = bytearray(octets)
                    damaged[entry * layout.ENTRY_BYTES + at] ^= 1 << bit
                    path.write_bytes(damaged)
                    assert not are_sound(reader, parse(">"), 0, end), (path, entry, at, bit)
        path.write_bytes(octets)


def test_entries_of_earlier_versions_have_no_checks(directory: Path) -> None:
    whole = exported(directory)
    for path in queue_files(directory):
        entries = bytearray(path.read_bytes())
        remove_checks(entries, path.parent.parent.name == str(layout.SYSTEM_QUEUE))
        path.write_bytes(entries)
    reader = StoreReader(directory)
    assert are_sound(reader, parse(">"), 0, reader.end().offset)
    assert exported(directory) == whole


def test_a_later_export_looks_at_its_own_entries(directory: Path) -> None:
    reader = StoreReader(directory)
    middle = reader.segments[len(reader.segments) // 2].base
    number = 1
    (file,) = entry_files(directory, number, 4)
    octets = bytearray(file.path.read_bytes())
    octets[: layout.ENTRY_BYTES] = bytes(layout.ENTRY_BYTES)
    file.path.write_bytes(octets)
    for start, chosen, is_sound in ((0, ">", False), (middle, ">", True), (0, "news", True)):
        assert are_sound(reader, parse(chosen), start, reader.end().offset) is is_sound


def test_queues_made_again_after_thinning(tmp_path: Path) -> None:
    """Entries of records that are gone are zeros; the log says which are there."""
    home = FileHome(THINNING)
    queue = home.store.open_destination(QUEUE, "orders")
    for entry in range(COUNT):
        (sent,) = home.send(queue, 1)
        if entry % 50:
            home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, entry, 1, 0, sent.size)])
        home.flush()
    home.pass_by(4_000)
    home.stop()
    before = exported(copy_to(tmp_path / "before", home.files).directory)
    for path in home.files.paths(".cq"):
        home.files.unlink(path)
    home.begin()
    home.stop()
    after = exported(copy_to(tmp_path / "after", home.files).directory)
    assert after["messages"] == before["messages"]
