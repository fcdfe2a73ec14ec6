"""What of HTTP goes into the audit log: requests that manage something, and those that are denied."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from config.names import DestinationName
from gateway.logins.login_check import LoginCheck
from gateway.process.audit_log import Audited, AuditLog
from gateway.web.client_address import address_of
from gateway.web.routing.credentials import CHECKED, login_of
from gateway.web.routing.problems import Handler, Problem, http_problem, refusal
from gateway.web.routing.routes import ASKED, Route, route_of

DENIED: Final = ("access-denied", "login-refused")
CUT_OFF: Final = "cut-off"  # the client has gone meanwhile; the action may be done


class RequestAudit:
    def __init__(self, audit: AuditLog, login_check: LoginCheck) -> None:
        self._audit = audit
        self._login_check = login_check

    @web.middleware
    async def watch(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        ASKED.set(None)
        CHECKED.set(None)
        try:
            response = await handler(request)
        except asyncio.CancelledError:
            self._note(request, CUT_OFF)
            raise
        except Exception as error:
            self._note(request, _condition(request, error))
            raise
        self._note(request, "done" if response.status < 400 else f"status-{response.status}")
        return response

    def _note(self, request: web.Request, result: str) -> None:
        route = route_of(request)
        is_denied = result in DENIED
        if not is_denied and (route is None or not route.manages()):
            return
        if result == "login-refused" and request.method == "GET" and "Authorization" not in request.headers:
            return  # how browsers find out that they need a login
        login = login_of(request) if self._login_check.is_required else ""
        action = f"{request.method} {request.path}" if route is None else route.name
        target = _target(route, request)
        host = address_of(request)
        entry = Audited(login, host, "http", action, target, result)
        if is_denied:
            self._audit.denied(host, entry)
        else:
            self._audit.managed(entry)


def _condition(request: web.Request, error: Exception) -> str:
    """Return the word with which the error will be answered."""
    if isinstance(error, web.HTTPException):
        return http_problem(request, error).condition
    problem = error if isinstance(error, Problem) else refusal(error)
    return "internal-error" if problem is None else problem.condition


def _target(route: Route | None, request: web.Request) -> str:
    """Return what is asked for: the destination first, then other values; the path before they are read."""
    asked = ASKED.get()
    if route is None or asked is None:
        return request.path
    known = [one.name for one in (*route.parameters, *(route.body or ()))]
    shown = [f"{name}={_shown(asked[name])}" for name in known if asked.get(name) not in (None, "", (), [])]
    return " ".join(sorted(shown, key=lambda text: not text.startswith("destination=")))


def _shown(value: object) -> str:
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], int):
        return DestinationName().show(value)
    return str(value)
