"""``/api/overview``, ``/api/destinations`` and ``/api/consumers``: the last sample, a page at a time.

Samples are about a second old, so these requests ask nothing of the engine; a thread filters and sorts.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Final

from aiohttp import web

from engine.values.broker_stats import BrokerStats, ConsumerStats, DestinationStats
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.resources.rates import RateSampler
from gateway.web.resources.stat import OVERVIEW, ROWS, Row, overview, values
from gateway.web.routing.fields import Sort, Text, Whole
from gateway.web.routing.routes import SEES, Route, Take, Values
from gateway.web.routing.schemas import INTEGER, closed, listed

LIMIT_DEFAULT: Final = 50  # rows of a page
LIMIT_MAX: Final = 500
OFFSET_MAX: Final = 100_000_000
SEARCH_MAX_CHARACTERS: Final = 200
PAGE: Final = {"total": INTEGER, "matching": INTEGER, "offset": INTEGER}


class ListingRoutes:
    """sampled: returns the last sample, the first one once it is there.  memory: where answers are made."""

    def __init__(
        self, sampled: Callable[[], Awaitable[BrokerStats]], rates: RateSampler, memory: RequestMemory
    ) -> None:
        self._memory = memory
        self._sampled = sampled
        self._rates = rates

    def routes(self) -> list[Route]:
        return [
            Route(
                path="/api/overview",
                take=self._overview,
                name="overview",
                says="Show the numbers of the whole gateway, at most about a second old.",
                permission=SEES,
                answers={200: OVERVIEW},
            ),
            self._listing("destinations", self._destinations, DestinationStats, "name", ("kind", "name")),
            self._listing("consumers", self._consumers, ConsumerStats, "consumer_id", ("destination",)),
        ]

    def _listing(self, what: str, take: Take, of: type[Row], order: str, exact: tuple[str, ...]) -> Route:
        """Return the route of one kind of rows.  order: the usual column to sort by; exact: columns to filter by."""
        return Route(
            path=f"/api/{what}",
            take=take,
            name=what,
            says=f"List {what}, a page at a time, at most about a second old.",
            permission=SEES,
            parameters=(
                Text("search", "A part of the destination's name, in any case.", "", SEARCH_MAX_CHARACTERS),
                Sort([field.name for field in fields(of)], order),
                Whole("offset", "Rows to leave out.", 0, OFFSET_MAX, 0),
                Whole("limit", "Rows in the answer.", 1, LIMIT_MAX, LIMIT_DEFAULT),
                *(Text(name, f"The whole {name}.", None) for name in exact),
            ),
            answers={200: closed({**PAGE, what: listed(ROWS[of])})},
        )

    async def _overview(self, request: web.Request, asked: Values) -> web.Response:
        return web.json_response(overview(await self._sampled()))

    async def _destinations(self, request: web.Request, asked: Values) -> web.Response:
        rows = (await self._sampled()).destinations
        return await self._page(request, asked, "destinations", rows, "name", ("kind", "name"))

    async def _consumers(self, request: web.Request, asked: Values) -> web.Response:
        rows = (await self._sampled()).consumers
        return await self._page(request, asked, "consumers", rows, "destination", ("destination",))

    async def _page(
        self,
        request: web.Request,
        asked: Values,
        what: str,
        rows: Sequence[Row],
        searched: str,
        exact: tuple[str, ...],
    ) -> web.Response:
        """searched: column of the destination's name."""
        sort, offset = asked["sort"], asked["offset"]
        needle = asked["search"].lower()
        wanted = {column: asked[column] for column in exact if asked[column] is not None}
        name_of = attrgetter(searched)

        def page() -> bytes:
            found = [
                row
                for row in rows
                if needle in name_of(row).lower() and all(getattr(row, name) == text for name, text in wanted.items())
            ]
            found.sort(key=attrgetter(sort.removeprefix("-")), reverse=sort.startswith("-"))
            shown = [values(row, self._rates) for row in found[offset : offset + asked["limit"]]]
            return json.dumps({"total": len(rows), "matching": len(found), "offset": offset, what: shown}).encode()

        octets = await self._memory.made(request.remote or "?", page)
        return web.Response(body=octets, content_type="application/json", charset="utf-8")
