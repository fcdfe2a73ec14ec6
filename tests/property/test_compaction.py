"""Consume queues and index are derived, also where segments were dropped and others became sparse.

The law, after each start and whatever was deleted before it: the queue holds exactly what was sent and not settled,
each message with its octets at its place; a topic's subscription likewise; what is settled stays settled; the store is
sound; and a query by key finds every message that is pending.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from engine.store.read.found_message import Bounds
from engine.store.read.query import StoreQuery
from engine.store.verify.store_check import verify
from engine.values.destination import QUEUE, TOPIC
from engine.values.message import KEYED, PERSISTENT, STOMP, Message
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import THINNING, FileHome, lane

NAMES = ("orders", "news")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.sampled_from(NAMES), st.integers(1, 40)),
        st.tuples(st.just("transact"), st.sampled_from(NAMES), st.integers(1, 20)),
        st.tuples(st.just("settle"), st.sampled_from(NAMES), st.integers(1, 60)),
        st.tuples(st.just("settle_most"), st.sampled_from(NAMES), st.integers(1, 9)),
        st.tuples(st.just("wait"), st.just(""), st.sampled_from((200, 1_000))),
        st.tuples(st.just("restart"), st.sampled_from(("stop", "kill", "crash")), st.integers(0, 3)),
    ),
    max_size=25,
)


class Life:
    """What was done: the messages of each destination in their order, and which are settled."""

    def __init__(self, retention_bytes: int, percent: int) -> None:
        self.home = FileHome(
            replace(
                THINNING,
                index_slots=3,
                index_entries=40,
                retention_bytes=retention_bytes,
                retention_interval_ms=500,
                compaction_live_percent=percent,
                compaction_interval_ms=200,
            )
        )
        store = self.home.store
        self.numbers = {
            "orders": store.open_destination(QUEUE, "orders"),
            "news": store.open_destination(TOPIC, "news"),
        }
        self.mail = store.open_subscription(self.numbers["news"], "mail", {})
        self.home.flush()
        self.sent: dict[str, list[Message]] = {name: [] for name in NAMES}
        self.settled: dict[str, set[int]] = {name: set() for name in NAMES}

    def message(self, name: str) -> Message:
        count = len(self.sent[name])
        headers = f"keys:{name}-{count}\n".encode()
        body = b"%s %d" % (name.encode(), count)
        found = Message(self.numbers[name], STOMP, PERSISTENT | KEYED, 4, 0, 0, 0, b"", headers, body.ljust(90, b"."))
        self.sent[name].append(found)
        return found

    def send(self, name: str, count: int) -> None:
        for _ in range(count):
            self.home.store.append(self.message(name))
            self.home.flush()

    def transact(self, name: str, count: int) -> None:
        messages = [self.message(name) for _ in range(count)]
        self.home.store.begin()
        for message in messages:
            self.home.store.append(message)
        self.home.store.commit()
        self.home.flush()

    def settle(self, name: str, count: int) -> None:
        self._settle(name, self.pending(name)[:count])

    def settle_most(self, name: str, kept: int) -> None:
        """Settle all but each so many-th of twenty."""
        self._settle(name, [entry for entry in self.pending(name) if entry % 20 != kept])

    def _settle(self, name: str, entries: list[int]) -> None:
        for entry in entries:
            size = self.sent[name][entry].size
            number = self.mail if name == "news" else self.numbers[name]
            each = Range(4, entry, 1, 0, size, [size])
            self.home.store.settle(number, 0, ACKNOWLEDGED, CAUSE_NONE, [each])
        self.settled[name].update(entries)
        self.home.flush()

    def pending(self, name: str) -> list[int]:
        return [entry for entry in range(len(self.sent[name])) if entry not in self.settled[name]]

    def wait(self, _: str, milliseconds: int) -> None:
        self.home.pass_by(milliseconds)

    def restart(self, how: str, deleted: int) -> None:
        """deleted: 1 the index, 2 the consume queues, 3 both."""
        if how == "stop":
            self.home.stop()
        elif how == "kill":
            self.home.files = self.home.files.killed()
        else:
            self.home.crash()
        assert verify(self.home.files, "data").findings == []
        folders = [name for bit, name in ((1, "data/index/"), (2, "data/consumequeue/")) if deleted & bit]
        for path in self.home.files.paths():
            if path.startswith(tuple(folders)):
                self.home.files.unlink(path)
        self.home.begin()
        self.check()

    def check(self) -> None:
        for name, owner in (("orders", "orders"), ("news", "mail")):
            if not self.sent[name]:
                continue
            found = lane(self.home.store.recovered(), owner)
            settled = set(range(found.cursor)).union(*(range(first, first + n) for first, n in found.settled))
            assert found.tail == len(self.sent[name])
            assert settled == self.settled[name]
            size = sum(self.sent[name][entry].size for entry in self.pending(name))
            assert self.home.store.live_bytes(self.numbers[name]) == size
            self.read(name)
        with tempfile.TemporaryDirectory() as directory, StoreQuery(copy_to(Path(directory), self.home.files)) as query:
            for name in NAMES:
                for entry in self.pending(name)[:5]:
                    (only,) = query.by_key(f"{name}-{entry}", Bounds()).messages
                    assert only.queue_offset == entry

    def read(self, name: str) -> None:
        first = self.pending(name)[0] if self.pending(name) else len(self.sent[name])
        got: dict[int, bytes] = {}
        while first < len(self.sent[name]):
            page = self.home.page(self.numbers[name], 4, first, 1000)
            got.update({message.queue_offset: message.body for message in page.messages})
            first = page.next_offset
        assert {entry: got.get(entry) for entry in self.pending(name)} == {
            entry: self.sent[name][entry].body for entry in self.pending(name)
        }
        assert all(body == self.sent[name][entry].body for entry, body in got.items())


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, retention_bytes=st.sampled_from((0, 20_000)), percent=st.sampled_from((30, 60, 100)))
def test_what_is_derived_may_be_deleted_after_drops_and_compaction(
    steps: list[tuple[str, str, int]], retention_bytes: int, percent: int
) -> None:
    life = Life(retention_bytes, percent)
    ending = [("wait", "", 1_000), ("restart", "stop", 3), ("wait", "", 1_000), ("restart", "kill", 3)]
    for name, *values in [*steps, *ending]:
        getattr(life, name)(*values)
