"""Index files and consume queues are derived: deleting them costs a rebuild, never a message or an answer.

The law, after each start: the queue holds what was sent and not settled; and a query by key answers exactly the
messages with that key that retention has left, settled ones included, newest first.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import given, settings

from engine.store.read.found_message import Bounds
from engine.store.read.query import StoreQuery
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE
from engine.values.message import KEYED, PERSISTENT, STOMP, Message
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import FileHome, lane

KEYS = ("a", "b", "c")
SENDS = st.tuples(st.just("send"), st.lists(st.sampled_from(KEYS), max_size=3), st.integers(1, 40))
SETTLES = st.tuples(st.just("settle"), st.floats(0, 1), st.integers(1, 30))
WAITS = st.tuples(st.just("wait"), st.sampled_from((100, 1_000)), st.just(0))
RESTARTS = st.tuples(st.just("restart"), st.sampled_from(("stop", "kill", "crash")), st.sampled_from((0, 1, 2, 3)))
STEPS = st.lists(st.one_of(SENDS, SENDS, SETTLES, WAITS, RESTARTS), max_size=25)


class Life:
    """What was done: every message by its entry, and which are settled."""

    def __init__(self, retention_bytes: int) -> None:
        self.home = FileHome(
            StoreSettings(
                segment_bytes=8192,
                index_slots=3,
                index_entries=10,
                retention_bytes=retention_bytes,
                retention_time_ms=0,
                retention_interval_ms=500,
            )
        )
        self.number = self.home.store.open_destination(QUEUE, "orders")
        self.home.flush()
        self.sent: list[tuple[int, list[str]]] = []
        self.settled: set[int] = set()

    def send(self, keys: list[str], count: int) -> None:
        headers = f"keys:{' '.join(keys)}\n".encode()
        for _ in range(count):
            message = Message(self.number, STOMP, PERSISTENT | KEYED, 4, 0, 0, 0, b"", headers, b"x" * 90)
            self.home.store.append(message)
            self.sent.append((message.log_offset, keys))
        self.home.flush()

    def settle(self, place: float, count: int) -> None:
        pending = [entry for entry in range(len(self.sent)) if entry not in self.settled]
        chosen = pending[int(place * len(pending)) :][:count]
        for entry in chosen:
            self.home.store.settle(self.number, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, entry, 1, 0, 97, (97,))])
        self.settled.update(chosen)
        self.home.flush()

    def restart(self, how: str, deleted: int) -> None:
        """deleted: 1 the index, 2 the consume queues, 3 both."""
        if how == "stop":
            self.home.stop()
        elif how == "kill":
            self.home.files = self.home.files.killed()
        else:
            self.home.crash()
        folders = [name for bit, name in ((1, "data/index/"), (2, "data/consumequeue/")) if deleted & bit]
        for path in self.home.files.paths():
            if path.startswith(tuple(folders)):
                self.home.files.unlink(path)
        self.check()
        self.home.begin()
        self.number = self.home.store.open_destination(QUEUE, "orders")
        if self.sent:
            found = lane(self.home.store.recovered(), "orders")
            settled = set(range(found.cursor)).union(*(range(first, first + n) for first, n in found.settled))
            assert found.tail == len(self.sent)
            assert settled == self.settled

    def check(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            reader = copy_to(Path(directory), self.home.files)
            with StoreQuery(reader) as query:
                for key in KEYS:
                    found = [each.log_offset for each in query.by_key(key, Bounds(limit=10_000)).messages]
                    wanted = [at for at, keys in reversed(self.sent) if key in keys and at >= reader.first_offset]
                    assert found == wanted


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, retention_bytes=st.sampled_from((0, 20_000, 1 << 30)))
def test_what_is_derived_may_be_deleted(steps: list[tuple[str, object, object]], retention_bytes: int) -> None:
    life = Life(retention_bytes)
    for name, *values in [*steps, ("restart", "stop", 0), ("restart", "stop", 3), ("restart", "crash", 0)]:
        if name == "wait":
            life.home.pass_time(int(str(values[0])))
        else:
            getattr(life, name)(*values)
