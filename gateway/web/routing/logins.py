"""Who asks: by the credentials of the request, HTTP Basic or a token, or by the cookie of a session."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.connections.security import Security
from gateway.web.routing.credentials import CHECKED_LOGIN, basic_credentials, bearer_token
from gateway.web.routing.problems import Problem
from gateway.web.routing.sessions import Session, Sessions, is_token_of

CSRF_HEADER: Final = "X-Penstock-CSRF"
COOKIE: Final = "penstock-session"
SAFE: Final = ("GET", "HEAD")  # they change nothing
BASIC: Final = 'Basic realm="penstock", charset="UTF-8"'
# Browsers ask for no password because of it: the console has a form of its own.
FORM: Final = 'Session realm="penstock"'


class Logins:
    def __init__(self, security: Security, sessions: Sessions) -> None:
        self.sessions = sessions
        self._security = security

    async def check(self, request: web.Request) -> None:
        """Let a known user in.  Raises: Problem."""
        authorization = request.headers.get("Authorization", "")
        credentials, token = basic_credentials(authorization), bearer_token(authorization)
        if credentials is not None:
            if await self.is_right(request, *credentials):
                return
        elif token is not None:
            if login := await self._login_of_token(request, token):
                CHECKED_LOGIN.set(login)
                return
        elif (session := self.session_of(request)) is not None:
            if request.method not in SAFE and not is_token_of(session, request.headers.get(CSRF_HEADER, "")):
                raise Problem(
                    403, f"{CSRF_HEADER} is wrong or missing; with a session allowed is the csrf of GET /api/session"
                )
            CHECKED_LOGIN.set(session.login)
            return
        is_console = CSRF_HEADER in request.headers or self.cookie_of(request) is not None
        raise Problem(
            401,
            "wrong or no credentials; allowed is HTTP Basic with a configured user, an access token (Bearer), "
            "or a session (POST /api/session)",
            headers={"WWW-Authenticate": FORM if is_console else BASIC},
        )

    async def is_right(self, request: web.Request, login: str, passcode: str) -> bool:
        if self._security.remembers(login, passcode):
            return True
        return await self._security.logins.check(request.remote or "?", login, passcode)

    async def _login_of_token(self, request: web.Request, token: str) -> str:
        """Return the login; a wrong token is a guess like any other, so it fails late and counts."""
        login = self._security.login_of_token(token)
        if not login:
            await self._security.logins.check(request.remote or "?", "", token)
        return login

    def session_of(self, request: web.Request) -> Session | None:
        cookie = self.cookie_of(request)
        return None if cookie is None else self.sessions.find(cookie)

    def cookie_of(self, request: web.Request) -> str | None:
        return request.cookies.get(cookie_name(request))


def cookie_name(request: web.Request) -> str:
    """Return the name of the cookie: browsers give one host's cookies to all its ports, so it has the port."""
    port = request.url.port
    return f"{COOKIE}-{port or 0}"
