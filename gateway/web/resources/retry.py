"""``POST /api/retry`` starts a retry of dead letters, ``GET /api/retry/N`` shows its progress, ``DELETE`` stops it."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.web.management.retries import LiveRetries
from gateway.web.routing.fields import Text, Whole
from gateway.web.routing.problems import Problem
from gateway.web.routing.routes import MANAGES, SEES, Route, Values
from gateway.web.routing.schemas import BOOLEAN, INTEGER, STRING, members

MOST: Final = 2**31 - 1
RUN_MOST: Final = 999_999_999
RUN: Final = members(retry=INTEGER, queue=STRING, moved=INTEGER, skipped=INTEGER, done=BOOLEAN, failure=STRING)


class RetryRoutes:
    def __init__(self, source: LiveRetries) -> None:
        self._source = source

    def routes(self) -> list[Route]:
        one = (Whole("number", "Of the run.", most=RUN_MOST),)
        return [
            Route(
                method="POST",
                path="/api/retry",
                take=self._start,
                name="startRetry",
                says="Start to send dead letters of a queue back to where they failed.",
                permission=MANAGES,
                body=(
                    Text("queue", "The dead-letter queue."),
                    Text("filter", "Which of its messages.", "", meaning="a JMS selector, empty for all"),
                    Whole("rate", "Messages a second at most, 0 for no limit.", most=MOST, default=0),
                    Whole("limit", "Messages in all, 0 for no limit.", most=MOST, default=0),
                ),
                answers={201: RUN},
                problems=(404, 429),
            ),
            Route(
                path="/api/retry/{number}",
                take=self._status,
                name="retry",
                says="Show the progress of a retry.",
                permission=SEES,
                parameters=one,
                answers={200: RUN},
                problems=(404,),
            ),
            Route(
                method="DELETE",
                path="/api/retry/{number}",
                take=self._stop,
                name="stopRetry",
                says="Stop a retry.",
                permission=MANAGES,
                parameters=one,
                answers={200: RUN},
                problems=(404,),
            ),
        ]

    async def _start(self, request: web.Request, asked: Values) -> web.Response:
        number = self._source.start(asked["queue"], asked["filter"], asked["rate"], asked["limit"])
        return self._answer(number, 201)

    async def _status(self, request: web.Request, asked: Values) -> web.Response:
        return self._answer(asked["number"], 200)

    async def _stop(self, request: web.Request, asked: Values) -> web.Response:
        self._source.stop(asked["number"])
        return self._answer(asked["number"], 200)

    def _answer(self, number: int, status: int) -> web.Response:
        found = self._source.status(number)
        if found is None:
            raise Problem(404, f"no retry {number}")
        return web.json_response({"retry": number, **found}, status=status)
