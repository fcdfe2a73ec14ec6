"""How an export spares the gateway beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.store.read.reader import StoreReader
from engine.store.read.selection import parse
from spark_bridge.read.pace import Pace
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import make_plan
from tests.support.store.sample_store import SampleStore

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")


class Time:
    def __init__(self) -> None:
        self.now_s = 100.0

    def read(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_a_pace_is_kept_over_time() -> None:
    time = Time()
    pace = Pace(1_000, time.read, time.sleep)
    for _ in range(10):
        pace.spend(500)
    assert time.now_s == pytest.approx(105.0)
    time.now_s += 60.0  # what was not used is not saved up
    pace.spend(1_000)
    pace.spend(1_000)
    assert time.now_s == pytest.approx(167.0)


def test_a_read_at_a_pace_takes_small_batches(tmp_path: Path) -> None:
    with SampleStore(tmp_path / "data", segment_bytes=1 << 22) as store:
        queue = store.destination("q")
        sent = [store.send(queue, b"x" * 1_000) for _ in range(1_000)]
        store.publish(is_clean=True)
    time = Time()
    plan = make_plan(StoreReader(store.directory), parse(">"))
    read: list[int] = []
    for batch in read_pieces(plan, plan.partitions[0], pace=Pace(100_000, time.read, time.sleep)):
        assert batch.num_rows * 1_000 <= 100_000
        read += batch.column("log_offset").to_pylist()
    assert read == sent
    assert time.now_s - 100.0 >= sum(map(len, [b"x" * 1_000] * 1_000)) / 100_000
