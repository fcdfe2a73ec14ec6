"""``/api/history``: the figures of the last hour, for charts."""

from __future__ import annotations

import json
from typing import Final

from aiohttp import web

from config.matching import QUEUE
from gateway.web.client_address import address_of
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.routing.fields import Destination
from gateway.web.routing.routes import SEES, Route, Values
from gateway.web.routing.schemas import INTEGER, NUMBER, closed, listed, or_null
from gateway.web.samples.history import COLUMNS, GATEWAY_COLUMNS, INTERVAL_S, History

OF_GATEWAY_ONLY: Final = tuple(name for name in GATEWAY_COLUMNS if name not in COLUMNS)
_POINTS: Final = {name: listed(or_null(NUMBER)) for name in GATEWAY_COLUMNS}
HISTORY: Final = closed({"interval_s": INTEGER, **_POINTS}, optional=OF_GATEWAY_ONLY)


class HistoryRoutes:
    """memory: where answers are made."""

    def __init__(self, history: History, memory: RequestMemory) -> None:
        self._history = history
        self._memory = memory

    def routes(self) -> list[Route]:
        return [
            Route(
                path="/api/history",
                take=self._take,
                name="history",
                says="Return the figures of the last hour, the oldest first; null where there is none.",
                permission=SEES,
                parameters=(Destination("destination", "Of one destination; without it of the gateway.", None),),
                answers={200: HISTORY},
            )
        ]

    async def _take(self, request: web.Request, asked: Values) -> web.Response:
        destination = asked["destination"]
        if destination is None:
            figures = self._history.of_gateway()
        else:
            kind, name = destination
            figures = self._history.of_destination("queue" if kind == QUEUE else "topic", name)
        document = {"interval_s": INTERVAL_S, **figures}
        octets = await self._memory.made(address_of(request), lambda: json.dumps(document).encode())
        return web.Response(body=octets, content_type="application/json", charset="utf-8")
