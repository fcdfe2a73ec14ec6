"""Who asks: login and password by HTTP Basic (RFC 7617), an access token (RFC 6750), or the login of a session."""

from __future__ import annotations

import base64
from contextvars import ContextVar
from typing import Final

from aiohttp import web

from engine.consumers.user_quota import holder_at
from gateway.logins.login_check import LoginCheck
from gateway.web.client_address import address_of
from protocols.peer_socket import LoggedIn

# Of the request that a task answers, once its password, session or token was checked.  Keys of aiohttp's requests need
# 3.14.
CHECKED: Final[ContextVar[LoggedIn | None]] = ContextVar("checked", default=None)


def basic_credentials(authorization: str) -> tuple[str, str] | None:
    """Return login and password of an ``Authorization`` header, None if it holds none."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        login, colon, passcode = base64.b64decode(encoded.strip(), validate=True).decode("utf-8").partition(":")
    except ValueError:  # no Base64, no ASCII, no UTF-8
        return None
    return (login, passcode) if colon else None


def bearer_token(authorization: str) -> str | None:
    """Return the token of an ``Authorization`` header, None if it holds none."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def login_of(request: web.Request) -> str:
    """Return the login that was checked, otherwise the one in the request, unchecked; "" for none."""
    if (checked := CHECKED.get()) is not None:
        return checked.user
    credentials = basic_credentials(request.headers.get("Authorization", ""))
    return credentials[0] if credentials is not None else ""


def checked_groups() -> frozenset[str]:
    """Return the groups of the user whose login was checked; none where logins are not checked."""
    checked = CHECKED.get()
    return frozenset() if checked is None else checked.groups


def external_groups() -> frozenset[str] | None:
    """Return the groups of a user who is not in the configuration; None for others."""
    checked = CHECKED.get()
    return checked.groups if checked is not None and checked.is_external else None


def holder_of_request(request: web.Request, login_check: LoginCheck) -> str:
    """Return for whom a request counts: a login means nothing where it is not checked."""
    return holder_at(login_of(request) if login_check.is_required else "", address_of(request))
