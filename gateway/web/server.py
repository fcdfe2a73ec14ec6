"""The HTTP listener: binds, serves ``api``, stops."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from aiohttp import web

from config.model import Endpoint
from gateway.connections.acceptor import Acceptor, listening_socket
from gateway.connections.admission import Admission, Place
from gateway.connections.security import Security
from gateway.process.counters import GatewayCounters
from gateway.web.api import create_app
from gateway.web.http_connection import (
    HTTP_CONNECTIONS_MAX,
    HTTP_CONNECTIONS_PER_ADDRESS_MAX,
    REQUEST_TIME_S,
    HttpConnection,
)
from gateway.web.request_log import RequestLog
from gateway.web.retry import RetrySource
from gateway.web.schedule import ScheduleSource
from gateway.web.sockets import SocketRoute
from gateway.web.source import StatsSource
from gateway.web.store import StoreSource
from gateway.web.upkeep import UpkeepSource
from gateway.web.why import WhySource

# How long a request may still take when the gateway stops.
STOP_TIME_S: Final = 2.0


class HttpServer:
    """A listener that accepts; ``endpoint`` is its address, with the real port instead of 0."""

    def __init__(self, runner: web.AppRunner, acceptor: Acceptor, endpoint: Endpoint) -> None:
        self._runner = runner
        self._acceptor = acceptor
        self.endpoint = endpoint

    @classmethod
    async def start(
        cls,
        endpoint: Endpoint,
        source: StatsSource,
        why: WhySource,
        retries: RetrySource,
        store: StoreSource,
        security: Security,
        sockets: SocketRoute | None = None,
        schedule: ScheduleSource | None = None,
        counters: GatewayCounters | None = None,
        upkeep: UpkeepSource | None = None,
    ) -> HttpServer:
        """Raises: OSError if the address cannot be bound."""
        counters = counters or GatewayCounters()
        admission = Admission(HTTP_CONNECTIONS_MAX, HTTP_CONNECTIONS_PER_ADDRESS_MAX, counters)
        application = create_app(source, why, retries, store, security, endpoint.host, sockets, schedule, upkeep)
        logger = RequestLog(admission.lines)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=STOP_TIME_S, logger=logger)
        await runner.setup()
        try:
            listening = await listening_socket(endpoint)
            acceptor = Acceptor(listening, admission, partial(_accepted, runner), None, False, REQUEST_TIME_S)
            acceptor.start()
        except OSError:
            await runner.cleanup()
            raise
        return cls(runner, acceptor, replace(endpoint, port=listening.getsockname()[1]))

    async def stop(self) -> None:
        self._acceptor.close()
        await self._runner.cleanup()


def _accepted(runner: web.AppRunner, place: Place) -> HttpConnection | None:
    server = runner.server
    return None if place.refusal or server is None else HttpConnection(server(), place)
