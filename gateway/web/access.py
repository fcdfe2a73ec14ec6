"""Who may ask over HTTP: logins, permissions, foreign pages, and the share of each request in time and memory."""

from __future__ import annotations

from contextlib import nullcontext

from aiohttp import web

from config.permissions import Action
from gateway.logins.login_check import LoginCheck
from gateway.web.connections.abandoned import while_asked
from gateway.web.connections.http_connection import HttpConnection, connection_of
from gateway.web.connections.sockets import SocketRoute
from gateway.web.limits.loop_share import LoopShare
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.routing.bodies import refuse_encoding, refuse_unclear_length
from gateway.web.routing.credentials import checked_groups
from gateway.web.routing.fields import shown
from gateway.web.routing.foreign_pages import ForeignPages
from gateway.web.routing.problems import HEADERS, Handler, Problem
from gateway.web.routing.request_logins import RequestLogins
from gateway.web.routing.routes import BODY_BYTES_MAX, OPEN, SEES, Permission, route_of


class Access:
    """``guard`` comes before each route, and before the socket of STOMP and AMQP."""

    def __init__(
        self,
        logins: RequestLogins,
        login_check: LoginCheck,
        foreign_pages: ForeignPages,
        sockets: SocketRoute | None,
        share: LoopShare,
        memory: RequestMemory,
    ) -> None:
        self._logins = logins
        self._login_check = login_check
        self._foreign_pages = foreign_pages
        self._sockets = sockets
        self._share = share
        self._memory = memory

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = connection_of(request)
        try:
            refuse_unclear_length(request)
            refuse_encoding(request)
            if self._sockets is not None and self._sockets.is_meant(request):
                if not self._sockets.admits(request.headers.get("Origin")):
                    self._foreign_pages.refuse(request, None, ", or one of http.origins")
                _refuse_unread_key(request)
                return await self._sockets.serve(request, HEADERS)  # its protocol has a login, and a share, of its own
            return await self._share.within(self._answer(request, handler, connection))
        finally:
            if connection is not None:
                connection.request_answered()

    async def _answer(
        self, request: web.Request, handler: Handler, connection: HttpConnection | None
    ) -> web.StreamResponse:
        """Raises: Problem; HTTPException of aiohttp."""
        route = route_of(request)
        self._foreign_pages.refuse(request, route)
        permission = SEES if route is None else route.permission
        if self._login_check.is_required and permission.needs_login:
            await self._logins.check(request)
        self._refuse_forbidden(request, permission)
        body_bytes_max = BODY_BYTES_MAX if route is None else route.body_bytes_max
        if body_bytes_max != BODY_BYTES_MAX:
            request = request.clone(client_max_size=body_bytes_max)
        is_always_taken = permission is OPEN or (route is not None and route.is_shared)
        with nullcontext() if is_always_taken else self._memory.request(request, body_bytes_max):
            await request.read()  # at most client_max_size
            if connection is not None:
                connection.request_taken()
            if route is not None and route.only_asks():
                return await while_asked(request, handler, connection)
            return await handler(request)

    def _refuse_forbidden(self, request: web.Request, permission: Permission) -> None:
        """Refuse requests that show or change any destination, if the user has no permission for all of them.

        What concerns one destination asks for the permission for that one.  Raises: Problem.
        """

        def allows(action: Action) -> bool:
            return self._login_check.permissions.allows_everywhere(action, checked_groups())

        if not permission.allowed_by(allows):
            asked = f"{request.method} {request.path[:200]}"
            raise Problem(403, f"{asked} needs the permission {permission.words} for all destinations (match: '>')")


def _refuse_unread_key(request: web.Request) -> None:
    """Refuse a key of a WebSocket with which aiohttp fails.  Raises: Problem."""
    key = request.headers.get("Sec-WebSocket-Key", "")
    if not key.isascii():
        raise Problem(400, f"Sec-WebSocket-Key is {shown(key)}; allowed is Base64")
