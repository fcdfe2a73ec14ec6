"""``/api/session``: the console's login and its end."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.logins.login_check import LoginCheck
from gateway.logins.users import LOGIN_MAX_CHARACTERS, PASSCODE_MAX_CHARACTERS
from gateway.web.routing.credentials import login_of
from gateway.web.routing.fields import Text
from gateway.web.routing.problems import Problem
from gateway.web.routing.request_logins import FORM, RequestLogins, cookie_name
from gateway.web.routing.routes import LOGIN, Permission, Route, Values
from gateway.web.routing.schemas import STRING, members
from gateway.web.routing.sessions import SESSION_MOST_S

SESSION: Final = members(login=STRING, csrf=STRING)


class SessionRoutes:
    def __init__(self, logins: RequestLogins, login_check: LoginCheck) -> None:
        self._logins = logins
        self._login_check = login_check

    def routes(self) -> list[Route]:
        return [
            Route(
                method="POST",
                path="/api/session",
                take=self._begin,
                name="logIn",
                is_traffic=True,  # not in the audit log, unless it is denied
                says="Begin a session: the answer has a cookie, and the csrf that X-Penstock-CSRF must have with it.",
                permission=Permission(needs_login=False),
                body=(
                    Text("login", "Of a configured user.", most=LOGIN_MAX_CHARACTERS),
                    Text("passcode", "The password.", most=PASSCODE_MAX_CHARACTERS),
                ),
                answers={201: SESSION},
                problems=(401, 409),
            ),
            Route(
                path="/api/session",
                take=self._show,
                name="session",
                says="Return who asks, and the csrf of the session; empty without one.",
                permission=LOGIN,
                answers={200: SESSION},
            ),
            Route(
                method="DELETE",
                path="/api/session",
                take=self._end,
                name="logOut",
                is_traffic=True,
                says="End the session.",
                permission=LOGIN,
                answers={200: members(ended=STRING)},
            ),
        ]

    async def _begin(self, request: web.Request, asked: Values) -> web.Response:
        login, passcode = asked["login"], asked.pop("passcode")  # the audit log shows what is asked for
        if not self._login_check.is_required:
            raise Problem(409, "no users are configured, so nobody needs to log in")
        if self._login_check.is_token(passcode):
            raise Problem(401, "a token begins no session; allowed is the password, or Bearer with each request")
        user = await self._logins.checked(request, login, passcode)
        if user is None:
            raise Problem(401, "wrong login or password", headers={"WWW-Authenticate": FORM})
        key, session = self._logins.sessions.begin(user)
        answer = web.json_response({"login": user.user, "csrf": session.csrf}, status=201)
        answer.set_cookie(
            cookie_name(request),
            key,
            max_age=int(SESSION_MOST_S),
            httponly=True,
            samesite="Strict",
            secure=request.secure,
            path="/",
        )
        return answer

    async def _show(self, request: web.Request, asked: Values) -> web.Response:
        session = self._logins.session_of(request) if self._login_check.is_required else None
        login = login_of(request) if self._login_check.is_required else ""
        return web.json_response({"login": login, "csrf": "" if session is None else session.csrf})

    async def _end(self, request: web.Request, asked: Values) -> web.Response:
        key = self._logins.cookie_of(request)
        if key is not None:
            self._logins.sessions.end(key)
        answer = web.json_response({"ended": login_of(request)})
        answer.del_cookie(cookie_name(request), path="/", httponly=True, samesite="Strict", secure=request.secure)
        return answer
