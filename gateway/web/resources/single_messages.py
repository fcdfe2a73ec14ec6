"""``/api/destinations/DEST/messages/ID``: delete, move and copy one message that waits in a queue."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.web.resources.messages import asking_of, queue_in
from gateway.web.rest.messages import LiveMessages
from gateway.web.routing.fields import Destination, Text
from gateway.web.routing.routes import Permission, Route, Values
from gateway.web.routing.schemas import STRING, members, or_null

PATH: Final = "/api/destinations/{destination}/messages/{id}"


class SingleMessageRoutes:
    def __init__(self, source: LiveMessages) -> None:
        self._source = source

    def routes(self) -> list[Route]:
        one = (Destination("destination", "The queue; its slashes are written %2F."), Text("id", "JMSMessageID."))
        to = (Destination("to", "Where to."),)
        sent = {201: members(id=or_null(STRING))}
        return [
            Route(
                method="DELETE",
                path=PATH,
                take=self._delete,
                name="deleteMessage",
                says="Drop a message that waits; answered once that is durable.",
                permission=Permission(of_one="delete"),
                parameters=one,
                answers={200: members(deleted=STRING)},
                problems=(404, 409, 429, 503, 507),
            ),
            Route(
                method="POST",
                path=f"{PATH}/move",
                take=self._move,
                name="moveMessage",
                says="Move a message that waits; all of it is done once answered, or nothing.",
                permission=Permission(of_one="read, and write for the target"),
                parameters=one,
                body=to,
                answers=sent,
                problems=(404, 409, 429, 503, 507),
            ),
            Route(
                method="POST",
                path=f"{PATH}/copy",
                take=self._copy,
                name="copyMessage",
                says="Send a copy of a message that waits.",
                permission=Permission(of_one="browse, and write for the target"),
                parameters=one,
                body=to,
                answers=sent,
                problems=(404, 409, 429, 503, 507),
            ),
        ]

    async def _delete(self, request: web.Request, asked: Values) -> web.Response:
        await self._source.single.delete(asking_of(request), queue_in(asked["destination"]), asked["id"])
        return web.json_response({"deleted": asked["id"]})

    async def _move(self, request: web.Request, asked: Values) -> web.Response:
        queue = queue_in(asked["destination"])
        moved = await self._source.single.move(asking_of(request), queue, asked["id"], asked["to"])
        return web.json_response({"id": moved}, status=201)

    async def _copy(self, request: web.Request, asked: Values) -> web.Response:
        queue = queue_in(asked["destination"])
        copied = await self._source.single.copy(asking_of(request), queue, asked["id"], asked["to"])
        return web.json_response({"id": copied}, status=201)
