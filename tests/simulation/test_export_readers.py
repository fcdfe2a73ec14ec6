"""Readers against the gateway's own store: whatever happens to it, a reader sees what it promises."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from engine.store.disk.files import RealFiles
from engine.store.file_store import FileStore
from engine.store.read.reader import StoreReader
from engine.store.read.selection import parse
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE, TOPIC
from engine.values.message import PERSISTENT, STOMP, TEXT, Message
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE, DEAD_LETTERED, DROPPED, EXPIRED, OUTCOME_NAMES
from engine.values.stored import Range
from spark_bridge.arrow.schema import MESSAGES
from spark_bridge.log.heads import ENTRY_COLUMNS
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import Plan, make_plan
from tests.support.fakes import HeldWorkers, VirtualClock, VirtualTimers
from tests.support.store.store_world import RecordingListener
from tests.support.world.seeds import taken

SETTINGS = StoreSettings(segment_bytes=16384)


@dataclass
class Expected:
    """What the log holds, by log offset: body and state; ``pending`` by lane, for settlements."""

    bodies: dict[int, bytes] = field(default_factory=dict)
    states: dict[int, str] = field(default_factory=dict)
    pending: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)

    def copy(self) -> Expected:
        pending = {lane: dict(offsets) for lane, offsets in self.pending.items()}
        return Expected(dict(self.bodies), dict(self.states), pending)


class World:
    """A store in real files, driven at random.  ``written`` is what a killed gateway leaves, ``durable`` what a
    power cut leaves."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.directory = directory
        self.generation = 0
        self.appended = Expected()
        self.open()

    def open(self) -> None:
        self.clock = VirtualClock()
        self.workers = HeldWorkers()
        timers = VirtualTimers(self.clock)
        self.store = FileStore(str(self.directory), RealFiles(), self.workers, self.clock, timers, SETTINGS)
        self.store.attach(RecordingListener())
        self.destinations = [
            (self.store.open_destination(kind, name), kind)
            for kind, name in ((QUEUE, "orders.eu"), (QUEUE, "orders.us"), (TOPIC, "prices"))
        ]
        self.flush()

    def flush(self) -> None:
        self.store.write()
        self.store.sync()
        self.workers.run_all()
        self.durable = self.appended.copy()
        self.written = self.durable

    def send(self) -> None:
        number, kind = self.random.choice(self.destinations)
        priority = self.random.choice((4, 4, 4, 7))
        body = b"%d " % self.random.getrandbits(64) * self.random.choice((1, 5, 40))
        flags = PERSISTENT | self.random.choice((0, TEXT))
        message = Message(number, STOMP, flags, priority, 0, 0, 0, b"", b"type:t\n", body)
        self.store.append(message)
        self.appended.bodies[message.log_offset] = body
        self.appended.states[message.log_offset] = "pending" if kind == QUEUE else "published"
        if kind == QUEUE:
            lane = self.appended.pending.setdefault((number, priority), {})
            lane[message.queue_offset] = message.log_offset

    def settle(self) -> None:
        lanes = [lane for lane, offsets in self.appended.pending.items() if offsets]
        if not lanes:
            return
        number, priority = self.random.choice(lanes)
        offsets = self.appended.pending[number, priority]
        chosen = self.random.sample(sorted(offsets), min(len(offsets), self.random.choice((1, 1, 3, 10))))
        outcome = self.random.choice((ACKNOWLEDGED, ACKNOWLEDGED, DEAD_LETTERED, EXPIRED, DROPPED))
        self.store.settle(number, 0, outcome, CAUSE_NONE, [Range(priority, each, 1) for each in sorted(chosen)])
        for each in chosen:
            self.appended.states[offsets.pop(each)] = OUTCOME_NAMES[outcome]

    def transaction(self) -> None:
        self.store.begin()
        for _ in range(self.random.randrange(1, 4)):
            self.send()
        self.settle()
        self.store.commit()

    def step(self) -> None:
        action = self.random.choices(
            (self.send, self.settle, self.transaction, self.write, self.flush), (20, 8, 2, 2, 2)
        )
        action[0]()

    def write(self) -> None:
        """Hand it to the disk, without a sync."""
        self.store.write()
        self.written = self.appended.copy()

    def kill(self) -> None:
        """Stop as ``kill -9`` does: what was written is there, the lock is gone."""
        self.generation += 1
        left = self.directory.with_name(f"data-{self.generation}")
        shutil.copytree(self.directory, left)
        self.workers.run_all()
        self.store.close()
        shutil.rmtree(self.directory)
        self.directory = left
        self.appended = self.written.copy()

    def stop(self) -> None:
        self.flush()
        self.store.close()
        self.durable = self.written = self.appended.copy()


def check(directory: Path, expected: Expected) -> None:
    plan = make_plan(StoreReader(directory), parse(">"), partition_bytes=20_000, body="binary")
    rows = rows_of(plan)
    seen = [(row["log_offset"], row["body"], row["delivery_state"]) for row in rows]
    assert seen == [(offset, body, expected.states[offset]) for offset, body in sorted(expected.bodies.items())]
    by_entries = rows_of(plan.of_table(MESSAGES, sorted(ENTRY_COLUMNS)))
    assert by_entries == [{name: row[name] for name in row if name in ENTRY_COLUMNS} for row in rows]


def rows_of(plan: Plan) -> list[dict[str, Any]]:
    return [row for pieces in plan.partitions for batch in read_pieces(plan, pieces, 50) for row in batch.to_pylist()]


@pytest.mark.parametrize("seed", taken(range(8)))
def test_what_readers_see(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path / "data", seed)
    for _ in range(12):
        for _ in range(world.random.randrange(120)):
            world.step()
        check(world.directory, world.durable)  # beside the running store
        match world.random.randrange(4):
            case 0:
                world.kill()
                check(world.directory, world.appended)
                world.open()
            case 1:
                world.stop()
                check(world.directory, world.appended)
                world.open()
        check(world.directory, world.durable)
    world.stop()
