"""Answers of the HTTP listener: ``/healthz``, ``/metrics`` and the JSON behind ``stat``.

Any page in a browser on the same machine can send requests here, even under a host name of its own choice (DNS
rebinding).  So ``Host`` must be one that no foreign page can have, and ``Origin``, if sent, must be our own.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from config.permissions import SEEING, SEEING_WORDS, Action
from engine.values.broker_stats import BrokerStats
from gateway.connections.security import Security
from gateway.process.counters import GatewayCounters
from gateway.web.credentials import basic_credentials, login_of
from gateway.web.http_connection import HttpConnection, connection_of
from gateway.web.in_turns import in_turns
from gateway.web.rates import RateSampler
from gateway.web.retry import RetryRoutes, RetrySource
from gateway.web.schedule import ScheduleRoutes, ScheduleSource
from gateway.web.sockets import SocketRoute
from gateway.web.source import StatsSource
from gateway.web.stat import stat_text
from gateway.web.store import StoreRoutes, StoreSource
from gateway.web.upkeep import PATHS as UPKEEP_PATHS
from gateway.web.upkeep import UpkeepRoutes, UpkeepSource
from gateway.web.why import WhyRoutes, WhySource

SAMPLE_INTERVAL_S: Final = 1.0
# Samples of many destinations take long, so they become rarer: at most this part of the loop's time.
SAMPLE_SHARE_MAX: Final = 0.01

_HEALTH_PATH: Final = "/healthz"
_MANAGED_PATHS: Final = ("/api/store/", "/api/retry", "/api/schedule")
_CONTENT_PATHS: Final = ("/api/store/query", "/api/store/dump", "/api/schedule", "/api/why/message")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def create_app(
    source: StatsSource,
    why: WhySource,
    retries: RetrySource,
    store: StoreSource,
    security: Security,
    configured_host: str = "localhost",
    sockets: SocketRoute | None = None,
    schedule: ScheduleSource | None = None,
    upkeep: UpkeepSource | None = None,
) -> web.Application:
    """Return the application.  configured_host: of the listener's address; a valid ``Host`` besides IPs."""
    api = _Api(source, security, configured_host, sockets)
    application = web.Application(middlewares=[api.guard], client_max_size=64 * 1024)
    application.router.add_get(_HEALTH_PATH, api.healthz)
    application.router.add_get("/metrics", api.metrics)
    application.router.add_get("/api/stat", api.stat)
    WhyRoutes(why).add_to(application.router)
    RetryRoutes(retries).add_to(application.router)
    stored = StoreRoutes(store)
    stored.add_to(application.router)
    application.on_cleanup.append(stored.stop)
    if schedule is not None:
        ScheduleRoutes(schedule).add_to(application.router)
    if upkeep is not None:
        UpkeepRoutes(upkeep, security).add_to(application.router)
    application.cleanup_ctx.append(api.sampling)
    return application


class _Api:
    def __init__(
        self, source: StatsSource, security: Security, configured_host: str, sockets: SocketRoute | None
    ) -> None:
        self._source = source
        self._sockets = sockets
        self._security = security
        self._configured_host = configured_host.lower()
        self._rates = RateSampler()

    async def healthz(self, request: web.Request) -> web.Response:
        if self._source.has_failed():
            return web.Response(status=503, text="unavailable: the gateway failed and stops\n")
        store = self._source.store_stats()
        if store.is_accepting:
            is_told = store.retention and not self._security.is_required
            return web.Response(text=f"ok\nwarning: {store.retention}\n" if is_told else "ok\n")
        # If the details need a login they are not shown here.
        reason = "" if self._security.is_required else f": {store.reason}"
        return web.Response(status=503, text=f"unavailable{reason}\n")

    async def metrics(self, request: web.Request) -> web.Response:
        stats, _ = await self._look()
        body, content_type = await asyncio.to_thread(
            _render_metrics, stats, self._source.counters(), request.headers.get("Accept", "")
        )
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def stat(self, request: web.Request) -> web.Response:
        stats, _ = await self._look()
        pieces, _ = await in_turns(stat_text(stats, self._rates))
        return web.Response(text="".join(pieces), content_type="application/json")

    async def _look(self) -> tuple[BrokerStats, float]:
        """Return a snapshot of everything, and how many seconds of the loop it took."""
        inspection = self._source.inspection()
        _, taken_s = await in_turns(inspection.steps())
        return inspection.stats(), taken_s

    async def sampling(self, application: web.Application) -> AsyncIterator[None]:
        """Sample for as long as the application runs."""
        task = asyncio.create_task(self._sample_for_ever())
        yield
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass

    async def _sample_for_ever(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            cost_s = 0.0
            if not self._source.has_failed():
                stats, looking_s = await self._look()
                _, sampling_s = await in_turns(self._rates.sample(stats.destinations, clock()))
                cost_s = looking_s + sampling_s
            await asyncio.sleep(max(SAMPLE_INTERVAL_S, cost_s / SAMPLE_SHARE_MAX))

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = connection_of(request)
        try:
            return await self._answer(request, handler, connection)
        finally:
            if connection is not None:
                connection.request_answered()

    async def _answer(
        self, request: web.Request, handler: Handler, connection: HttpConnection | None
    ) -> web.StreamResponse:
        refusal = self._foreign(request)
        if refusal is None and self._sockets is not None and self._sockets.is_meant(request):
            return await self._sockets.serve(request)  # its protocol asks for a login of its own
        if refusal is None and self._security.is_required and request.path != _HEALTH_PATH:
            refusal = await self._unauthorised(request)
        if refusal is None:
            refusal = self._forbidden(request)
        if refusal is None:
            await request.read()  # at most client_max_size
        if connection is not None:
            connection.request_taken()
        try:
            response = refusal if refusal is not None else await handler(request)
        except web.HTTPException as error:  # 404, 405: these are answers, too
            error.headers["X-Content-Type-Options"] = "nosniff"
            raise
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Cache-Control"] = "no-store"
        return response

    def _foreign(self, request: web.Request) -> web.Response | None:
        hosts = request.headers.getall("Host", [])
        if len(hosts) != 1 or not self._is_own_host(hosts[0]):
            seen = repr(hosts[0]) if hosts else "none"
            return web.Response(
                status=403,
                text=f"Host is {seen}; allowed is a literal IP address, localhost or {self._configured_host}\n",
            )
        origin = request.headers.get("Origin")
        # https if a proxy in front of us speaks TLS.
        if origin is not None and origin.lower() not in (f"http://{hosts[0].lower()}", f"https://{hosts[0].lower()}"):
            return web.Response(status=403, text=f"Origin is {origin!r}; allowed is this server's own, or none\n")
        return None

    def _is_own_host(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        if not name or "@" in host:
            return False
        if name in ("localhost", self._configured_host):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _forbidden(self, request: web.Request) -> web.Response | None:
        """Refuse requests that show or change any destination, if the user has no permission for all of them.

        Purging and deleting concern one destination: their routes ask for the permission for that one.
        """
        actions: tuple[Action, ...]
        if request.path.startswith(_MANAGED_PATHS) and request.method != "GET":
            actions, words = ("delete",), "admin"
        elif request.path.startswith(_CONTENT_PATHS):
            actions, words = ("read",), "read"
        elif request.path != _HEALTH_PATH and not request.path.startswith(UPKEEP_PATHS):
            actions, words = SEEING, SEEING_WORDS
        else:
            return None
        login = login_of(request)
        if any(self._security.may_everywhere(login, action) for action in actions):
            return None
        text = f"{request.method} {request.path} needs the permission {words} for all destinations (match: '>')\n"
        return web.Response(status=403, text=text)

    async def _unauthorised(self, request: web.Request) -> web.Response | None:
        credentials = basic_credentials(request.headers.get("Authorization", ""))
        if credentials is not None:
            login, passcode = credentials
            if self._security.remembers(login, passcode):
                return None
            if await self._security.logins.check(request.remote or "?", login, passcode):
                return None
        return web.Response(
            status=401,
            text="wrong or no credentials; allowed is HTTP Basic with a configured user\n",
            headers={"WWW-Authenticate": 'Basic realm="penstock", charset="UTF-8"'},
        )


def _render_metrics(stats: BrokerStats, counters: GatewayCounters, accept: str) -> tuple[bytes, str]:
    # Loading prometheus_client takes a twentieth of the start-up time, so the first scrape loads it.
    from gateway.process.metrics import render

    return render(stats, accept, counters)
