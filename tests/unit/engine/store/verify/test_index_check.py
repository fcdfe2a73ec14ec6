"""Verification goes through the key index: what it says, what it leaves out, and where it leads."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from engine.store.index.index_file import ENTRY_BYTES, HEADER_BYTES, hash_of, unpack_header
from engine.store.settings import StoreSettings
from engine.store.verify.store_check import verify
from engine.values.destination import QUEUE
from engine.values.message import KEYED, PERSISTENT, STOMP, TEXT, Message
from engine.values.message_keys import Keys
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from tests.support.store.store_home import FileHome
from tests.unit.engine.store.space.test_retention import INTERVAL_MS

KEYS = Keys()
SLOTS = 8


def a_store(retention_bytes: int = 1 << 40) -> FileHome:
    """Return several segments and several index files; every third message has two keys."""
    home = FileHome(
        StoreSettings(
            segment_bytes=8192,
            index_slots=SLOTS,
            index_entries=20,
            retention_bytes=retention_bytes,
            retention_interval_ms=INTERVAL_MS,
        )
    )
    queue = home.store.open_destination(QUEUE, "orders")
    for number in range(120):
        headers = b"keys:k%d common\n" % number if number % 3 == 0 else b"a:b\n"
        flags = PERSISTENT | TEXT | KEYED
        home.store.append(Message(queue, STOMP, flags, 4, 0, 0, 0, b"", headers, b"x" * 150))
        if number % 10 == 9:
            home.flush()
            home.pass_time(1_000)
    return home


def found(home: FileHome, keys: Keys | None = KEYS) -> list[str]:
    return [str(finding) for finding in verify(home.files, "data", keys).findings]


def test_a_sound_index() -> None:
    home = a_store()
    home.stop()
    assert len(home.files.paths(".ix")) >= 4
    result = verify(home.files, "data", KEYS)
    assert (result.findings, result.index_entry_count) == ([], 80)
    assert verify(home.files, "data").findings == []


def test_what_retention_has_dropped_is_still_in_its_file() -> None:
    home = a_store(retention_bytes=20_000)
    size_bytes = home.store.state_of(1).live_bytes
    home.store.settle(1, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, 120, 0, size_bytes)])
    home.flush()
    home.pass_time(5 * INTERVAL_MS)
    home.stop()
    oldest = int(home.files.paths(".log")[0][-24:-4])
    header = unpack_header(bytes(home.files.octets(home.files.paths(".ix")[0])))
    assert header is not None and header.begin < oldest, "it names messages that are gone"
    assert found(home) == []


def test_a_file_that_was_growing_is_not_looked_at() -> None:
    home = a_store()
    home.files = home.files.killed()
    last = home.files.octets(home.files.paths(".ix")[-1])
    header = unpack_header(bytes(last))
    assert header is not None and not header.is_at_rest
    last[HEADER_BYTES + 4 * SLOTS + 8] ^= 1
    assert found(home) == []


def _entry(home: FileHome, file: int, entry: int) -> memoryview:
    at = HEADER_BYTES + 4 * SLOTS + entry * ENTRY_BYTES
    return memoryview(home.files.octets(home.files.paths(".ix")[file]))[at : at + ENTRY_BYTES]


def other_hash(home: FileHome) -> None:
    entry = _entry(home, 0, 2)
    entry[0:4] = (hash_of("another") // SLOTS * SLOTS + hash_of("k3") % SLOTS).to_bytes(4, "little")  # the same slot


def other_offset(home: FileHome) -> None:
    entry = _entry(home, 0, 2)
    entry[8:16] = (int.from_bytes(entry[8:16], "little") + 8).to_bytes(8, "little")


def other_time(home: FileHome) -> None:
    _entry(home, 1, 3)[16] ^= 1


def broken_chain(home: FileHome) -> None:
    _entry(home, 0, 5)[4] ^= 1


def broken_slot(home: FileHome) -> None:
    octets = home.files.octets(home.files.paths(".ix")[0])
    slot = hash_of("common") % SLOTS
    octets[HEADER_BYTES + 4 * slot] ^= 1


def cut_file(home: FileHome) -> None:
    del home.files.octets(home.files.paths(".ix")[0])[-ENTRY_BYTES:]


def of_another_range(home: FileHome) -> None:
    first, second = home.files.paths(".ix")[:2]
    home.files.octets(second)[:] = home.files.octets(first)


def lost_end(home: FileHome) -> None:
    for path in home.files.paths(".log")[-2:]:
        home.files.unlink(path)


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (other_hash, r"\.ix, position 208: 2 entries of the message at log offset \d+, which has 2 keys, and others"),
        (other_offset, r"it names log offset \d+, which has no message"),
        (other_time, r"store time \d+ of a message of \d+"),
        (broken_chain, r"it names \d+ as the older one, \d+ is in its slot"),
        (broken_slot, "the slots do not lead to the newest entries"),
        (cut_file, r"20 entries end at \d+, the file before"),
        (of_another_range, "its head is of store .* and log offset 0"),
        (lost_end, r"it goes beyond log offset \d+, where the log ends"),
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


def test_a_message_that_the_index_lacks() -> None:
    home = a_store()
    home.stop()
    findings = [str(one) for one in verify(home.files, "data", MoreKeys()).findings]
    for count in (0, 2):
        text = rf"{count} entries of the message at log offset \d+, which has {count + 1} keys"
        assert any(re.search(text, one) for one in findings)


class MoreKeys(Keys):
    """Finds one more in each message."""

    def of(self, encoding: int, headers: bytes) -> list[str]:
        return [*super().of(encoding, headers), "more"]


@pytest.mark.damages_store("that is what it is about")
def test_queue_files_out_of_place() -> None:
    home = a_store()
    home.stop()
    path = home.files.paths(".cq")[0]
    home.files.make_directory("data/consumequeue/77/4")
    stray = home.files.create("data/consumequeue/77/4/00000000000000000000.cq")
    stray.pwrite(bytes(home.files.octets(path)), 0)
    (finding,) = found(home)
    assert "no destination 77 was ever made" in finding
