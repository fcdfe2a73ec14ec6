#!/usr/bin/env python3
"""Instructions per message, which no other work on the machine changes: to compare two versions path by path.

    python bench/instructions.py [PATH ...] [--messages N] [--functions]     bytecode of the project without bench/
    python bench/instructions.py [PATH ...] --machine                        of the processor, by valgrind: compiled too

Each path runs twice, with N messages and with 2 N; the difference is the cost of N messages and nothing else.  The
clock stands still, because one tick more or less would be visible.  The paths hot, amqp, openwire and topic have 50
messages per turn, gateway-ack four, the others one.  topic has ten subscribers, which acknowledge nothing
(``ack:auto``), and non-persistent messages.  The paths of the gateway pass its turns and connections as well
(``gateway_path``).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import openwire_path
from bench.amqp_path import dispositions
from bench.gateway_path import GatewayTurns, LoopWorkers, Rounds
from bench.hot_path import acknowledgements
from bench.in_process import open_broker, open_store, spent_us
from bench.one_a_turn import PAIRS, acknowledge, send, stomp_sends
from bench.topic_path import publish, subscribers
from engine.ports.clock import Clock

ROOT: Final = Path(__file__).resolve().parent.parent
A_TURN: Final = 50
SIZE: Final = 1024
CREDIT: Final = 30_000
COUNTED: Final = (f"{ROOT}/engine/", f"{ROOT}/protocols/", f"{ROOT}/gateway/")
# Of a path: protocol, messages per turn, whether they are acknowledged; the path to subtract.
PATHS: Final[dict[str, tuple[str, int, bool, str]]] = {
    "hot": ("stomp", A_TURN, True, ""),
    "amqp": ("amqp", A_TURN, True, ""),
    "stomp-send": ("stomp", 1, False, ""),
    "stomp-ack": ("stomp", 1, True, "stomp-send"),
    "amqp-send": ("amqp", 1, False, ""),
    "amqp-ack": ("amqp", 1, True, "amqp-send"),
    "openwire": ("openwire", A_TURN, True, ""),
    "openwire-send": ("openwire", 1, False, ""),
    "openwire-ack": ("openwire", 1, True, "openwire-send"),
    "gateway-send": ("gateway", 1, False, ""),
    "gateway-ack": ("gateway", 1, True, "gateway-send"),
    "topic": ("topic", A_TURN, False, ""),
}
ANSWERS: Final = {"stomp": acknowledgements, "amqp": dispositions, "openwire": openwire_path.acknowledged}
I_REFS: Final = re.compile(rb"I\s+refs:\s+([\d,]+)")


class StandingClock(Clock):
    def monotonic_ms(self) -> int:
        return 1_000

    def wall_ms(self) -> int:
        return 1_700_000_000_000


class Opcodes:
    """``with Opcodes() as opcodes:`` then ``opcodes.by_code``."""

    def __init__(self) -> None:
        self.by_code: Counter[CodeType] = Counter()

    def __enter__(self) -> Opcodes:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def by_name(self) -> Counter[str]:
        named: Counter[str] = Counter()
        for code, count in self.by_code.items():
            named[f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_qualname}"] += count
        return named

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(COUNTED):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._opcode

    def _opcode(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            self.by_code[frame.f_code] += 1
        return self._opcode


def run(path: str, messages: int) -> None:
    """Pass this many messages."""
    protocol, a_turn, is_acknowledged, _ = PATHS[path]
    directory = tempfile.mkdtemp(prefix="penstock-bench-")
    try:
        clock = StandingClock()
        if protocol == "gateway":
            pass_gateway(directory, clock, messages, is_acknowledged)
            return
        store = open_store(directory, clock)
        broker = open_broker(store, clock)
        if protocol == "topic":
            publish(broker, subscribers(broker), messages, SIZE)
            store.close()
            return
        pair = PAIRS[protocol](broker, 1 if a_turn == 1 else CREDIT)
        offset = broker.end_turn()
        pair.producer.end_turn(offset, offset)
        pair.consumer.end_turn(offset, offset)
        octets = pair.sends(messages, SIZE)
        if a_turn == 1:
            send(broker, store, pair, octets)
            if is_acknowledged:
                acknowledge(broker, store, pair, messages)
        else:
            reads = [b"".join(octets[start : start + a_turn]) for start in range(0, messages, a_turn)]
            answers = ANSWERS[protocol]
            spent_us(broker, store, pair.producer, pair.consumer, reads, answers)
        store.close()
    finally:
        shutil.rmtree(directory)


def pass_gateway(directory: str, clock: Clock, messages: int, is_acknowledged: bool) -> None:
    loop = Rounds()
    workers = LoopWorkers(loop)
    store = open_store(directory, clock, workers)
    turns = GatewayTurns(loop, store, workers, clock)
    turns.send(stomp_sends(messages, SIZE))
    if is_acknowledged:
        turns.drain(messages)
    loop.run()
    store.close()


def bytecode(path: str, messages: int) -> Counter[str]:
    """Return the instructions of N messages by function."""
    counts: list[Counter[str]] = []
    for count in (messages, 2 * messages):
        with Opcodes() as opcodes:
            run(path, count)
        counts.append(opcodes.by_name())
    counts[1].subtract(counts[0])
    return counts[1]


def machine(path: str, messages: int) -> Counter[str]:
    """Return the instructions of the processor that N messages take."""
    counts: list[int] = []
    for count in (messages, 2 * messages):
        command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
        command += [sys.executable, __file__, path, "--bare", str(count)]
        done = subprocess.run(command, capture_output=True, check=True, env=os.environ | {"PYTHONHASHSEED": "0"})
        found = I_REFS.search(done.stderr)
        assert found is not None, done.stderr
        counts.append(int(found[1].replace(b",", b"")))
    return Counter({"all": counts[1] - counts[0]})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="*", metavar="PATH", help=", ".join(PATHS))
    parser.add_argument("--messages", type=int, default=1_000)
    parser.add_argument("--functions", action="store_true")
    parser.add_argument("--machine", action="store_true")
    parser.add_argument("--bare", type=int, help="only run, with this many messages")
    arguments = parser.parse_args()
    if arguments.bare is not None:
        run(arguments.paths[0], arguments.bare)
        return
    messages = arguments.messages
    count: Callable[[str, int], Counter[str]] = machine if arguments.machine else bytecode
    for path in arguments.paths or PATHS:
        counts = count(path, messages)
        less = PATHS[path][3]
        if less:
            counts.subtract(count(less, messages))
        print(f"{path}: {counts.total() / messages:,.1f} instructions per message", flush=True)
        if arguments.functions:
            for name, number in sorted(counts.items(), key=lambda one: -one[1]):
                if number:
                    print(f"  {number / messages:8.1f}  {name}")


if __name__ == "__main__":
    main()
