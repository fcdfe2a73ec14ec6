"""Filters read little beside what they return: octets are counted, so the load of the machine does not matter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.store.format import layout
from engine.store.read.reader import StoreReader
from spark_bridge.log.records import placed_entries
from spark_bridge.read.scan import plan_read
from tests.support.store.sample_store import DAY_ONE_MS, SampleStore

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")

COUNTER = Path("/proc/self/io")
BODY = b"x" * 1024
RECORD_BYTES = layout.padded(layout.MESSAGE_HEAD_BYTES + len(BODY))
QUEUES = 10
MESSAGES = 8_000
COLUMNS = ["log_offset", "body_text"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    """Ten queues in turn, a message each second."""
    with SampleStore(tmp_path / "data", segment_bytes=1 << 20) as sample:
        queues = [sample.destination(f"q{number}") for number in range(QUEUES)]
        for number in range(MESSAGES):
            sample.now_ms = DAY_ONE_MS + number * 1000
            sample.send(queues[number % QUEUES], BODY)
        sample.publish(is_clean=True)
        yield sample


def octets_read() -> int:
    return int(COUNTER.read_text().split()[1])


def found(store: SampleStore, names: list[str], **options: str) -> int:
    read = plan_read({"path": str(store.directory)} | options, names)
    return sum(len(batch) for task in range(read.tasks()) for batch in read.rows(task))


@pytest.mark.skipif(not COUNTER.exists(), reason="only Linux counts what a process reads")
@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"destination": "q3"}, MESSAGES // QUEUES),
        ({"where": "destination IN ('queue://q3', 'queue://q5')"}, MESSAGES // QUEUES * 2),
        ({"where": "destination_name = 'q3'"}, MESSAGES // QUEUES),
        ({"startingTime": str(DAY_ONE_MS + 1_000_500), "endingTime": str(DAY_ONE_MS + 2_000_500)}, 1000),
        ({"startingTime": str(DAY_ONE_MS + 7_500_000)}, 500),
        ({"where": f"store_time >= {DAY_ONE_MS + 1_000_000} AND store_time < {DAY_ONE_MS + 2_000_000}"}, 1000),
        ({"where": f"store_time >= {DAY_ONE_MS + 7_000_000}"}, 1000),
        ({"destination": "q3", "where": "date = '2023-11-14'", "endingTime": str(DAY_ONE_MS + 5_000_000)}, 500),
    ],
    ids=str,
)
def test_a_filter_reads_at_most_a_fifth_more_than_it_returns(
    store: SampleStore, options: dict[str, str], rows: int
) -> None:
    assert found(store, COLUMNS, **options) == rows  # the first read loads modules, too
    before = octets_read()
    found(store, COLUMNS, **options)
    assert octets_read() - before <= 1.2 * rows * RECORD_BYTES


@pytest.mark.skipif(not COUNTER.exists(), reason="only Linux counts what a process reads")
@pytest.mark.parametrize(
    "columns", [["log_offset"], ["destination", "delivery_state"], ["date", "lane", "message_id"]], ids=str
)
def test_a_count_reads_entries_and_no_message(store: SampleStore, columns: list[str]) -> None:
    assert found(store, columns) == found(store, [], columns=",".join(columns)) == MESSAGES
    before = octets_read()
    found(store, columns)
    assert octets_read() - before <= 2 * MESSAGES * layout.ENTRY_BYTES


@pytest.mark.skipif(not COUNTER.exists(), reason="only Linux counts what a process reads")
def test_a_plan_reads_the_tail_once(tmp_path: Path) -> None:
    with SampleStore(tmp_path / "data", segment_bytes=1 << 20) as store:
        queue = store.destination("orders")
        sent = [store.send(queue, BODY) for _ in range(900)]
        store.settle(queue, (0, 3))
        store.publish()
        plan_read({"path": str(store.directory)})  # loads modules, too
        before = octets_read()
        read = plan_read({"path": str(store.directory)})
        assert octets_read() - before <= 1.1 * store.offset
        states = [row["delivery_state"] for batch in read.rows(0) for row in batch.to_pylist()]
        assert states == ["acknowledged"] * 3 + ["pending"] * (len(sent) - 3)


def test_entries_between_times_with_lost_messages_among_them(store: SampleStore) -> None:
    """An entry without an offset is of a message that was lost to corruption: it has no time either."""
    (path,) = (store.directory / "consumequeue" / "1" / "4").iterdir()
    octets = bytearray(path.read_bytes())
    for lost in (0, 99, 100, 101, 799):
        octets[lost * layout.ENTRY_BYTES : (lost + 1) * layout.ENTRY_BYTES] = bytes(layout.ENTRY_BYTES)
    path.write_bytes(octets)
    end = StoreReader(store.directory).end().offset

    def places(from_ms: int, to_ms: int) -> list[int]:
        found = placed_entries(store.directory, 1, 4, 0, end, DAY_ONE_MS + from_ms, DAY_ONE_MS + to_ms)
        return [int(place) for place in found[1]]

    assert places(0, 30_000) == [1, 2]
    assert places(980_000, 1_030_001) == [98, 102, 103]
    assert places(990_000, 1_020_000) == []
    assert places(7_970_000, 9_999_999) == [797, 798]
