"""A million scheduled messages: how fast they are accepted, their memory, how late they fire.

They are for tomorrow; while they wait, some more fire at a fixed rate.  Lateness is the time from the due time of a
message, by the wall clock, until its consumer has read it.
"""

from __future__ import annotations

import shutil
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.processes import Broken, Gateway, Server, memory_mib, processor_s
from bench.store_report import Rows, verdict

DESTINATION: Final = b"/queue/due"
SENT_TOGETHER: Final = 256
RECEIPT_EVERY: Final = 8_192
READ_BYTES: Final = 1 << 18
PATIENCE_S: Final = 120.0
BODY_BYTES: Final = 256
LEAST_PER_S: Final = 3_000  # possible on any machine: all messages are scheduled before the first one is due


class Peer:
    """A minimal STOMP connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.socket.sendall(b"CONNECT\naccept-version:1.2\nhost:bench\n\n\0")
        self.read_until(b"CONNECTED")

    def read_until(self, word: bytes) -> None:
        """Read on until ``word`` has come."""
        while word not in self.buffer:
            octets = self.socket.recv(READ_BYTES)
            if not octets or b"ERROR\n" in octets:
                raise Broken(f"the gateway ended the connection: {octets[:300]!r}")
            self.buffer += octets
        self.buffer = self.buffer[self.buffer.index(word) + len(word) :]


def measure(server: Server, count: int, rate: int, seconds: float) -> dict[str, Any]:
    """Schedule ``count`` messages for tomorrow, then some for the next ``seconds``, and watch those fire."""
    before_mib = memory_mib(server.pid)["now"]
    sender = Peer(server.port)
    tomorrow_ms = int(time.time() + 86_400) * 1000
    began, began_cpu_s = time.monotonic(), processor_s(server.pid)
    _schedule(sender, b"/queue/tomorrow", tomorrow_ms, rate, count)
    add_s, add_cpu_s = time.monotonic() - began, processor_s(server.pid) - began_cpu_s
    time.sleep(1)
    after_mib = memory_mib(server.pid)
    fired_count = int(rate * seconds)
    consumer = Peer(server.port)
    consumer.socket.sendall(b"SUBSCRIBE\nid:1\ndestination:%b\nack:auto\n\n\0" % DESTINATION)
    first_ms = int((time.time() + fired_count / LEAST_PER_S + 1) * 1000)
    _schedule(sender, DESTINATION, first_ms, rate, fired_count)
    late_ms = sorted(_lateness(consumer, first_ms, rate, fired_count))
    return {
        "messages": count,
        "rate": rate,
        "added_per_s": round(count / add_s),
        "added_cpu_us": round(add_cpu_s / count * 1e6, 1),
        "memory_mib": {"before": before_mib, "after": after_mib["now"], "peak": after_mib["peak"]},
        "octets_each": round((after_mib["now"] - before_mib) * 2**20 / count),
        "fired": len(late_ms),
        "late_ms": {
            "p50": late_ms[len(late_ms) // 2],
            "p99": late_ms[len(late_ms) * 99 // 100],
            "most": late_ms[-1],
        },
    }


def _schedule(sender: Peer, destination: bytes, first_ms: int, rate: int, count: int) -> None:
    """Send messages with consecutive due times; return once the last one is confirmed."""
    body = b"x" * BODY_BYTES
    for start in range(0, count, SENT_TOGETHER):
        last = min(count, start + SENT_TOGETHER)
        frames: list[bytes] = []
        for number in range(start, last):
            receipt = b"receipt:%d\n" % number if (number + 1) % RECEIPT_EVERY == 0 or number + 1 == count else b""
            frames.append(
                b"SEND\ndestination:%b\npersistent:true\nAMQ_SCHEDULED_TIME:%d\n%bcontent-length:%d\n\n%b\0"
                % (destination, first_ms + number * 1000 // rate, receipt, BODY_BYTES, body)
            )
        sender.socket.sendall(b"".join(frames))
        if last // RECEIPT_EVERY > start // RECEIPT_EVERY:
            sender.read_until(b"receipt-id:%d\n" % (last // RECEIPT_EVERY * RECEIPT_EVERY - 1))
    if count % RECEIPT_EVERY:
        sender.read_until(b"receipt-id:%d\n" % (count - 1))


def _lateness(consumer: Peer, first_ms: int, rate: int, count: int) -> list[float]:
    found: list[float] = []
    buffer = consumer.buffer
    while len(found) < count:
        buffer += consumer.socket.recv(READ_BYTES)
        now_ms = time.time() * 1000
        *frames, buffer = buffer.split(b"\0\n")
        for frame in frames:
            if b"scheduledJobId" in frame:  # in the order of their due times
                found.append(round(now_ms - (first_ms + len(found) * 1000 // rate), 1))
    return found[:count]


def run(home: Path, count: int, rate: int, seconds: float, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure on a separate gateway, then the cost of a restart with the remaining messages."""
    gateway = Gateway(home)
    try:
        gateway.start()
        result = measure(gateway, count, rate, seconds)
        gateway.stop(signal.SIGKILL)
        gateway.start()
        result["restart_ms"] = round(gateway.start_ms)
    finally:
        gateway.stop()
        shutil.rmtree(gateway.home, ignore_errors=True)
    say(f"schedule {result}")
    return result


def rows(result: dict[str, Any]) -> Rows:
    late = result["late_ms"]
    count = f"{result['messages']:,}"
    return [
        (
            f"schedule of {count}: taken",
            f"{result['added_per_s']:,}/s, {result['added_cpu_us']} us of processor per message",
            "30,000/s",
            verdict(result["added_per_s"] >= 30_000),
        ),
        (
            "schedule: memory for each",
            f"{result['octets_each']} octets",
            "200 octets",
            verdict(result["octets_each"] <= 200),
        ),
        (
            f"schedule: lateness at {result['rate']:,}/s",
            f"p50 {late['p50']:.1f} ms, p99 {late['p99']:.1f} ms, at most {late['most']:.1f} ms of {result['fired']:,}",
            "100 ms",
            verdict(late["p99"] <= 100),
        ),
        ("schedule: start after SIGKILL", f"{result['restart_ms']} ms", "", ""),
    ]
