"""The table of routes: the router, the checks of each request, and ``/api/openapi.json`` are made from it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from config.permissions import SEEING, SEEING_WORDS, Action
from gateway.web.routing.bodies import check_content_type, json_object
from gateway.web.routing.fields import Fields, Schema, read_members, read_texts

ROUTES: Final = web.AppKey("routes", dict[web.AbstractRoute, "Route"])

BODY_BYTES_MAX: Final = 64 * 1024
_PARAMETER: Final = re.compile(r"\{(\w+)\}")  # of a path

Values = dict[str, Any]
# Of the request that a task answers; None before they are checked.  Keys of aiohttp's requests need 3.14.
ASKED: Final[ContextVar[Values | None]] = ContextVar("asked", default=None)
Take = Callable[[web.Request, Values], Awaitable[web.StreamResponse]]
Check = Callable[[web.Request, Values], None]


@dataclass(frozen=True, slots=True)
class Permission:
    """What a user needs for a route.

    needs_login: where users are configured.  everywhere: any one of these, for all destinations; () for none.
    also: each of these, too.  words: these in words.
    of_one: asked for by the route itself, for the destination that it is about.
    """

    needs_login: bool = True
    everywhere: tuple[Action, ...] = ()
    also: tuple[Action, ...] = ()
    words: str = ""
    of_one: str = ""

    def allowed_by(self, allows: Callable[[Action], bool]) -> bool:
        """Say whether it is given to a user, as far as it is about all destinations.

        allows: says whether an action is allowed to the user for all of them.
        """
        return not self.everywhere or (any(map(allows, self.everywhere)) and all(map(allows, self.also)))

    def says(self) -> str:
        """Return a sentence about it."""
        if not self.needs_login:
            return "Open to everybody."
        if self.everywhere:
            return f"Needs the permission {self.words} for all destinations."
        return f"Needs the permission {self.of_one} for its destination." if self.of_one else "Needs a login only."


OPEN: Final = Permission(needs_login=False)  # it shows no names
LOGIN: Final = Permission()
SEES: Final = Permission(everywhere=SEEING, words=SEEING_WORDS)
READS: Final = Permission(everywhere=("read",), words="read")
# It holds retention up, as a durable subscription to everything would.
KEEPS: Final = Permission(everywhere=("read",), also=("subscribe-durable",), words="read and subscribe-durable")
# It lets retention drop what an export has not read, or keeps it from that; ``export`` follows no other permission.
TELLS: Final = Permission(everywhere=("read",), also=("export",), words="read and export")
MANAGES: Final = Permission(everywhere=("delete",), words="admin")


@dataclass(frozen=True, slots=True)
class Media:
    """An answer or a body that is not JSON.  content_types: with which it comes."""

    content_types: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One operation.

    take: answers it; it gets the checked values of parameters and members.  check: raises before the body is parsed,
    by the parameters alone.  name: of the operation, for clients generated from the description.
    parameters: of the path, as in ``{name}``, and of the query.
    body: members of its JSON object; None if it takes no body, or reads it itself.  raw_body: how it then is described.
    answers: schema of the JSON, or a Media, by status; the first is the usual one.
    problems: statuses of its own errors, beside those that every route may have.  body_bytes_max: of a request.
    has_more: other parameters are no error; they are in the value "more".  has_head: a GET may also be a HEAD.
    is_hidden: no part of the API, as the files of the console.
    is_traffic: it sends, takes or settles messages, which is no management.
    has_effect: no page of another site may cause it, not even by a link; for a GET that takes or holds something.
    is_shared: one answer is made for all that wait for it, so it is given also while requests hold too much.
    """

    method: str = "GET"
    path: str
    take: Take
    name: str
    says: str
    permission: Permission
    check: Check | None = None
    parameters: Fields = ()
    body: Fields | None = None
    raw_body: Mapping[str, Schema] = field(default_factory=dict)
    answers: Mapping[int, Schema | Media] = field(default_factory=dict)
    problems: tuple[int, ...] = ()
    body_bytes_max: int = BODY_BYTES_MAX
    has_more: bool = False
    has_head: bool = True
    is_hidden: bool = False
    is_traffic: bool = False
    is_shared: bool = False
    has_effect: bool = False

    def in_path(self, name: str) -> bool:
        return f"{{{name}}}" in self.path

    def manages(self) -> bool:
        """Say whether it changes something as an operator does."""
        return self.method != "GET" and not self.is_traffic

    def only_asks(self) -> bool:
        """Say whether nothing is lost if it ends without an answer."""
        return self.method == "GET" and not self.has_effect

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Check the request and answer it.  Raises: Problem."""
        if self.is_hidden:
            return await self.take(request, {})
        given = [*request.match_info.items(), *request.query.items()]
        more: dict[str, str] = {}
        if self.has_more:
            known = {one.name for one in self.parameters}
            more = {name: text for name, text in given if name not in known}
            given = [(name, text) for name, text in given if name in known]
        values = {**read_texts(self.parameters, given), "more": more}
        if self.check is not None:
            self.check(request, values)
        if self.body is not None or self.raw_body:
            check_content_type(request)
        if self.body is not None:
            values |= read_members(self.body, await json_object(request))
        ASKED.set(values)
        return await self.take(request, values)


def add_routes(application: web.Application, routes: Iterable[Route]) -> None:
    """Make the router of the application from the table."""
    found: dict[web.AbstractRoute, Route] = {}
    for route in routes:
        path = _PARAMETER.sub(r"{\1:[^/]+}", route.path)  # aiohttp's {name} takes no braces, which names may have
        found[application.router.add_route(route.method, path, route.answer)] = route
        if route.method == "GET" and route.has_head:
            found[application.router.add_route("HEAD", path, route.answer)] = route
    application[ROUTES] = found


def route_of(request: web.Request) -> Route | None:
    """Return the entry of the table for a request; None for an unknown path or method."""
    return request.app[ROUTES].get(request.match_info.route)
