"""Many queues with one message each: the cost of each phase per queue, with a few and with ten times as many."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path
from typing import Any, Final

from bench.measure import Say
from bench.plain_stomp import PlainStomp
from bench.processes import Broken, Gateway, memory_mib
from protocols.stomp.codec import frames

AT_ONCE: Final = 100  # queues whose frames are written before a read
BODY: Final = b"x" * 256


def measure(home: Path, counts: list[int], say: Say) -> list[dict[str, Any]]:
    """Return the phases for each number of queues; each begins with a new store."""
    found = []
    for count in counts:
        found.append(_one(home, count))
        say(f"{count:,} queues: {found[-1]}")
    return found


def _one(home: Path, count: int) -> dict[str, Any]:
    gateway = Gateway(home)
    phases: dict[str, float] = {}
    try:
        gateway.start()
        idle = memory_mib(gateway.pid)["now"]
        phases["create_and_send"] = _timed(lambda: _send(gateway.port, count, "r"))
        phases["send_again"] = _timed(lambda: _send(gateway.port, count, "s"))
        memory = memory_mib(gateway.pid)
        for how, number in (("stop", signal.SIGTERM), ("kill", signal.SIGKILL)):
            phases[how] = _timed(lambda number=number: gateway.stop(number))
            phases[f"start_after_{how}"] = _timed(gateway.start)
        phases["receive"] = _timed(lambda: _receive(gateway.port, count))
    finally:
        gateway.stop()
        shutil.rmtree(home, ignore_errors=True)
    return {
        "queues": count,
        "phases_s": {name: round(seconds, 3) for name, seconds in phases.items()},
        "us_a_queue": {name: round(seconds / count * 1e6, 1) for name, seconds in phases.items()},
        "memory_mib": memory,
        "idle_mib": idle,
    }


def _timed(phase: Any) -> float:
    began = time.monotonic()
    phase()
    return time.monotonic() - began


def _send(port: int, count: int, receipt: str) -> None:
    client = PlainStomp(port)
    headers = b"persistent:true\nreceipt:%b" % receipt.encode()
    for start in range(0, count, AT_ONCE):
        names = range(start, min(start + AT_ONCE, count))
        client.send(
            b"".join(b"SEND\ndestination:/queue/bench.%d\n%b\n\n%b\0" % (name, headers, BODY) for name in names)
        )
        for _ in names:
            client.take(frames.RECEIPT)
    client.close()


def _receive(port: int, count: int) -> None:
    """Take both messages of each queue, and unsubscribe."""
    client = PlainStomp(port)
    for start in range(0, count, AT_ONCE):
        names = range(start, min(start + AT_ONCE, count))
        client.send(
            b"".join(b"SUBSCRIBE\nid:%d\ndestination:/queue/bench.%d\nack:auto\n\n\0" % (name, name) for name in names)
        )
        seen: dict[str, int] = {}
        for _ in range(2 * len(names)):
            frame = client.take(frames.MESSAGE)
            name = frame.head.headers["subscription"]
            seen[name] = seen.get(name, 0) + 1
        if any(times != 2 for times in seen.values()):
            raise Broken(f"not each queue gave both of its messages: {seen}")
        client.send(b"".join(b"UNSUBSCRIBE\nid:%d\nreceipt:u\n\n\0" % name for name in names))
        for _ in names:
            client.take(frames.RECEIPT)
    client.close()
