"""The HTTP listener of a simulated gateway, without its socket: requests, and WebSockets, on drawn transports."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any, Final

from aiohttp import web

from config.model import ServerConfig
from gateway.connections.admission import Admission, Place
from gateway.connections.input_turns import InputTurns
from gateway.logins.login_check import LoginCheck
from gateway.web.api import create_app
from gateway.web.connections.http_connection import (
    HTTP_CONNECTIONS_MAX,
    HTTP_CONNECTIONS_PER_ADDRESS_MAX,
    HttpConnection,
)
from gateway.web.connections.request_log import RequestLog
from gateway.web.connections.sockets import SocketRoute
from gateway.web.limits.loop_share import LoopShare
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.management.connections import LiveConnections
from gateway.web.management.retries import LiveRetries
from gateway.web.management.schedule import LiveSchedule
from gateway.web.management.stats import LiveStats
from gateway.web.management.subscriptions import LiveSubscriptions
from gateway.web.management.transactions import LiveTransactions
from gateway.web.management.upkeep import LiveUpkeep
from gateway.web.rest.messages import LiveMessages
from gateway.web.rest.requests import Asking
from gateway.web.server import Requests
from gateway.web.sources import Sources
from tests.support.hostile.hostile_config import HOSTILE_ADDRESS
from tests.support.hostile.hostile_crowd import Socket
from tests.support.hostile.simulated_gateway import SimulatedGateway
from tests.support.web import Knowing, NoLogLeases, NoLogReaders, Reloading, Storing

STEP_S: Final = (0.0, 0.0, 0.0, 0.0005, 0.003)  # that a step of a request takes by the clock of their share


class _Messages(LiveMessages):
    async def message(self, asking: Asking, message_id: str, body_form: str) -> bytes:
        raise LookupError("the reader of the store is not simulated")


class SimulatedWeb:
    """A network on which clients also come by HTTP.  draw: of this network alone."""

    has_web = True

    def __init__(self, gateway: SimulatedGateway, config: ServerConfig, draw: random.Random) -> None:
        self._gateway = gateway
        self._draw = draw
        self._now_s = 0.0
        engine_loop = gateway.engine_loop
        login_check = LoginCheck(config)
        self._share = LoopShare(self._clock)
        self._memory = RequestMemory(engine_loop.holdings)
        self._turns = InputTurns()
        self.admission = Admission(HTTP_CONNECTIONS_MAX, HTTP_CONNECTIONS_PER_ADDRESS_MAX, gateway.counters)
        sources = Sources(
            stats=LiveStats(gateway.broker, engine_loop, gateway.counters, asyncio.Event()),
            why=Knowing(),
            retries=LiveRetries(engine_loop),
            store=Storing(),
            leases=NoLogLeases(),
            readers=NoLogReaders(),
            schedule=LiveSchedule(engine_loop),
            transactions=LiveTransactions(engine_loop, self.admission.lines),
            subscriptions=LiveSubscriptions(engine_loop, self.admission.lines),
            upkeep=LiveUpkeep(engine_loop, self.admission.lines),
            messages=_Messages(
                engine_loop, config.data_directory, login_check.groups_of, login_check.is_required, self._memory
            ),
            reload=Reloading(),
            connections=LiveConnections(gateway.broker),
        )
        sockets = SocketRoute(gateway.listener.new_socket_connection)
        application = create_app(sources, login_check, "localhost", sockets, self._share, self._memory)
        self._runner = web.AppRunner(application, access_log=None)
        gateway.loop.run_until_complete(self._runner.setup())
        gateway.web = self

    def connect(self, *, is_web: bool) -> Socket:
        if not is_web:
            return self._gateway.connect(draw=self._draw)
        place = self.admission.admit(HOSTILE_ADDRESS)
        assert place is not None
        return self._gateway.attach(self._connection(place), HOSTILE_ADDRESS, self._draw)

    def poll(self, wanted: Iterable[tuple[Socket, int]], wait_s: float) -> list[tuple[int, int]]:
        return self._gateway.poll(wanted, wait_s)

    def now_s(self) -> float:
        return self._gateway.now_s()

    def stop(self) -> None:
        self._gateway.loop.run_until_complete(self._runner.cleanup())

    def _connection(self, place: Place) -> HttpConnection:
        server = self._runner.server
        assert server is not None
        logger = RequestLog(self.admission.lines, place.address)
        options: dict[str, Any] = {"access_log": None, "logger": logger}
        requests = Requests(self._share, self._memory, server, loop=self._gateway.loop, **options)
        return HttpConnection(requests, place, turns=self._turns, yielding=self.admission.yielding)

    def _clock(self) -> float:
        self._now_s += self._draw.choice(STEP_S)
        return self._now_s
