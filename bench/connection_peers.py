"""Clients for ``bench.connections``: many STOMP connections in one process, which must cost little themselves."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import uvloop

HOST: Final = "127.0.0.1"
AT_ONCE: Final = 100  # connections that are opened together before a measurement
LIMIT_S: Final = 30.0
TICK_S: Final = 0.002
BEAT_TICKS: Final = 200  # heart-beats of all peers are spread over this many steps

Result = TypeVar("Result")


class Lost(Exception):
    """The gateway ended a connection, or answered with an ERROR."""


class Peer(asyncio.Protocol):
    """One connection.  ``answer`` returns the next frame; at most one caller waits at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._rest = b""
        self._frames: list[bytes] = []
        self._waiting: asyncio.Future[bytes] | None = None
        self.is_lost = False

    @classmethod
    async def connect(cls, port: int, beat_ms: int = 0, context: ssl.SSLContext | None = None) -> Peer:
        """Raises: OSError, Lost, TimeoutError."""
        loop = asyncio.get_running_loop()
        _, peer = await loop.create_connection(cls, HOST, port, ssl=context)
        try:
            peer.send(b"CONNECT\naccept-version:1.2\nhost:/\nheart-beat:%d,%d\n\n\0" % (beat_ms, beat_ms))
            answer = await peer.answer()
            if not answer.startswith(b"CONNECTED\n"):
                raise Lost(answer[:200].decode(errors="replace"))
        except BaseException:
            peer.cut()
            raise
        return peer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's are no subclass

    def data_received(self, data: bytes) -> None:
        *frames, self._rest = (self._rest + data).split(b"\0")
        self._rest = self._rest.lstrip(b"\n")  # heart-beats
        for frame in frames:
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(frame.lstrip(b"\n"))
            else:
                self._frames.append(frame.lstrip(b"\n"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(Lost("the gateway has closed the connection"))

    def send(self, octets: bytes) -> None:
        assert self._transport is not None, "it is connected"
        self._transport.write(octets)

    async def answer(self) -> bytes:
        """Return the next frame without its NUL.  Raises: Lost, TimeoutError."""
        if self._frames:
            return self._frames.pop(0)
        if self.is_lost:
            raise Lost("the gateway has closed the connection")
        self._waiting = asyncio.get_running_loop().create_future()
        return await asyncio.wait_for(self._waiting, LIMIT_S)

    def leave(self) -> None:
        """Disconnect without waiting for an answer."""
        if self._transport is not None and not self.is_lost:
            self.send(b"DISCONNECT\n\n\0")
            self._transport.close()

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()


@dataclass(slots=True)
class Attempts:
    """What became of connections that were opened one after the other.  latencies_ms: from the call to CONNECTED."""

    latencies_ms: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    wall_s: float = 0.0
    late_ms: float = 0.0  # how far this process fell behind its schedule

    def summary(self) -> dict[str, Any]:
        made = sorted(self.latencies_ms)
        return {
            "made": len(made),
            "per_s": round(len(made) / self.wall_s, 1) if self.wall_s else 0.0,
            "failures": dict(self.failures),
            "late_ms": round(self.late_ms, 1),
            **quantiles(made),
        }


def quantiles(ascending: list[float]) -> dict[str, float]:
    """Return p50, p99 and the largest of some milliseconds."""
    if not ascending:
        return {"p50_ms": 0.0, "p99_ms": 0.0, "max_ms": 0.0}
    at = (len(ascending) // 2, len(ascending) * 99 // 100, len(ascending) - 1)
    return {name: round(ascending[index], 2) for name, index in zip(("p50_ms", "p99_ms", "max_ms"), at, strict=True)}


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return uvloop.run(work)


async def many(port: int, count: int, beat_ms: int = 0) -> list[Peer]:
    """Return that many connections."""
    peers: list[Peer] = []
    while len(peers) < count:
        more = min(AT_ONCE, count - len(peers))
        peers += await asyncio.gather(*(Peer.connect(port, beat_ms) for _ in range(more)))
    return peers


async def beat(peers: list[Peer], beat_ms: int) -> None:
    """Send a heart-beat of each peer in time, for ever."""
    step_s = 0.8 * beat_ms / 1000 / BEAT_TICKS
    while True:
        for part in range(BEAT_TICKS):
            for peer in peers[part::BEAT_TICKS]:
                if not peer.is_lost:
                    peer.send(b"\n")
            await asyncio.sleep(step_s)


async def send_at_once(peers: list[Peer], each: int, body_bytes: int) -> tuple[list[float], list[float]]:
    """Let every peer send persistent messages, each after the receipt of the last one.

    Returns the times until each receipt, in ms and ascending, and when each peer was done, in s and ascending.
    """
    began = time.monotonic()
    latencies: list[float] = []
    ends: list[float] = []
    body = b"x" * body_bytes

    async def sender(number: int, peer: Peer) -> None:
        frame = b"SEND\ndestination:/queue/senders.%d\npersistent:true\nreceipt:r\n\n%s\0" % (number % 10, body)
        for _ in range(each):
            sent = time.monotonic()
            peer.send(frame)
            answer = await peer.answer()
            if not answer.startswith(b"RECEIPT\n"):
                raise Lost(answer[:200].decode(errors="replace"))
            latencies.append((time.monotonic() - sent) * 1000)
        ends.append(time.monotonic() - began)

    await asyncio.gather(*(sender(number, peer) for number, peer in enumerate(peers)))
    return sorted(latencies), sorted(ends)


def open_at_rate(port: int, rate: int, seconds: float) -> dict[str, Any]:
    """Open that many connections a second, each left once it is connected.  For a process of its own."""
    return run(_open_at_rate(port, rate, seconds)).summary()


async def _open_at_rate(port: int, rate: int, seconds: float) -> Attempts:
    attempts = Attempts()
    tasks: set[asyncio.Task[None]] = set()
    began = time.monotonic()
    begun = 0
    while begun < rate * seconds:
        passed = time.monotonic() - began
        attempts.late_ms = max(attempts.late_ms, (passed - begun / rate) * 1000)
        while begun < min(passed, seconds) * rate:
            task = asyncio.create_task(_attempt(port, None, attempts))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            begun += 1
        await asyncio.sleep(TICK_S)
    await asyncio.gather(*tasks)
    attempts.wall_s = time.monotonic() - began
    return attempts


def shake_hands(port: int, certificate: str, at_once: int, seconds: float) -> dict[str, Any]:
    """Open TLS connections as fast as they come, so many at a time.  For a process of its own."""
    return run(_shake_hands(port, certificate, at_once, seconds)).summary()


async def _shake_hands(port: int, certificate: str, at_once: int, seconds: float) -> Attempts:
    attempts = Attempts()
    began = time.monotonic()

    async def again() -> None:
        while time.monotonic() - began < seconds:
            # A context of its own for each: none resumes an earlier session.
            await _attempt(port, ssl.create_default_context(cafile=certificate), attempts)

    await asyncio.gather(*(again() for _ in range(at_once)))
    attempts.wall_s = time.monotonic() - began
    return attempts


async def _attempt(port: int, context: ssl.SSLContext | None, attempts: Attempts) -> None:
    began = time.monotonic()
    try:
        peer = await Peer.connect(port, context=context)
    except (OSError, Lost, TimeoutError) as error:
        attempts.failures[str(error) or type(error).__name__] += 1
        return
    attempts.latencies_ms.append((time.monotonic() - began) * 1000)
    peer.leave()
