"""A lake and the log behind it are one history, whenever exports, retention and reads happen."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from engine.values.destination import TOPIC
from engine.values.errors import RangeGone
from spark_bridge.arrow.schema import DELIVERIES, MESSAGES
from spark_bridge.export import Request, export
from spark_bridge.read.scan import Read, plan_read
from spark_bridge.target import target_at
from tests.support.store.one_process_spark import OneProcessSpark
from tests.support.store.sample_store import SampleStore

pytestmark = [
    pytest.mark.interpreted,  # neither an export nor a read has a compiled module
    pytest.mark.damages_store("written by hand, without all that a gateway would write"),
]

COUNTS = st.integers(1, 12)
Rows = list[tuple[Any, ...]]


class Histories(RuleBasedStateMachine):
    """``sent`` and ``ended``: what was ever published, by log offset."""

    @initialize(is_split=st.booleans())
    def begin(self, is_split: bool) -> None:
        self.folder = tempfile.TemporaryDirectory()
        root = Path(self.folder.name)
        self.store = SampleStore(root / "data", segment_bytes=2048)
        self.lake = root / "lake"
        self.numbers = [self.store.destination("orders.eu"), self.store.destination("prices", TOPIC)]
        self.names = ("queue://orders.eu", "topic://prices")
        self.partition_bytes = 700 if is_split else 1 << 26
        self.sent: list[tuple[int, str, str]] = []
        self.ended: list[int] = []
        self.unread: list[tuple[Callable[[], Rows], Rows]] = []
        self.exported_to = -1
        self.store.publish()

    @rule(which=st.integers(0, 1), count=COUNTS)
    def send(self, which: int, count: int) -> None:
        for _ in range(count):
            self.store.now_ms += 1000
            body = f"{len(self.sent)}"
            self.sent.append((self.store.send(self.numbers[which], body.encode()), self.names[which], body))
        self.store.publish()

    @rule()
    def settle(self) -> None:
        waiting = sum(name.startswith("queue") for _, name, _ in self.sent) - len(self.ended)
        if waiting:
            self.ended.append(self.store.settle(self.numbers[0], (len(self.ended), 1)))
            self.store.publish()

    @rule()
    def stop_cleanly(self) -> None:
        self.store.publish(is_clean=True)

    @precondition(lambda self: self.sent)
    @rule()
    def export(self) -> None:
        request = Request(self.store.directory, ">", self.lake, tables=(MESSAGES, DELIVERIES))
        result = export(request, spark=cast(Any, OneProcessSpark()))
        assert result.to_offset == self.store.offset
        self.exported_to = result.to_offset

    @precondition(lambda self: self.exported_to >= 0 and not self.unread)  # no file ever leaves its place
    @rule(moved=st.integers(0, 3))
    def die_while_publishing(self, moved: int) -> None:
        """Put files of the last range back where a kill would have left them."""
        last = target_at(self.lake).last()
        assert last is not None
        for table in last.tables:  # published when all are in their places
            for commit in (self.lake / table / "_delta_log").glob("*.json"):
                if f'"version": {last.to_offset},' in commit.read_text():
                    commit.unlink()
        (self.lake / "_penstock" / "staging" / last.staging).mkdir(exist_ok=True)
        for file in last.files[moved:]:
            place = self.lake / "_penstock" / "staging" / last.staging / file.path
            if (self.lake / file.path).exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                (self.lake / file.path).rename(place)

    @rule()
    def drop_what_is_exported(self) -> None:
        segments = sorted(int(path.stem) for path in (self.store.directory / "commitlog").iterdir())
        if len(segments) > 1 and segments[1] <= self.exported_to:
            self.store.drop_first_segment()
            self.store.publish()

    def plan(self, table: str, columns: list[str]) -> tuple[Callable[[], Rows], Rows]:
        options = {"path": str(self.store.directory), "lake": str(self.lake), "table": table}
        read = plan_read(options | {"partition-bytes": str(self.partition_bytes)}, columns)
        expected: Rows = [*self.sent] if table == MESSAGES else [(offset,) for offset in self.ended]
        return (lambda: rows_of(read)), expected

    @precondition(lambda self: self.exported_to >= 0)
    @rule()
    def plan_to_read(self) -> None:
        """Other things happen before it is read."""
        self.unread.append(self.plan(MESSAGES, ["log_offset", "destination", "body_text"]))
        self.unread.append(self.plan(DELIVERIES, ["log_offset"]))

    @precondition(lambda self: self.unread)
    @rule()
    def read(self) -> None:
        for rows, expected in self.unread:
            try:
                found = rows()
            except RangeGone:
                # Retention dropped what has been exported since: that is said, and nothing is missing silently.
                continue
            assert sorted(found) == expected
        self.unread = []

    def teardown(self) -> None:
        try:
            if self.exported_to >= 0:
                self.plan_to_read()
            self.read()
        finally:
            self.store.close()
            self.folder.cleanup()


def rows_of(read: Read) -> Rows:
    batches = [batch for task in range(read.tasks()) for batch in read.rows(task)]
    if not batches:
        return []
    return list(zip(*(column.to_pylist() for column in pa.Table.from_batches(batches).columns), strict=True))


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
