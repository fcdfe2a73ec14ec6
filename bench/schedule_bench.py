"""A million scheduled messages: how fast they are taken, what they cost in memory, how late they fire.

The messages are due one after the other at a fixed rate, from when all of them have been taken; lateness is from when a
message is due, by the wall clock, until its consumer has read it.
"""

from __future__ import annotations

import socket
import time
from typing import Any, Final

from bench.processes import Broken, Server, memory_mib

DESTINATION: Final = "/queue/scheduled"
SENT_TOGETHER: Final = 256
RECEIPT_EVERY: Final = 8_192
READ_BYTES: Final = 1 << 18
PATIENCE_S: Final = 120.0
LEAD_S: Final = 10.0  # from the last message taken, as expected, to the first one due
BODY_BYTES: Final = 256
EXPECTED_PER_S: Final = 15_000  # that a machine takes at least; if it is slower, the first ones fire meanwhile


class Peer:
    """A STOMP connection, as plain as can be."""

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
    """Schedule ``count`` messages and watch those of the first ``seconds`` fire."""
    before_mib = memory_mib(server.pid)["now"]
    sender = Peer(server.port)
    body = b"x" * BODY_BYTES
    first_ms = int((time.time() + count / EXPECTED_PER_S + LEAD_S) * 1000)
    began = time.monotonic()
    for start in range(0, count, SENT_TOGETHER):
        frames: list[bytes] = []
        for number in range(start, min(count, start + SENT_TOGETHER)):
            due_ms = first_ms + number * 1000 // rate
            receipt = b"receipt:%d\n" % number if (number + 1) % RECEIPT_EVERY == 0 or number + 1 == count else b""
            frames.append(
                b"SEND\ndestination:%b\npersistent:true\nAMQ_SCHEDULED_TIME:%d\n%bcontent-length:%d\n\n%b\0"
                % (DESTINATION.encode(), due_ms, receipt, BODY_BYTES, body)
            )
        sender.socket.sendall(b"".join(frames))
        last = min(count, start + SENT_TOGETHER)
        if last // RECEIPT_EVERY > start // RECEIPT_EVERY:
            sender.read_until(b"receipt-id:%d\n" % (last // RECEIPT_EVERY * RECEIPT_EVERY - 1))
    if count % RECEIPT_EVERY:
        sender.read_until(b"receipt-id:%d\n" % (count - 1))
    add_s = time.monotonic() - began
    time.sleep(1)
    after_mib = memory_mib(server.pid)
    late_ms = sorted(_lateness(server.port, first_ms, rate, int(rate * seconds)))
    return {
        "messages": count,
        "rate": rate,
        "added_per_s": round(count / add_s),
        "memory_mib": {"before": before_mib, "after": after_mib["now"], "peak": after_mib["peak"]},
        "octets_each": round((after_mib["now"] - before_mib) * 2**20 / count),
        "fired": len(late_ms),
        "late_ms": {
            "p50": late_ms[len(late_ms) // 2],
            "p99": late_ms[len(late_ms) * 99 // 100],
            "most": late_ms[-1],
        },
    }


def _lateness(port: int, first_ms: int, rate: int, count: int) -> list[float]:
    consumer = Peer(port)
    consumer.socket.sendall(b"SUBSCRIBE\nid:1\ndestination:%b\nack:auto\n\n\0" % DESTINATION.encode())
    consumer.socket.settimeout(max(PATIENCE_S, first_ms / 1000 - time.time() + PATIENCE_S))
    found: list[float] = []
    buffer = consumer.buffer
    while len(found) < count:
        buffer += consumer.socket.recv(READ_BYTES)
        now_ms = time.time() * 1000
        *frames, buffer = buffer.split(b"\0\n")
        for frame in frames:
            if b"scheduledJobId" in frame:  # in the order in which they are due
                found.append(round(now_ms - (first_ms + len(found) * 1000 // rate), 1))
    return found[:count]


def table(result: dict[str, Any]) -> str:
    late = result["late_ms"]
    return (
        "| scheduled messages | taken a second | memory each | due a second | late p50 | p99 | at most |\n"
        "|---|---|---|---|---|---|---|\n"
        f"| {result['messages']:,} | {result['added_per_s']:,} | {result['octets_each']} octets | {result['rate']:,} "
        f"| {late['p50']:.1f} ms | {late['p99']:.1f} ms | {late['most']:.1f} ms ({result['fired']:,} messages) |\n"
    )
