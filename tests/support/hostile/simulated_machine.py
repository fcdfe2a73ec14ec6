"""An event loop on virtual time, worker threads, and connections: everything a gateway needs of a machine, from a seed.

Whatever chance would decide on a real machine, the seed decides: how long a job takes, how many octets a peer reads at
a time, when the end of a connection is noticed.  The event-loop code of the gateway runs on it unchanged.
"""

from __future__ import annotations

import asyncio
import random
import selectors
import signal
import socket
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from types import FrameType
from typing import Any, Final

from engine.ports.clock import Clock
from engine.ports.workers import FILE_LANE, READ_LANE, SYNC_LANE, Job, Workers
from gateway.loop.engine_loop import EngineLoop
from tests.support.world.bodies import Violation

ROUNDS_MOST: Final = 20_000  # rounds of the event loop at one moment
WORK_S: Final = (0.0, 0.0, 0.0, 0.001, 0.001, 0.02, 0.2)  # how long a job takes, and until its result is handed over
NOTICED_S: Final = (0.0, 0.0, 0.05, 1.0)  # until the end of a peer is noticed
READ_BYTES: Final = 256 * 1024
INBOX_BYTES: Final = 256 * 1024
OUTBOX_BYTES: Final = (0, 2_000, 50_000, 200_000)  # of the sockets' buffers between the gateway and a peer
RECEIVED_BYTES: Final = (7, 1_000, 1 << 30, 1 << 30, 1 << 30)  # that a peer reads at a time


class Hangs(KeyboardInterrupt):
    """A round does not return; of a kind that neither the gateway nor asyncio catches."""


class _Selector(selectors.SelectSelector):
    """Lets time pass where a real one would wait.  hangs_s: see ``VirtualLoop``."""

    def __init__(self, hangs_s: float) -> None:
        super().__init__()
        self.hangs_s = hangs_s
        self.now_s = 5.0
        self.rounds = 0  # since time has passed

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Violation("nothing is left that the event loop could wait for")
        self.rounds = 0 if timeout > 0 else self.rounds + 1
        if self.rounds > ROUNDS_MOST:
            raise Violation("the event loop never rests: something happens in each round")
        self.now_s += max(timeout, 0.0)
        signal.setitimer(signal.ITIMER_VIRTUAL, self.hangs_s)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """hangs_s: seconds of the processor after which a round counts as endless; a watchdog, not a measurement."""

    def __init__(self, hangs_s: float) -> None:
        self._time = _Selector(hangs_s)
        super().__init__(self._time)

    def time(self) -> float:
        return self._time.now_s

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run it in a later round; there are no threads."""

        async def run() -> Any:
            return func(*args)

        return self.create_task(run())

    def abandon(self) -> None:
        """Close with all tasks as they are, as a kill does.

        Their coroutines end here.  Otherwise the garbage collector ends them, in the middle of a later life.
        """
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            with suppress(RuntimeError):  # it needs the running loop for what it does last, or does not end at once
                if coroutine is not None:
                    coroutine.close()
        self.close()

    def pump(self, seconds: float) -> None:
        """Let this much time pass; with 0, all that is ready happens once.

        Raises: Violation, with the stack if a round does not return.
        """

        def alarm(number: int, frame: FrameType | None) -> None:
            raise Hangs

        self._time.rounds = 0
        is_over = self.create_future()
        self.call_later(seconds, is_over.set_result, None)
        before = signal.signal(signal.SIGVTALRM, alarm)
        try:
            self.run_until_complete(is_over)
        except Hangs as error:
            raise Violation("a turn has not ended:\n" + "".join(traceback.format_exception(error))) from error
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)


class LoopClock(Clock):
    def __init__(self, loop: VirtualLoop, wall_offset_ms: int) -> None:
        self._loop = loop
        self.wall_offset_ms = wall_offset_ms

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1_000)

    def wall_ms(self) -> int:
        return self.wall_offset_ms + self.monotonic_ms()


class DrawnWorkers(Workers):
    """One thread per lane; jobs run, and are handed over, after drawn times."""

    def __init__(self, loop: VirtualLoop, draw: random.Random) -> None:
        self._loop = loop
        self._draw = draw
        self._sink: EngineLoop | None = None
        self._to_run: dict[int, deque[Job]] = {lane: deque() for lane in (SYNC_LANE, READ_LANE, FILE_LANE)}
        self._to_finish: deque[Job] = deque()
        self.is_stopped = False

    def attach(self, sink: EngineLoop) -> None:
        self._sink = sink
        self._loop.call_soon(self._finish, 0)

    def is_idle(self) -> bool:
        return not self._to_finish and not any(self._to_run.values())

    def submit(self, job: Job, lane: int) -> None:
        if lane == SYNC_LANE and job.is_short() and self._draw.randrange(2):
            job.run()
            self._hand_over(job, 0.0)
            return
        self._to_run[lane].append(job)
        if len(self._to_run[lane]) == 1:
            self._run_later(lane)

    def _run_later(self, lane: int) -> None:
        is_skipped = lane == READ_LANE and self._to_run[lane][0].is_short()
        self._loop.call_later(0.0 if is_skipped else self._draw.choice(WORK_S), self._run, lane)

    def _run(self, lane: int) -> None:
        if self.is_stopped:
            return
        jobs = self._to_run[lane]
        jobs[0].run()
        self._hand_over(jobs.popleft(), self._draw.choice(WORK_S))
        if jobs:
            self._run_later(lane)

    def _hand_over(self, job: Job, delay_s: float) -> None:
        self._to_finish.append(job)
        self._loop.call_later(delay_s, self._finish, 1)

    def _finish(self, least: int) -> None:
        """Hand over the oldest result; at the beginning, all that there are."""
        sink = self._sink
        if sink is None or self.is_stopped:
            return
        for _ in range(least or len(self._to_finish)):
            if self._to_finish:
                sink.job_done(self._to_finish.popleft())


class DrawnTransport(asyncio.Transport):
    """The gateway's end of a connection.  inbox: sent by the peer and not read; outbox: written and not received."""

    def __init__(self, loop: VirtualLoop, draw: random.Random, address: str, port: int) -> None:
        super().__init__({"peername": (address, port)})
        self._loop = loop
        self.inbox = bytearray()
        self.outbox = bytearray()
        self._buffer_bytes = draw.choice(OUTBOX_BYTES)
        self._notice_s = draw.choice(NOTICED_S)
        self._connection: asyncio.Protocol | None = None
        self._high = self._low = 64 * 1024
        self._is_reading = True
        self._is_reading_soon = False
        self._is_writing_paused = False
        self._is_closing = False
        self._is_ended = False  # its output
        self._is_peer_gone = False
        self.is_over = False

    # -- the gateway's side

    def begin(self, connection: asyncio.Protocol) -> None:
        self._connection = connection
        connection.connection_made(self)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._of()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_over or self._is_ended:
            return
        if self._is_peer_gone:
            self._lose()
            return
        self.outbox += data
        if self.get_write_buffer_size() > self._high and not self._is_writing_paused:
            self._is_writing_paused = True
            self._of().pause_writing()

    def get_write_buffer_size(self) -> int:
        return max(0, len(self.outbox) - self._buffer_bytes)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self._high = high
        self._low = high // 4
        if self.get_write_buffer_size() > high and not self._is_writing_paused:
            self._is_writing_paused = True
            self._of().pause_writing()

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self.read_soon()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._is_peer_gone:
            raise OSError("Transport endpoint is not connected")
        self._is_ended = True

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = self._is_ended = True
            if not self.get_write_buffer_size():
                self._lose()

    def abort(self) -> None:
        del self.outbox[self._buffer_bytes :]
        self._is_closing = self._is_ended = True
        self._lose()

    def is_closing(self) -> bool:
        return self._is_closing

    # -- the peer's side

    def read_soon(self) -> None:
        if not self._is_reading_soon and not self.is_over:
            self._is_reading_soon = True
            self._loop.call_soon(self._read)

    def has_output(self) -> bool:
        return bool(self.outbox) or self.is_over or self._is_ended

    def received(self) -> None:
        """The peer has received octets."""
        self._loop.call_soon(self._written)

    def peer_closed(self, is_reset: bool) -> None:
        self._is_peer_gone = True
        self.outbox.clear()
        self._loop.call_later(self._notice_s, self._lose)
        if is_reset:
            self.inbox.clear()
            self._lose()
        else:
            self.read_soon()

    def words(self) -> str:
        """Return its state."""
        facts = ("_is_reading", "_is_writing_paused", "_is_closing", "_is_ended", "_is_peer_gone")
        true = [fact for fact in facts if getattr(self, fact)]
        return f"{len(self.inbox)} octets in, {len(self.outbox)} octets out, {' '.join(true)}"

    # -- the steps

    def _of(self) -> asyncio.Protocol:
        assert self._connection is not None
        return self._connection

    def _read(self) -> None:
        self._is_reading_soon = False
        if not self._is_reading or self._is_closing or self.is_over:
            return
        if self.inbox:
            octets = bytes(self.inbox[:READ_BYTES])
            del self.inbox[: len(octets)]
            self.read_soon()
            self._of().data_received(octets)
        elif self._is_peer_gone and not self._of().eof_received():
            self.close()

    def _written(self) -> None:
        if self.is_over:
            return
        size_bytes = self.get_write_buffer_size()
        if self._is_writing_paused and size_bytes <= self._low:
            self._is_writing_paused = False
            self._of().resume_writing()
        if self._is_closing and not size_bytes:
            self._lose()

    def _lose(self) -> None:
        self._is_closing = True
        self._loop.call_soon(self._lost)

    def _lost(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._of().connection_lost(None)


class DrawnSocket:
    """The peer's end."""

    def __init__(self, transport: DrawnTransport, draw: random.Random, number: int) -> None:
        self.transport = transport
        self._draw = draw
        self._number = number
        self._is_reset = False

    def __repr__(self) -> str:
        return f"{self._number}: {self.transport.words()}"

    def fileno(self) -> int:
        return self._number

    def setsockopt(self, level: int, name: int, value: bytes) -> None:
        assert (level, name) == (socket.SOL_SOCKET, socket.SO_LINGER)
        self._is_reset = True

    def send(self, octets: bytes | bytearray) -> int:
        if self.transport.is_over:
            raise BrokenPipeError
        taken = min(len(octets), INBOX_BYTES - len(self.transport.inbox))
        if taken <= 0:
            raise BlockingIOError
        self.transport.inbox += octets[:taken]
        self.transport.read_soon()
        return taken

    def recv(self, size: int) -> bytes:
        outbox = self.transport.outbox
        if not outbox:
            if self.transport.has_output():
                return b""
            raise BlockingIOError
        octets = bytes(outbox[: min(size, self._draw.choice(RECEIVED_BYTES))])
        del outbox[: len(octets)]
        self.transport.received()
        return octets

    def close(self) -> None:
        self.transport.peer_closed(self._is_reset)
