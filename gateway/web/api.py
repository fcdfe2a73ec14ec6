"""Answers of the HTTP listener: health, ``/metrics`` and the JSON behind ``stat``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from aiohttp import web

from engine.store.read.log_readers import LogReader
from engine.values.broker_stats import BrokerStats
from engine.values.errors import StoreError
from gateway.logins.login_check import LoginCheck
from gateway.process.audit_log import AuditLog
from gateway.process.counters import GatewayCounters
from gateway.web.access import Access
from gateway.web.connections.sockets import SocketRoute
from gateway.web.console import ConsoleRoutes
from gateway.web.limits.in_turns import in_turns
from gateway.web.limits.loop_share import LoopShare
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.limits.shared_documents import SharedDocuments
from gateway.web.management.stats import LiveStats
from gateway.web.management.store import LiveStore
from gateway.web.resources.activemq import JolokiaRoutes, MessageServlet
from gateway.web.resources.events import EventRoutes
from gateway.web.resources.history import HistoryRoutes
from gateway.web.resources.listing import ListingRoutes
from gateway.web.resources.log_leases import LogLeaseRoutes
from gateway.web.resources.log_readers import LogReaderRoutes
from gateway.web.resources.messages import MessageRoutes
from gateway.web.resources.reload import ReloadRoutes
from gateway.web.resources.retry import RetryRoutes
from gateway.web.resources.schedule import ScheduleRoutes
from gateway.web.resources.session import SessionRoutes
from gateway.web.resources.single_messages import SingleMessageRoutes
from gateway.web.resources.stat import STAT, stat_text
from gateway.web.resources.store import StoreRoutes
from gateway.web.resources.store_files import StoreFileRoutes
from gateway.web.resources.subscriptions import SubscriptionRoutes
from gateway.web.resources.transactions import TransactionRoutes
from gateway.web.resources.upkeep import UpkeepRoutes
from gateway.web.resources.why import WhyRoutes
from gateway.web.routing.fields import Schema
from gateway.web.routing.foreign_pages import ForeignPages
from gateway.web.routing.openapi import description_route
from gateway.web.routing.problems import with_problems
from gateway.web.routing.request_audit import RequestAudit
from gateway.web.routing.request_logins import RequestLogins
from gateway.web.routing.routes import BODY_BYTES_MAX, OPEN, SEES, Media, Route, Values, add_routes
from gateway.web.routing.sessions import Sessions
from gateway.web.samples.sampler import Sampler
from gateway.web.sources import Sources

TEXT: Final = Media(("text/plain",))


def create_app(
    sources: Sources,
    login_check: LoginCheck,
    configured_host: str = "localhost",
    sockets: SocketRoute | None = None,
    share: LoopShare | None = None,
    memory: RequestMemory | None = None,
) -> web.Application:
    """Return the application.

    configured_host: of the listener's address; a valid ``Host`` besides IPs.  share: of requests in the loop's time.
    memory: counts what they hold, and makes their answers; None for no limit.
    """
    share = share or LoopShare()
    memory = memory or RequestMemory()
    sampler = Sampler(sources.stats)
    logins = RequestLogins(login_check, Sessions(login_check.users.verifiers_of, time.monotonic))
    api = _Api(sources.stats, sources.store, sampler, login_check, share, memory)
    access = Access(logins, login_check, ForeignPages(configured_host), sockets, share, memory)
    watch = RequestAudit(AuditLog(sources.stats.counters()), login_check).watch
    application = web.Application(middlewares=[with_problems, watch, access.guard], client_max_size=BODY_BYTES_MAX)
    stored = StoreRoutes(sources.store)
    application.on_cleanup.append(stored.stop)
    messages = MessageRoutes(sources.messages)
    application.on_shutdown.append(messages.stop)
    events = EventRoutes(sampler, login_check)
    application.on_shutdown.append(events.stop)
    routes = [
        *api.routes(),
        *ListingRoutes(sampler, sources.connections, memory).routes(),
        *HistoryRoutes(sampler.history, memory).routes(),
        *events.routes(),
        *ConsoleRoutes().routes(),
        *SessionRoutes(logins, login_check).routes(),
        *JolokiaRoutes(sampler.sampled, sources.stats.disk_use, memory).routes(),
        *WhyRoutes(sources.why).routes(),
        *RetryRoutes(sources.retries).routes(),
        *stored.routes(),
        *StoreFileRoutes(sources.store).routes(),
        *LogReaderRoutes(sources.store, sources.readers).routes(),
        *LogLeaseRoutes(sources.leases, login_check).routes(),
        *ScheduleRoutes(sources.schedule).routes(),
        *TransactionRoutes(sources.transactions, login_check).routes(),
        *SubscriptionRoutes(sources.subscriptions, login_check).routes(),
        *UpkeepRoutes(sources.upkeep, login_check).routes(),
        *ReloadRoutes(sources.reload, login_check).routes(),
        *messages.routes(),
        *SingleMessageRoutes(sources.messages).routes(),
        *MessageServlet(sources.messages, memory).routes(),
    ]
    routes.append(description_route(routes))
    add_routes(application, routes)
    application.cleanup_ctx.append(sampler.running)
    return application


class _Api:
    def __init__(
        self,
        source: LiveStats,
        store: LiveStore,
        sampler: Sampler,
        login_check: LoginCheck,
        share: LoopShare,
        memory: RequestMemory,
    ) -> None:
        self._source = source
        self._store = store
        self._sampler = sampler
        self._login_check = login_check
        self._share = share
        self._memory = memory
        self._metrics_pages = SharedDocuments(self._metrics_page)
        self._stat_documents = SharedDocuments(self._stat_document)

    def routes(self) -> list[Route]:
        health: Mapping[int, Schema | Media] = {200: TEXT, 503: TEXT}
        return [
            Route(path=path, take=take, name=path[1:], says=says, permission=OPEN, answers=health)
            for path, take, says in (
                ("/healthz", self._healthz, "Say whether the store takes messages."),
                ("/readyz", self._readyz, "Say whether new clients should come: as healthz, but not during a stop."),
                ("/livez", self._livez, "Say whether a restart would help."),
            )
        ] + [
            Route(
                path="/metrics",
                take=self._metrics,
                name="metrics",
                says="Return the metrics for Prometheus.",
                permission=SEES,
                answers={200: Media(("text/plain", "application/openmetrics-text"))},
                is_shared=True,
            ),
            Route(
                path="/api/stat",
                take=self._stat,
                name="stat",
                says="Return all numbers of the gateway, its destinations, consumers and addresses.",
                permission=SEES,
                answers={200: STAT},
                is_shared=True,
            ),
        ]

    async def _healthz(self, request: web.Request, asked: Values) -> web.Response:
        if self._source.has_failed():
            return web.Response(status=503, text="unavailable: the gateway failed and stops\n")
        store = self._source.store_stats()
        if store.is_accepting:
            is_shown = store.retention and not self._login_check.is_required
            return web.Response(text=f"ok\nwarning: {store.retention}\n" if is_shown else "ok\n")
        # If the details need a login they are not shown here.
        reason = "" if self._login_check.is_required else f": {store.reason}"
        return web.Response(status=503, text=f"unavailable{reason}\n")

    async def _readyz(self, request: web.Request, asked: Values) -> web.Response:
        """Answer whether new clients should come: as ``healthz``, but not while the gateway stops."""
        if self._source.is_stopping():
            return web.Response(status=503, text="unavailable: stopping\n")
        return await self._healthz(request, asked)

    async def _livez(self, request: web.Request, asked: Values) -> web.Response:
        """Answer whether a restart would help: only after a fault of the gateway itself, not on a full disk."""
        if self._source.has_failed():
            return await self._healthz(request, asked)
        return web.Response(text="ok\n")

    async def _metrics(self, request: web.Request, asked: Values) -> web.Response:
        body, content_type = await self._metrics_pages.document(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _metrics_page(self, accept: str) -> tuple[bytes, str]:
        stats, _ = await self._share.within(self._sampler.look())
        readers: list[LogReader] = []
        with suppress(StoreError, OSError):  # a scrape must work while the disk does not
            readers = await self._store.readers("")
        return await self._memory.made("", lambda: _render_metrics(stats, self._source.counters(), readers, accept))

    async def _stat(self, request: web.Request, asked: Values) -> web.Response:
        document = await self._stat_documents.document("")
        return web.Response(body=document, content_type="application/json", charset="utf-8")

    async def _stat_document(self, kind: str) -> bytes:
        stats, _ = await self._share.within(self._sampler.look())
        pieces, _ = await self._share.within(in_turns(stat_text(stats, self._sampler.rates)))
        return await self._memory.made("", lambda: "".join(pieces).encode())


def _render_metrics(
    stats: BrokerStats, counters: GatewayCounters, readers: Sequence[LogReader], accept: str
) -> tuple[bytes, str]:
    # Loading prometheus_client takes a twentieth of the start-up time, so the first scrape loads it.
    from gateway.web.resources.metrics import render

    return render(stats, accept, counters, readers)
