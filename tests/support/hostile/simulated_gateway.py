"""A gateway without its sockets, threads and disk, which a seed simulates; the same seed gives the same history."""

from __future__ import annotations

import asyncio
import logging
import random
import select
import traceback
from collections.abc import Iterable
from typing import Final, Protocol

from config.model import ServerConfig
from engine.limits.disk_watch import DiskSpace
from gateway.app import assemble
from gateway.connections.admission import Admission, admission_of
from gateway.connections.listener import Listener
from gateway.connections.session_socket import SessionSocket
from gateway.connections.tls import ServerTls
from gateway.logins.login_check import LoginCheck
from gateway.process.counters import GatewayCounters
from protocols.stomp.codec.frame_limits import FrameLimits
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.engine.broker_view import BrokerView
from tests.support.hostile.hostile_config import HONEST, HOSTILE, HOSTILE_ADDRESS
from tests.support.hostile.hostile_crowd import Socket
from tests.support.hostile.simulated_machine import DrawnSocket, DrawnTransport, DrawnWorkers, LoopClock, VirtualLoop
from tests.support.protocols.stomp_gateway import Received, StompSpeech
from tests.support.world.bodies import Violation

HANGS_S: Final = 60.0
START_WALL_MS: Final = 1_700_000_000_000
FAULT_WORD: Final = "a defect of the gateway"
STOP_LOOK_S: Final = 0.05  # shorter than what looks at the disk once a second leaves idle
LOGIN_S: Final = (0.0, 0.0, 0.05)
HONEST_ADDRESS: Final = "127.0.0.1"
USERS: Final = (HONEST, HOSTILE)


class _Listener(Listener):
    """Checks passwords without threads, and remembers none."""

    def __init__(self, loop: VirtualLoop, draw: random.Random, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._loop = loop
        self._draw = draw

    def check_credentials(self, connection: SessionSocket, login: str, passcode: str) -> None:
        is_right = (login, passcode) in USERS
        self._loop.call_later(self._draw.choice(LOGIN_S), connection.credentials_checked, is_right)

    def check_proved(self, connection: SessionSocket, login: str, is_right: bool) -> None:
        self._loop.call_soon(connection.credentials_checked, is_right)


class FaultLog(logging.Handler):
    """Takes the gateway's log while it is entered, and keeps the defects in it."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.CRITICAL or FAULT_WORD in record.getMessage():
            told = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
            self.faults.append(f"{record.getMessage()}\n{told}")

    def loop_failed(self, loop: object, context: dict[str, object]) -> None:
        error = context.get("exception")
        told = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""
        self.faults.append(f"{context.get('message')}\n{told}")

    def __enter__(self) -> FaultLog:
        logging.getLogger("penstock").addHandler(self)
        return self

    def __exit__(self, *raised: object) -> None:
        logging.getLogger("penstock").removeHandler(self)


class _WideDisk(DiskSpace):
    def measure(self) -> tuple[int, int]:
        return 1 << 40, 1 << 39


class _HonestClient(StompSpeech):
    """A client that always reads."""

    def __init__(self, gateway: SimulatedGateway) -> None:
        super().__init__()
        self.takes(FrameLimits(header_line_bytes=1 << 30))  # a property of an AMQP message may be long
        self.octets = b""
        self.is_closed = False
        self._socket = gateway.connect(address=HONEST_ADDRESS)
        self._unsent = b""

    def send_octets(self, octets: bytes) -> None:
        self._unsent += octets
        self.move()

    def vanish(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._socket.close()

    def take(self) -> list[Received]:
        self.move()
        return super().take()

    def move(self) -> None:
        """Send and receive as much as goes."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent = b""
        try:
            while octets := self._socket.recv(1 << 30):
                self.octets += octets
        except BlockingIOError:
            return
        self.vanish()


class WebListener(Protocol):
    admission: Admission

    def stop(self) -> None: ...


class SimulatedGateway(BrokerView):
    """One life of a gateway, and the network to it.

    files: the disk as an earlier life has left it.  web: its HTTP listener, None if it has none.
    """

    has_web = False

    def __init__(
        self,
        config: ServerConfig,
        draw: random.Random,
        files: FaultyFiles,
        log: FaultLog,
        wall_ms: int = START_WALL_MS,
        hangs_s: float = HANGS_S,
    ) -> None:
        self.draw = draw
        self.files = files
        self._log = log
        self.loop = loop = VirtualLoop(hangs_s)
        loop.set_exception_handler(log.loop_failed)
        self.counters = GatewayCounters()
        self.directory = config.data_directory
        self.clock = LoopClock(loop, wall_ms)
        self.workers = DrawnWorkers(loop, draw)
        self.engine_loop, self.store, self._spill, _ = assemble(
            loop, config, self.clock, self.workers, files, _WideDisk()
        )
        self.workers.attach(self.engine_loop)
        super().__init__(self.engine_loop.broker)
        self._admission = admission_of(config, self.counters)
        self.listener = _Listener(
            loop,
            draw,
            config,
            self.broker,
            self.engine_loop,
            LoginCheck(config),
            ServerTls(config),
            self.counters,
            self._admission,
        )
        self.web: WebListener | None = None
        self._sockets: dict[int, DrawnSocket] = {}
        self._next_number = 1
        loop.call_later(1.0, self._look)

    # -- the network of its clients

    def connect(
        self, *, is_web: bool = False, address: str = HOSTILE_ADDRESS, draw: random.Random | None = None
    ) -> Socket:
        place = self._admission.admit(address)
        assert place is not None
        return self.attach(self.listener.new_protocol(place), address, draw or self.draw)

    def attach(self, connection: asyncio.Protocol, address: str, draw: random.Random) -> Socket:
        """Return the peer's end of a new connection."""
        number = self._next_number
        self._next_number += 1
        transport = DrawnTransport(self.loop, draw, address, 1024 + number)
        self.loop.call_soon(transport.begin, connection)
        self._sockets[number] = DrawnSocket(transport, draw, number)
        return self._sockets[number]

    def poll(self, wanted: Iterable[tuple[Socket, int]], wait_s: float) -> list[tuple[int, int]]:
        """Let time pass; return which sockets have events now."""
        self.pump(wait_s)
        found = []
        for one, events in wanted:
            assert isinstance(one, DrawnSocket)
            ready = events & select.POLLOUT
            if events & select.POLLIN and one.transport.has_output():
                ready |= select.POLLIN
            if one.transport.is_over:
                ready |= select.POLLHUP
            if ready:
                found.append((one.fileno(), ready))
        return found

    def now_s(self) -> float:
        return self.loop.time()

    def open(self) -> StompSpeech:
        """Return an honest client."""
        return _HonestClient(self)

    def open_sockets(self) -> list[DrawnSocket]:
        """Return the sockets that have a place."""
        found = [one for one in self._sockets.values() if not one.transport.is_over]
        places = self._admission.open_count + (0 if self.web is None else self.web.admission.open_count)
        assert len(found) == places, "a place is not given back, or given back early"
        return found

    # -- time

    def advance(self, milliseconds: int) -> None:
        self.pump(milliseconds / 1_000)

    def pump(self, seconds: float) -> None:
        """Let time pass.  Raises: Violation."""
        self.loop.pump(seconds)
        if self._log.faults:
            raise Violation(f"a defect of the gateway: {self._log.faults[0]}")
        if self.engine_loop.is_shut:
            raise Violation(f"the engine has failed: {self.engine_loop.failure}")

    def kill(self, *, is_power_cut: bool) -> FaultyFiles:
        """Stop without closing anything; return the disk."""
        self.abandon()
        return self.files.crash() if is_power_cut else self.files.killed()

    def abandon(self) -> None:
        """Stop without closing anything.  Its requests end with errors that nobody's log has."""
        self.workers.is_stopped = True
        faults = list(self._log.faults)
        self.loop.abandon()
        self._log.faults[:] = faults

    def stop(self) -> FaultyFiles:
        """Stop in order; return the disk."""
        if self.web is not None:
            self.web.stop()
        self.store.wind_down()
        while not self.workers.is_idle():
            self.pump(STOP_LOOK_S)
        self.broker.flush_settlements()
        self.engine_loop.shut()
        self.store.close()
        self._spill.remove_all()
        self.loop.close()
        return self.files.killed()

    # -- the steps

    def _look(self) -> None:
        self.engine_loop.check()
        self.loop.call_later(1.0, self._look)
