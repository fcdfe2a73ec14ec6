"""The HTTP listener: binds, serves ``api``, stops."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any, Final

from aiohttp import web

from config.model import Endpoint
from gateway.connections.acceptor import Acceptor, listening_socket
from gateway.connections.admission import Admission, Place
from gateway.connections.input_turns import InputTurns
from gateway.connections.tls import ServerTls
from gateway.logins.login_check import LoginCheck
from gateway.process.passed_sockets import PassedSockets
from gateway.web.api import create_app
from gateway.web.connections.http_connection import (
    HTTP_CONNECTIONS_MAX,
    HTTP_CONNECTIONS_PER_ADDRESS_MAX,
    REQUEST_TIME_S,
    HttpConnection,
)
from gateway.web.connections.request_log import RequestLog
from gateway.web.connections.sockets import SocketRoute
from gateway.web.limits.loop_share import LoopShare
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.routing.problems import DEFECT, Problem
from gateway.web.sources import Sources

# How long a request may still take when the gateway stops.
STOP_TIME_S: Final = 2.0
SLOW: Final = Problem(408, f"the request is not complete after {REQUEST_TIME_S:g} s, which is the limit").octets()


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
        sources: Sources,
        login_check: LoginCheck,
        tls: ServerTls,
        sockets: SocketRoute | None = None,
        memory: RequestMemory | None = None,
        passed: PassedSockets | None = None,
    ) -> HttpServer:
        """Raises: OSError if the address cannot be bound."""
        counters = sources.stats.counters()
        admission = Admission(HTTP_CONNECTIONS_MAX, HTTP_CONNECTIONS_PER_ADDRESS_MAX, counters)
        share = LoopShare()
        memory = memory or RequestMemory()
        application = create_app(sources, login_check, endpoint.host, sockets, share, memory)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=STOP_TIME_S)
        await runner.setup()
        try:
            listening = await listening_socket(endpoint, passed)
            accepted = partial(_accepted, runner, admission, share, memory, InputTurns())
            acceptor = Acceptor(
                listening,
                admission,
                accepted,
                tls.context,
                endpoint.is_tls(),
                REQUEST_TIME_S,
                memory.holdings,
                tls.input,
            )
            acceptor.start()
        except OSError:
            await runner.cleanup()
            raise
        return cls(runner, acceptor, replace(endpoint, port=listening.getsockname()[1]))

    async def stop(self) -> None:
        self._acceptor.close()
        await self._runner.cleanup()


def _accepted(
    runner: web.AppRunner,
    admission: Admission,
    share: LoopShare,
    memory: RequestMemory,
    turns: InputTurns,
    place: Place,
) -> HttpConnection | None:
    server = runner.server
    if place.refusal or server is None:
        return None
    options: dict[str, Any] = {
        "access_log": None,
        "logger": RequestLog(admission.lines, place.address),
        "auto_decompress": False,  # aiohttp would inflate a body before we see its request
    }
    requests = Requests(share, memory, server, loop=asyncio.get_running_loop(), **options)
    return HttpConnection(requests, place, turns=turns, yielding=admission.yielding, slow_answer=SLOW)


class Requests(web.RequestHandler):
    """aiohttp's requests of one connection, with problem details for what is no request at all."""

    __slots__ = ("_memory", "_share")

    def __init__(self, share: LoopShare, memory: RequestMemory, server: web.Server, **options: Any) -> None:
        super().__init__(server, **options)
        self._share = share
        self._memory = memory

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._messages:
            # Let reference counts free it: the error of what is no request is kept, whose frames keep all of this.
            error = getattr(self._messages[-1][0], "exc", None)
            if error is not None:
                error.__traceback__ = None

    async def start(self) -> None:
        if self.transport is not None:  # aiohttp fails where the connection is lost before this begins
            await super().start()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        super().handle_error(request, status, exc, message)  # logs it
        seen = " ".join((message or "").split())
        answer = Problem(status, DEFECT if status == 500 else f"not a request of HTTP/1.1: {seen}").answer()
        answer.force_close()
        return answer

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        if resp.status == 417:  # refused before any of our code was asked
            seen = request.headers.get("Expect", "")
            resp = Problem(417, f"Expect is {seen[:80]!r}; allowed is 100-continue").answer()
            resp.force_close()  # its body is still to come
        with self._memory.answer(resp, self.transport):
            return await self._share.within(super().finish_response(request, resp, start_time))
