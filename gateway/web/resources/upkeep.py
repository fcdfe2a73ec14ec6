"""``POST /api/purge`` empties a queue, ``GET /api/purge/N`` shows its progress, ``POST /api/delete`` deletes.
``POST /api/pause`` and ``/api/resume`` stop and start the dispatch of a queue.

They need the permission ``delete`` for their destination.  ``DELETE /api/connections/N`` closes a connection.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from config.matching import QUEUE
from config.names import DestinationName
from gateway.logins.login_check import LoginCheck
from gateway.web.management.upkeep import LiveUpkeep
from gateway.web.rest.named_destination import Named
from gateway.web.routing.credentials import checked_groups, holder_of_request
from gateway.web.routing.fields import Destination, Flag, Text, Whole
from gateway.web.routing.problems import Problem
from gateway.web.routing.routes import MANAGES, Permission, Route, Values
from gateway.web.routing.schemas import BOOLEAN, INTEGER, STRING, members

DELETES: Final = Permission(of_one="delete")
PAUSE: Final = members(queue=STRING, paused=BOOLEAN)
DESTINATION: Final = Destination("destination", "Which one.")
RUN: Final = members(purge=INTEGER, queue=STRING, dropped=INTEGER, done=BOOLEAN)


class UpkeepRoutes:
    def __init__(self, source: LiveUpkeep, login_check: LoginCheck) -> None:
        self._source = source
        self._login_check = login_check

    def routes(self) -> list[Route]:
        return [
            *self._purges(),
            *self._destinations(),
            Route(
                method="DELETE",
                path="/api/connections/{number}",
                take=self._close,
                name="closeConnection",
                says="Close a connection; its client is told, and what it held returns as from a lost connection.",
                permission=MANAGES,
                parameters=(Whole("number", "Of the connection, as consumers and producers show it."),),
                answers={200: members(closed=INTEGER)},
                problems=(404,),
            ),
        ]

    def _purges(self) -> list[Route]:
        one = (Whole("number", "Of the run.", most=999_999_999),)
        filtered = Text("filter", "Which messages.", "", meaning="a JMS selector, empty for all")
        return [
            Route(
                method="POST",
                path="/api/purge",
                take=self._purge,
                name="startPurge",
                says="Start to drop what waits in a queue.",
                permission=DELETES,
                body=(DESTINATION, filtered),
                answers={201: RUN},
                problems=(404, 429, 507),
            ),
            Route(
                path="/api/purge/{number}",
                take=self._status,
                name="purge",
                says="Show the progress of a purge.",
                permission=DELETES,
                parameters=one,
                answers={200: RUN},
                problems=(404,),
            ),
            Route(
                method="DELETE",
                path="/api/purge/{number}",
                take=self._stop,
                name="stopPurge",
                says="Stop a purge.",
                permission=DELETES,
                parameters=one,
                answers={200: RUN},
                problems=(404,),
            ),
        ]

    def _destinations(self) -> list[Route]:
        return [
            Route(
                method="POST",
                path="/api/delete",
                take=self._delete,
                name="deleteDestination",
                says="Remove a queue or topic; answered once that is durable.",
                permission=DELETES,
                body=(DESTINATION, Flag("force", "Even if messages wait in it.")),
                answers={200: members(deleted=STRING)},
                problems=(404, 409, 507),
            ),
            *(
                Route(
                    method="POST",
                    path=f"/api/{name}",
                    take=take,
                    name=f"{name}Queue",
                    says=says,
                    permission=DELETES,
                    body=(DESTINATION,),
                    answers={200: PAUSE},
                    problems=(404,),
                )
                for name, take, says in (
                    ("pause", self._pause, "Let a queue accept messages and hand none over; a restart ends that."),
                    ("resume", self._resume, "Let a paused queue hand its messages over again."),
                )
            ),
        ]

    async def _purge(self, request: web.Request, asked: Values) -> web.Response:
        name = self._queue(request, asked, "has no messages")
        number = self._source.purge(name, asked["filter"], holder_of_request(request, self._login_check))
        return self._answer(number, 201)

    async def _status(self, request: web.Request, asked: Values) -> web.Response:
        self._check_run(request, asked["number"])
        return self._answer(asked["number"], 200)

    async def _stop(self, request: web.Request, asked: Values) -> web.Response:
        self._check_run(request, asked["number"])
        self._source.stop(asked["number"])
        return self._answer(asked["number"], 200)

    async def _delete(self, request: web.Request, asked: Values) -> web.Response:
        self._check(request, asked["destination"])
        return web.json_response(await self._source.delete(asked["destination"], asked["force"]))

    async def _pause(self, request: web.Request, asked: Values) -> web.Response:
        name = self._queue(request, asked, "cannot be paused")
        self._source.pause(name, holder_of_request(request, self._login_check))
        return web.json_response({"queue": name, "paused": True})

    async def _resume(self, request: web.Request, asked: Values) -> web.Response:
        name = self._queue(request, asked, "cannot be paused")
        self._source.resume(name, holder_of_request(request, self._login_check))
        return web.json_response({"queue": name, "paused": False})

    async def _close(self, request: web.Request, asked: Values) -> web.Response:
        self._source.close_connection(asked["number"], holder_of_request(request, self._login_check))
        return web.json_response({"closed": asked["number"]})

    def _queue(self, request: web.Request, asked: Values, why: str) -> str:
        """Return the name of the queue that is asked for.  why: topics are not allowed.  Raises: Problem."""
        kind, name = asked["destination"]
        self._check(request, (kind, name))
        if kind != QUEUE:
            raise Problem(400, f"destination is a topic, which {why}; allowed is a queue")
        return str(name)

    def _check_run(self, request: web.Request, number: int) -> None:
        """Raises: Problem unless it exists and its queue may be purged; it names no queue: numbers are guessed."""
        name = self._source.purged(number)
        if name is None or not self._may_delete(request, (QUEUE, name)):
            raise Problem(404, f"no purge {number}")

    def _answer(self, number: int, status: int) -> web.Response:
        return web.json_response({"purge": number, **self._source.status(number)}, status=status)

    def _check(self, request: web.Request, destination: Named) -> None:
        """Raises: Problem."""
        if not self._may_delete(request, destination):
            shown = DestinationName().show(destination)
            raise Problem(403, f"{request.method} {request.path} needs the permission delete for {shown}")

    def _may_delete(self, request: web.Request, destination: Named) -> bool:
        return self._login_check.permissions.allows("delete", *destination, checked_groups())
