"""The HTTP listener: binds, serves ``api``, stops."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from config.model import Endpoint
from gateway.security import Security
from gateway.web.api import create_app
from gateway.web.retry import RetrySource
from gateway.web.schedule import ScheduleSource
from gateway.web.sockets import SocketRoute
from gateway.web.source import StatsSource
from gateway.web.store import StoreSource
from gateway.web.why import WhySource

# How long a request may still take when the gateway stops.
STOP_TIME_S: Final = 2.0


class HttpServer:
    """A listener that accepts; ``endpoint`` is where, with the port that was picked if 0 was asked for."""

    def __init__(self, runner: web.AppRunner, endpoint: Endpoint) -> None:
        self._runner = runner
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
    ) -> HttpServer:
        """Raises: OSError if the address cannot be bound."""
        application = create_app(source, why, retries, store, security, endpoint.host, sockets, schedule)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=STOP_TIME_S)
        await runner.setup()
        try:
            await web.TCPSite(runner, endpoint.host, endpoint.port).start()
        except OSError:
            await runner.cleanup()
            raise
        if endpoint.port != 0:
            return cls(runner, endpoint)
        # As bound, not as asked for: ``localhost`` may be two addresses, each with a free port of its own.
        host, port = runner.addresses[0][:2]
        return cls(runner, Endpoint(endpoint.scheme, host, port))

    async def stop(self) -> None:
        await self._runner.cleanup()
