"""Who asks: by the credentials of the request, HTTP Basic or a token, or by the cookie of a session.

Sources: RFC 7617 (Basic), RFC 6750 (Bearer).
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.logins.login_check import LoginCheck
from gateway.web.client_address import address_of
from gateway.web.routing.credentials import CHECKED, basic_credentials, bearer_token
from gateway.web.routing.problems import Problem
from gateway.web.routing.sessions import Session, Sessions, is_token_of
from protocols.peer_socket import LoggedIn

CSRF_HEADER: Final = "X-Penstock-CSRF"
COOKIE: Final = "penstock-session"
SAFE: Final = ("GET", "HEAD")  # they change nothing
BASIC: Final = 'Basic realm="penstock", charset="UTF-8"'
# Browsers ask for no password because of it: the console has a form of its own.
FORM: Final = 'Session realm="penstock"'


class RequestLogins:
    def __init__(self, login_check: LoginCheck, sessions: Sessions) -> None:
        self.sessions = sessions
        self._login_check = login_check

    async def check(self, request: web.Request) -> None:
        """Let a known user in.  Raises: Problem."""
        authorization = request.headers.get("Authorization", "")
        credentials, token = basic_credentials(authorization), bearer_token(authorization)
        found: LoggedIn | None = None
        if credentials is not None:
            found = await self.checked(request, *credentials)
        elif token is not None:
            found = await self._user_of_token(request, token)
        elif (session := self.session_of(request)) is not None:
            if request.method not in SAFE and not is_token_of(session, request.headers.get(CSRF_HEADER, "")):
                raise Problem(
                    403, f"{CSRF_HEADER} is wrong or missing; with a session allowed is the csrf of GET /api/session"
                )
            found = await self._user_of_session(request, session)
        CHECKED.set(found)
        if found is not None:
            return
        if token is not None and (reason := self._login_check.refusal(token)):
            challenge = f'Bearer realm="penstock", error="invalid_token", error_description="{reason}"'
            raise Problem(401, f"the token is refused: {reason}", headers={"WWW-Authenticate": challenge})
        is_console = CSRF_HEADER in request.headers or self.cookie_of(request) is not None
        raise Problem(
            401,
            "wrong or no credentials; allowed is HTTP Basic with a configured user, an access token (Bearer), "
            "or a session (POST /api/session)",
            headers={"WWW-Authenticate": FORM if is_console else BASIC},
        )

    async def checked(self, request: web.Request, login: str, passcode: str) -> LoggedIn | None:
        """Return the user of login and password, None for wrong ones."""
        login_check = self._login_check
        found = login_check.remembered(login, passcode)
        if found is None:
            found = await login_check.log_in(address_of(request), login, passcode)
        # A token in place of the password may be of another user; alone (Bearer) it is clear whose request it is.
        # A directory may spell the login in another way, or have a prefix here.
        is_of_login = found is not None and (found.user == login or not login_check.is_token(passcode))
        return found if is_of_login else None

    async def _user_of_session(self, request: web.Request, session: Session) -> LoggedIn | None:
        """Return the user with the groups that count now; a user who is gone from the directory has no session."""
        if not session.user.is_external:
            return LoggedIn(session.user.user, self._login_check.groups_of(session.user.user))
        if self.sessions.is_due(session, self._login_check.groups_last_s):
            found, is_said = await self._login_check.read_again(session.user)
            if found is not None:
                self.sessions.was_read(session, found)
            elif is_said:
                self.sessions.end(self.cookie_of(request) or "")
                return None
        return session.user

    async def _user_of_token(self, request: web.Request, token: str) -> LoggedIn | None:
        """Return the user; a wrong token is a guess like any other, so it fails late and counts."""
        login_check = self._login_check
        if login := login_check.users.login_of_token(token):
            return LoggedIn(login, login_check.groups_of(login))
        return login_check.remembered("", token) or await login_check.log_in(address_of(request), "", token)

    def session_of(self, request: web.Request) -> Session | None:
        cookie = self.cookie_of(request)
        return None if cookie is None else self.sessions.find(cookie)

    def cookie_of(self, request: web.Request) -> str | None:
        return request.cookies.get(cookie_name(request))


def cookie_name(request: web.Request) -> str:
    """Return the name of the cookie: browsers give one host's cookies to all its ports, so it has the port."""
    port = request.url.port
    return f"{COOKIE}-{port or 0}"
