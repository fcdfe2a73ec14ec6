"""``GET /api/schedule`` lists scheduled messages, ``POST /api/schedule/cancel`` cancels them."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.web.management.schedule import LiveSchedule
from gateway.web.routing.fields import Destination, Text, Texts, Whole
from gateway.web.routing.problems import Problem
from gateway.web.routing.routes import MANAGES, READS, Route, Values
from gateway.web.routing.schemas import BOOLEAN, INTEGER, STRING, closed, listed, members

LIMIT_DEFAULT: Final = 100
LIMIT_MOST: Final = 10_000
IDS_MOST: Final = 10_000
IDS_BYTES_MAX: Final = 1024 * 1024  # of a body with so many
AFTER_DIGITS: Final = 40

SCHEDULE: Final = members(
    id=STRING, destination=STRING, due_ms=INTEGER, size_bytes=INTEGER, repeats=BOOLEAN, fired=INTEGER, held=STRING
)
LISTED: Final = members(pending=INTEGER, held=INTEGER, next_due_ms=INTEGER, schedules=listed(SCHEDULE), more=BOOLEAN)
CANCELLED: Final = closed({"cancelled": INTEGER, "unknown": listed(STRING), "next": STRING}, optional=("next",))


class ScheduleRoutes:
    def __init__(self, source: LiveSchedule) -> None:
        self._source = source

    def routes(self) -> list[Route]:
        return [
            Route(
                path="/api/schedule",
                take=self._list,
                name="scheduledMessages",
                says="List the scheduled messages that are due first.",
                permission=READS,
                parameters=(
                    Destination("destination", "For which they are; without it for any.", None),
                    Whole("limit", "Messages in the answer.", 1, LIMIT_MOST, LIMIT_DEFAULT),
                ),
                answers={200: LISTED},
                problems=(404,),
            ),
            Route(
                method="POST",
                path="/api/schedule/cancel",
                take=self._cancel,
                name="cancelScheduledMessages",
                says="Cancel scheduled messages: those with these ids, or all for a destination, for some seconds.",
                permission=MANAGES,
                body=(
                    Texts("ids", "Of the messages; only this or destination.", IDS_MOST, None),
                    Destination("destination", "For which all are cancelled.", None),
                    Text("after", "With destination: next of the last answer, empty at first.", "", AFTER_DIGITS),
                ),
                answers={200: CANCELLED},
                body_bytes_max=IDS_BYTES_MAX,
                problems=(404, 507),
            ),
        ]

    async def _list(self, request: web.Request, asked: Values) -> web.Response:
        return web.json_response(await self._source.listed(asked["destination"], asked["limit"]))

    async def _cancel(self, request: web.Request, asked: Values) -> web.Response:
        ids, destination = asked["ids"], asked["destination"]
        if (ids is None) is (destination is None) or (ids is not None and asked["after"]):
            raise Problem(400, "the body names neither or both; allowed is either ids, or destination with after")
        if ids is not None:
            return web.json_response(await self._source.cancel(ids))
        return web.json_response(await self._source.cancel_all(destination, _after(asked["after"])))


def _after(asked: str) -> int:
    if asked == "":
        return -1
    if not (asked.isascii() and asked.isdigit()):
        raise Problem(400, f"after is {asked!r}; allowed is the next of an answer")
    return int(asked)
