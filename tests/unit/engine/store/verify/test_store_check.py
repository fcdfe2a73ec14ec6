"""Verification finds what is wrong, wherever it is, and nothing where nothing is."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from crc32c import crc32c

from engine.store.format import layout
from engine.store.settings import StoreSettings
from engine.store.verify.findings import Verification
from engine.store.verify.store_check import verify
from engine.values.destination import QUEUE, TOPIC
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NACK, CAUSE_NONE
from engine.values.stored import Range
from tests.support.store.earlier_entries import remove_checks
from tests.support.store.store_home import FileHome

HEADER = layout.SEGMENT_HEADER_BYTES
FIRST = "data/commitlog/00000000000000000000.log"


def a_store() -> FileHome:
    """Return some segments with everything in them."""
    home = FileHome(StoreSettings(segment_bytes=8192))
    store = home.store
    queue, topic = store.open_destination(QUEUE, "orders"), store.open_destination(TOPIC, "news")
    mail = store.open_subscription(topic, "mail", {"client_id": "c1"})
    size = home.send(queue, 1)[0].size
    for turn in range(30):
        home.send(queue, 5)
        home.send(topic, 5)
        ranges = [Range(4, turn * 5, 3, 0, 3 * size)]
        store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, ranges)
        store.settle(mail, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, turn * 5, 4, 0, 0, [size] * 4)])
        store.fail_attempts(queue, 0, CAUSE_NACK, 0, [Range(4, turn * 5 + 4, 1, 1)])
        store.begin()
        home.send(queue, 1)
        store.settle(mail, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, turn * 5 + 4, 1, 0, 0, [size])])
        store.commit()
        home.flush()
    other = store.open_subscription(topic, "other", {}, {4: 0})
    store.close_destination(other)
    store.close_destination(store.open_destination(QUEUE, "gone"))
    home.flush()
    home.workers.run_all()
    return home


def found(home: FileHome) -> list[str]:
    return [str(finding) for finding in verify(home.files, "data").findings]


def test_a_sound_store() -> None:
    home = a_store()
    home.stop()
    result = verify(home.files, "data")
    assert result.findings == []
    assert (result.message_count, result.is_torn) == (331, False)
    assert result.end_offset == home.store.append_offset()
    assert result.segment_count > 4
    assert result.record_count > result.message_count + 4 * 30
    assert result.record_count > result.entry_count > 300


def test_nothing_is_changed() -> None:
    home = a_store()
    home.stop()
    before = {path: bytes(home.files.octets(path)) for path in home.files.paths()}
    verify(home.files, "data")
    assert {path: bytes(home.files.octets(path)) for path in home.files.paths()} == before


def test_a_torn_tail_is_no_finding() -> None:
    home = a_store()
    home.send(1, 3)
    home.store.write()
    home.files = home.files.killed()
    last = home.files.paths(".log")[-1]
    octets = home.files.octets(last)
    octets[len(octets.rstrip(b"\0")) - 40] ^= 1
    result = verify(home.files, "data")
    assert result.findings == []
    assert result.is_torn


def test_a_store_without_its_description() -> None:
    home = a_store()
    home.stop()
    home.files.unlink("data/store.json")
    assert len(found(home)) == 1


def change(octets: bytearray, at: int, value: bytes) -> None:
    """Overwrite something in the record that begins at ``at``, and make its checksum right."""
    size = int.from_bytes(octets[at : at + 4], "little")
    place = at + 40 if len(value) != 8 else at + 56
    octets[place : place + len(value)] = value
    octets[at + 4 : at + 8] = crc32c(bytes(octets[at + 8 : at + size])).to_bytes(4, "little")


def records(octets: bytearray) -> list[tuple[int, int]]:
    """Return (position, type) of the records of a segment."""
    listed: list[tuple[int, int]] = []
    at = HEADER
    while size := int.from_bytes(octets[at : at + 4], "little"):
        listed.append((at, octets[at + 8]))
        at += layout.padded(size)
    return listed


def flip_body(home: FileHome) -> None:
    octets = home.files.octets(FIRST)
    octets[octets.index(b"4 ....") + 3] ^= 1


def lose_segment(home: FileHome) -> None:
    home.files.unlink(home.files.paths(".log")[1])


@pytest.mark.parametrize("every", [1, 2])
def test_entries_of_earlier_versions_have_no_checks(every: int) -> None:
    home = a_store()
    home.stop()
    for path in home.files.paths(".cq"):
        remove_checks(home.files.octets(path), "/consumequeue/0/" in path, every)
    assert found(home) == []
    home.begin()
    home.send(1, 1)
    home.stop()
    assert found(home) == []


def lose_snapshot(home: FileHome) -> None:
    octets = home.files.octets(home.files.paths(".log")[1])
    octets[HEADER + 8] = layout.CONSUMER
    change(octets, HEADER, b"")


def lie_in_snapshot(home: FileHome) -> None:
    octets = home.files.octets(home.files.paths(".log")[2])
    at = octets.index(b'"cursor":') + len(b'"cursor":')
    octets[at] = ord(b"1") if octets[at] != ord(b"1") else ord(b"2")
    change(octets, HEADER, b"")


def lose_record(home: FileHome) -> None:
    octets = home.files.octets(FIRST)
    at = records(octets)[-1][0]
    octets[at:] = bytes(len(octets) - at)


def lie_of_freed_bytes(home: FileHome) -> None:
    octets = home.files.octets(home.files.paths(".log")[-1])
    at = [at for at, kind in records(octets) if kind == layout.SETTLEMENT][-1]
    change(octets, at, (4711).to_bytes(8, "little"))


def settle_what_is_not_there(home: FileHome) -> None:
    octets = home.files.octets(FIRST)
    at = next(at for at, kind in records(octets) if kind == layout.SETTLEMENT)
    octets[at + 64] = 250
    change(octets, at, b"")


def change_entry(home: FileHome) -> None:
    home.files.octets("data/consumequeue/1/4/00000000000000000000.cq")[40 * 7 + 20] ^= 1


def change_a_listing(home: FileHome) -> None:
    octets = home.files.octets("data/consumequeue/0/0/00000000000000000000.cq")
    remove_checks(octets, True)
    octets[40 * 5 + 16] ^= 1


def lose_entries(home: FileHome) -> None:
    del home.files.octets("data/consumequeue/2/4/00000000000000000000.cq")[80:]


def lose_queue(home: FileHome) -> None:
    home.files.unlink("data/consumequeue/0/0/00000000000000000000.cq")


def lose_checkpoint(home: FileHome) -> None:
    home.files.octets("data/checkpoint")[:] = bytes(1024)


def lose_end(home: FileHome) -> None:
    octets = home.files.octets(home.files.paths(".log")[-1])
    at = records(octets)[-1][0]
    octets[at:] = bytes(len(octets) - at)


def other_store(home: FileHome) -> None:
    path = home.files.paths(".log")[0]
    octets = home.files.octets(path)
    octets[40] ^= 1
    octets[56:60] = crc32c(bytes(octets[:56])).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (flip_body, f"{FIRST}, position .* the checksum of a record does not match"),
        (lose_segment, "should follow, the next segment begins at"),
        (lose_snapshot, "position 4096: the segment does not begin with a snapshot"),
        (lie_in_snapshot, "position 4096: .* not the state that the records before it give"),
        (lose_record, "a record with sequence .* should follow"),
        (lie_of_freed_bytes, "live bytes, its messages come to"),
        (settle_what_is_not_there, "of a lane of"),
        (change_entry, "consumequeue/1/4/.*, position 280: entry 7 is not its record's"),
        (change_a_listing, "consumequeue/0/0/.*, position 200: entry 5 is not its record's"),
        (lose_entries, "consumequeue/2/4/.*, position 80: entries 2 to [0-9]+ are not there"),
        (lose_queue, "consumequeue/0/0/.*, position 0: entries 0 to [0-9]+ are not there"),
        (lose_checkpoint, "no slot of the checkpoint is whole"),
        (lose_end, "checkpoint, position 24: durable up to"),
        (other_store, "this store is"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.damages_store("that is what it is about")
def test_what_is_wrong_is_found(damage: Callable[[FileHome], None], text: str) -> None:
    home = a_store()
    home.stop()
    assert found(home) == []
    damage(home)
    findings = found(home)
    assert [each for each in findings if re.search(text, each)], findings


@pytest.mark.damages_store("that is what it is about")
def test_entries_that_were_settled_twice() -> None:
    home = a_store()
    home.settle(1, 0, 1)
    home.stop()
    (finding,) = found(home)
    assert "entries 0 to 1 were settled before" in finding


@pytest.mark.damages_store("that is what it is about")
def test_a_damaged_store_ends_after_many_findings() -> None:
    home = a_store()
    home.stop()
    for path in home.files.paths(".cq"):
        home.files.octets(path)[:] = bytes(len(home.files.octets(path)))
    result: Verification = verify(home.files, "data")
    assert 0 < len(result.findings) <= 100
