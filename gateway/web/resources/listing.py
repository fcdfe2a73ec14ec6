"""``/api/overview``, and ``/api/destinations``, ``consumers``, ``addresses`` and ``connections``, a page at a time.

But for connections they are of the last sample, about a second old, and ask nothing of the engine.  A thread filters
and sorts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Final

from aiohttp import web

from engine.values.broker_stats import AddressStats, ConsumerStats, DestinationStats
from gateway.web.client_address import address_of
from gateway.web.limits.in_turns import in_turns
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.management.connections import ConnectionRow, LiveConnections
from gateway.web.resources.stat import PRESENT, ROWS, Row, present, values
from gateway.web.routing.fields import Fields, Sort, Text, Whole
from gateway.web.routing.routes import SEES, Route, Take, Values
from gateway.web.routing.schemas import INTEGER, closed, listed
from gateway.web.samples.sampler import Sampler

LIMIT_DEFAULT: Final = 50  # rows of a page
LIMIT_MAX: Final = 500
OFFSET_MAX: Final = 100_000_000
SEARCH_MAX_CHARACTERS: Final = 200
PAGE: Final = {"total": INTEGER, "matching": INTEGER, "offset": INTEGER}


class ListingRoutes:
    """memory: where answers are made."""

    def __init__(self, sampler: Sampler, connections: LiveConnections, memory: RequestMemory) -> None:
        self._memory = memory
        self._sampler = sampler
        self._connections = connections

    def routes(self) -> list[Route]:
        name = "A part of the destination's name, in any case."
        destination = Text("destination", "The whole destination, as queue://NAME.", None)
        connection = Whole("connection_id", "Of the connection.", default=None)
        return [
            Route(
                path="/api/overview",
                take=self._overview,
                name="overview",
                says="Show the numbers of the whole gateway and its alarms, at most about a second old.",
                permission=SEES,
                answers={200: PRESENT},
            ),
            self._listing(
                "destinations",
                self._destinations,
                DestinationStats,
                name,
                tuple(Text(column, f"The whole {column}.", None) for column in ("kind", "name")),
            ),
            self._listing("consumers", self._consumers, ConsumerStats, name, (destination, connection)),
            self._listing(
                "addresses", self._addresses, AddressStats, name, (Text("address", "The whole name.", None),)
            ),
            self._listing(
                "connections",
                self._connected,
                ConnectionRow,
                "A part of the address, client id or login, in any case.",
                (connection,),
            ),
        ]

    def _listing(self, what: str, take: Take, of: type[Row], search: str, exact: Fields) -> Route:
        """Return the route of one kind of rows, sorted by its first column.  exact: columns to filter by."""
        columns = [field.name for field in fields(of)]
        age = "as they are now" if of is ConnectionRow else "at most about a second old"
        return Route(
            path=f"/api/{what}",
            take=take,
            name=what,
            says=f"List {what}, a page at a time, {age}.",
            permission=SEES,
            parameters=(
                Text("search", search, "", SEARCH_MAX_CHARACTERS),
                Sort(columns, columns[0]),
                Whole("offset", "Rows to leave out.", 0, OFFSET_MAX, 0),
                Whole("limit", "Rows in the answer.", 1, LIMIT_MAX, LIMIT_DEFAULT),
                *exact,
            ),
            answers={200: closed({**PAGE, what: listed(ROWS[of])})},
        )

    async def _overview(self, request: web.Request, asked: Values) -> web.Response:
        return web.json_response(present(await self._sampler.sampled(), self._sampler.alarms))

    async def _destinations(self, request: web.Request, asked: Values) -> web.Response:
        rows = (await self._sampler.sampled()).destinations
        return await self._page(request, asked, "destinations", rows, ("name",), ("kind", "name"))

    async def _consumers(self, request: web.Request, asked: Values) -> web.Response:
        rows = (await self._sampler.sampled()).consumers
        exact = ("destination", "connection_id")
        return await self._page(request, asked, "consumers", rows, ("destination",), exact)

    async def _addresses(self, request: web.Request, asked: Values) -> web.Response:
        rows = (await self._sampler.sampled()).addresses
        return await self._page(request, asked, "addresses", rows, ("address",), ("address",))

    async def _connected(self, request: web.Request, asked: Values) -> web.Response:
        parts, _ = await in_turns(self._connections.steps())
        rows = [row for part in parts for row in part]
        searched = ("address", "client_id", "login")
        return await self._page(request, asked, "connections", rows, searched, ("connection_id",))

    async def _page(
        self,
        request: web.Request,
        asked: Values,
        what: str,
        rows: Sequence[Row],
        searched: tuple[str, ...],
        exact: tuple[str, ...],
    ) -> web.Response:
        """searched: columns of texts.  exact: columns that may be asked for."""
        sort, offset = asked["sort"], asked["offset"]
        needle = asked["search"].lower()
        wanted = {column: asked[column] for column in exact if asked[column] is not None}

        def page() -> bytes:
            found = [
                row
                for row in rows
                if (not needle or any(needle in getattr(row, name).lower() for name in searched))
                and all(getattr(row, name) == value for name, value in wanted.items())
            ]
            found.sort(key=attrgetter(sort.removeprefix("-")), reverse=sort.startswith("-"))
            shown = [values(row, self._sampler.rates) for row in found[offset : offset + asked["limit"]]]
            return json.dumps({"total": len(rows), "matching": len(found), "offset": offset, what: shown}).encode()

        octets = await self._memory.made(address_of(request), page)
        return web.Response(body=octets, content_type="application/json", charset="utf-8")
