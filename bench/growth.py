#!/usr/bin/env python3
"""Cost as work grows: what one message costs, and one more thing takes, with few and with many of them.

    python bench/growth.py [DIMENSION ...] [--most N]

Each size of a dimension has a process of its own, in which sessions of STOMP get octets as from a socket, and the store
is a real one without syncs.  Its things are there before the messages that are counted.  The costs of a message, from
SEND to ACK: *instructions*, the bytecode of the project, which no other work on the machine changes; *us*, processor
time, which also shows loops in C.  *octets*: the resident memory that one more thing takes.

The last column compares the largest size with the second one, because the first lacks what is only done once there
are several.  A cost grows with its dimension if that is far above 1.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.in_process import INLINE_WORKERS, MEMORY_LIMIT_BYTES, SYSTEM_CLOCK, QuietLink, ended
from bench.instructions import Opcodes
from config.matching import AddressMatcher
from engine.broker import Broker
from engine.ports.timers import Timers, TimerTarget
from engine.store.disk.files import RealFiles
from engine.store.file_store import FileStore
from engine.store.settings import StoreSettings
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.stomp_session import StompSession

CONNECT: Final = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"
ACK_ID: Final = re.compile(rb"\nack:(\d+)\n")
MESSAGES: Final = 200  # that are counted
A_TURN: Final = 10
WAITING: Final = 1_000  # messages of several priorities
A_READ: Final = 100  # frames of a setup in one read
SMALL: Final = 256  # octets of a body
LARGE: Final = 100_000  # of a body that has a read of its own, as from a socket
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class DueTimers(Timers):
    """Keeps what is due at once, as the next piece of a large message; nothing lives long enough for the rest."""

    def __init__(self) -> None:
        self.due: list[tuple[TimerTarget, int]] = []

    def call_at(self, when_ms: int, target: TimerTarget, key: int) -> None:
        if when_ms <= SYSTEM_CLOCK.monotonic_ms():
            self.due.append((target, key))


class Session(QuietLink):
    """A client that settles what it gets at once."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.session = StompSession(world.broker, self, SessionSettings(), 0)
        self.settles_at_once = True
        self.held: list[bytes] = []
        self.received = 0
        self.say(CONNECT)

    def touch(self) -> None:
        if not self.is_touched:
            self.is_touched = True
            self._world.touched.append(self)

    def say(self, octets: bytes) -> None:
        self._world.broker.begin_turn()
        self.session.receive_data(octets, 0)
        self._world.end_turn()

    def take(self, octets: bytes) -> None:
        ids: list[bytes] = ACK_ID.findall(octets)
        self.received += len(ids)
        self.held += ids

    def settled(self) -> bytes:
        """Return an ACK of each message that it holds."""
        held, self.held = self.held, []
        return b"".join(b"ACK\nid:%b\n\n\0" % one for one in held)

    def subscribe(self, number: int, destination: str, headers: str = "") -> bytes:
        return (
            f"SUBSCRIBE\nid:{number}\ndestination:{destination}\nack:client-individual\n"
            f"activemq.prefetchSize:{A_TURN}\n{headers}\n\0"
        ).encode()


class World:
    """A broker with a producer and as many consumers as a size asks for."""

    def __init__(self, directory: str) -> None:
        self.timers = DueTimers()
        self.store = FileStore(directory, RealFiles(), INLINE_WORKERS, SYSTEM_CLOCK, self.timers, StoreSettings())
        self.broker = Broker(self.store, SYSTEM_CLOCK, self.timers, AddressMatcher(()), MEMORY_LIMIT_BYTES)
        self.touched: list[Session] = []
        self.consumers: list[Session] = []
        self.slow: Session | None = None
        self.producer = Session(self)

    def consumer(self) -> Session:
        session = Session(self)
        self.consumers.append(session)
        return session

    def end_turn(self) -> None:
        """End turns until no client has anything to say."""
        while True:
            offset = ended(self.broker)
            touched, self.touched = self.touched, []
            answers: list[tuple[Session, bytes]] = []
            for client in touched:
                client.is_touched = False
                octets = client.session.end_turn(offset, offset)
                if client.session.is_output_full or client.session.outbox.parts:
                    client.session.output_written(False)
                client.take(octets)
                if client.settles_at_once and client.held:
                    answers.append((client, client.settled()))
            self.store.write()
            due, self.timers.due = self.timers.due, []
            if not (answers or due or self.touched):
                return
            self.broker.begin_turn()
            for target, key in due:
                target.timer_fired(key)
            for client, octets in answers:
                client.session.receive_data(octets, 0)

    def pass_all(self, frames: list[bytes]) -> None:
        """Send them; of a backlog, settle as many messages instead."""
        if self.slow is None:
            in_reads(self.producer, frames, A_TURN if len(frames[0]) < LARGE else 1)
            return
        for _ in range(0, len(frames), A_TURN):
            self.slow.say(self.slow.settled())

    def received(self) -> int:
        return sum(consumer.received for consumer in self.consumers)


def send(destination: str, size: int = SMALL, headers: str = "", is_persistent: bool = True) -> bytes:
    persistent = "persistent:true\n" if is_persistent else ""
    return (
        f"SEND\ndestination:{destination}\ncontent-length:{size}\n{persistent}{headers}\n".encode()
        + b"x" * size
        + b"\0"
    )


def in_reads(client: Session, frames: Iterable[bytes], count: int = A_READ) -> None:
    read: list[bytes] = []
    for frame in frames:
        read.append(frame)
        if len(read) == count:
            client.say(b"".join(read))
            read.clear()
    if read:
        client.say(b"".join(read))


def one_queue(world: World) -> None:
    consumer = world.consumer()
    consumer.say(consumer.subscribe(0, "/queue/q"))


# Each returns the frames to count.


def destinations(world: World, size: int) -> list[bytes]:
    consumer = world.consumer()
    in_reads(consumer, (consumer.subscribe(number, f"/queue/q{number}") for number in range(size)))
    return [send(f"/queue/q{number * 7919 % size}") for number in range(MESSAGES)]


def connections(world: World, size: int) -> list[bytes]:
    for number in range(size):
        consumer = world.consumer()
        consumer.say(consumer.subscribe(0, f"/queue/own{number}"))
    one_queue(world)
    return [send("/queue/q")] * MESSAGES


def consumers(world: World, size: int) -> list[bytes]:
    for _ in range(size):
        one_queue(world)
    return [send("/queue/q")] * MESSAGES


def selectors(world: World, size: int) -> list[bytes]:
    consumer = world.consumer()
    in_reads(
        consumer, (consumer.subscribe(number, "/queue/q", f"selector:k = 'v{number}'\n") for number in range(size))
    )
    return [send("/queue/q", headers=f"k:v{number * 7919 % size}\n") for number in range(MESSAGES)]


def subscribers(world: World, size: int) -> list[bytes]:
    for _ in range(size):
        consumer = world.consumer()
        consumer.say(consumer.subscribe(0, "/topic/t"))
    return [send("/topic/t", is_persistent=False)] * A_TURN


def wildcards(world: World, size: int) -> list[bytes]:
    consumer = world.consumer()
    in_reads(consumer, (consumer.subscribe(number, f"/topic/w{number}.>") for number in range(size)))
    return [send(f"/topic/w{number * 7919 % size}.a", is_persistent=False) for number in range(MESSAGES)]


def backlog_send(world: World, size: int) -> list[bytes]:
    in_reads(world.producer, (send("/queue/q") for _ in range(size)))
    return [send("/queue/q")] * MESSAGES


def backlog_drain(world: World, size: int) -> list[bytes]:
    in_reads(world.producer, (send("/queue/q") for _ in range(size + 4 * MESSAGES)))
    world.slow = world.consumer()
    world.slow.settles_at_once = False
    world.slow.say(world.slow.subscribe(0, "/queue/q"))
    return [b""] * MESSAGES


def bodies(world: World, size: int) -> list[bytes]:
    one_queue(world)
    return [send("/queue/q", size)] * (MESSAGES if size < LARGE else A_TURN)


def priorities(world: World, size: int) -> list[bytes]:
    in_reads(world.producer, (send("/queue/q", headers=f"priority:{number % size}\n") for number in range(WAITING)))
    one_queue(world)
    return [send("/queue/q", headers=f"priority:{number % size}\n") for number in range(MESSAGES)]


def transactions(world: World, size: int) -> list[bytes]:
    one_queue(world)
    in_one = [send("/queue/q", headers="transaction:t\n")] * size
    each = [b"BEGIN\ntransaction:t\n\n\0", *in_one, b"COMMIT\ntransaction:t\n\n\0"]
    return each * max(1, MESSAGES // size)


@dataclass(frozen=True)
class Dimension:
    """prepare: makes the things, and returns the frames of the messages that are counted.

    is_of_each: the cost is that of one of the things, as of one subscriber's copy.
    """

    prepare: Callable[[World, int], list[bytes]]
    sizes: tuple[int, ...]
    is_of_each: bool = False


DIMENSIONS: Final = {
    "destinations": Dimension(destinations, (1, 100, 10_000)),
    "connections": Dimension(connections, (1, 100, 10_000)),
    "consumers": Dimension(consumers, (1, 100, 1_000)),
    "selectors": Dimension(selectors, (1, 100, 10_000)),
    "subscribers": Dimension(subscribers, (1, 100, 1_000), is_of_each=True),
    "wildcards": Dimension(wildcards, (1, 100, 10_000)),
    "backlog-send": Dimension(backlog_send, (1, 10_000, 1_000_000)),
    "backlog-drain": Dimension(backlog_drain, (1, 10_000, 1_000_000)),
    "bodies": Dimension(bodies, (100, 10_240, 1_048_576, 10_485_760)),
    "priorities": Dimension(priorities, (1, 10)),
    "transactions": Dimension(transactions, (1, 100, 10_000)),
}


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def one(name: str, size: int) -> dict[str, float]:
    """Return the costs of one size, in this process."""
    dimension = DIMENSIONS[name]
    directory = tempfile.mkdtemp(prefix="penstock-bench-")
    try:
        world = World(directory)
        before = resident()
        frames = dimension.prepare(world, size)
        gc.collect()
        took = resident() - before
        messages = sum(1 for frame in frames if not frame or frame.startswith(b"SEND"))
        world.pass_all(frames)  # what is done once only
        began = time.process_time()
        world.pass_all(frames)
        spent_us = (time.process_time() - began) * 1e6
        with Opcodes() as opcodes:
            world.pass_all(frames)
        each = messages * (size if dimension.is_of_each else 1)
        received = world.received()
        more = {"backlog-send": -3 * each, "backlog-drain": A_TURN, "priorities": WAITING}
        wanted = 3 * each + more.get(name, 0)
        assert received == wanted, f"{name} {size}: {received:,} of {wanted:,} messages came"
        world.store.close()
    finally:
        shutil.rmtree(directory)
    return {
        "instructions": round(opcodes.by_code.total() / each, 1),
        "us": round(spent_us / each, 1),
        "octets": round(took / size),
    }


def table(name: str, sizes: list[int], found: list[dict[str, float]]) -> list[str]:
    rows = []
    for what in ("instructions", "us", "octets"):
        values = [costs[what] for costs in found]
        growth = values[-1] / values[1] if len(values) > 2 and values[1] else values[-1] / values[0]
        cells = " | ".join(f"{size:,}: {value:,.0f}" for size, value in zip(sizes, values, strict=True))
        rows.append(f"| {name} | {what} | {cells} | {growth:.2f} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dimensions", nargs="*", metavar="DIMENSION", help=", ".join(DIMENSIONS))
    parser.add_argument("--most", type=int, default=10**9, help="leave out larger sizes")
    parser.add_argument("--one", type=int, help="print the costs of this size as JSON")
    arguments = parser.parse_args()
    wrong = set(arguments.dimensions) - set(DIMENSIONS)
    if wrong:
        parser.error(f"{', '.join(sorted(wrong))}: allowed are {', '.join(DIMENSIONS)}")
    if arguments.one is not None:
        print(json.dumps(one(arguments.dimensions[0], arguments.one)))
        return
    for name in arguments.dimensions or DIMENSIONS:
        sizes = [size for size in DIMENSIONS[name].sizes if size <= arguments.most]
        found: list[Any] = []
        for size in sizes:
            command = [sys.executable, __file__, name, "--one", str(size)]
            found.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        print("\n".join(table(name, sizes, found)), flush=True)


if __name__ == "__main__":
    main()
