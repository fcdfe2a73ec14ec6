"""``GET /api/subscriptions`` lists durable subscriptions; ``POST /api/subscriptions/delete`` removes one."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.logins.login_check import LoginCheck
from gateway.web.management.subscriptions import LiveSubscriptions
from gateway.web.routing.credentials import holder_of_request
from gateway.web.routing.fields import Text, Whole
from gateway.web.routing.routes import MANAGES, READS, Route, Values
from gateway.web.routing.schemas import BOOLEAN, INTEGER, STRING, listed, members

LIMIT_DEFAULT: Final = 100
LIMIT_MOST: Final = 1_000

SUBSCRIPTION: Final = members(
    client_id=STRING,
    name=STRING,
    source=STRING,
    selector=STRING,
    shared=BOOLEAN,
    owner=STRING,
    consumers=INTEGER,
    waiting=INTEGER,
)


class SubscriptionRoutes:
    def __init__(self, source: LiveSubscriptions, login_check: LoginCheck) -> None:
        self._source = source
        self._login_check = login_check

    def routes(self) -> list[Route]:
        return [
            Route(
                path="/api/subscriptions",
                take=self._list,
                name="durableSubscriptions",
                says="List the durable subscriptions, and how many messages wait for each.",
                permission=READS,
                parameters=(
                    Text("search", "A part of the client id, name, topic or owner.", ""),
                    Whole("limit", "Subscriptions in the answer.", 1, LIMIT_MOST, LIMIT_DEFAULT),
                ),
                answers={200: members(durable=INTEGER, subscriptions=listed(SUBSCRIPTION))},
            ),
            Route(
                method="POST",
                path="/api/subscriptions/delete",
                take=self._delete,
                name="deleteSubscription",
                says="Remove a durable subscription without consumers; answered once that is durable.",
                permission=MANAGES,
                body=(Text("name", "Its name, as listed."), Text("client_id", "Its client id, as listed.", "")),
                answers={200: members(client_id=STRING, deleted=STRING)},
                problems=(404, 409, 507),
            ),
        ]

    async def _list(self, request: web.Request, asked: Values) -> web.Response:
        return web.json_response(await self._source.listed(asked["search"], asked["limit"]))

    async def _delete(self, request: web.Request, asked: Values) -> web.Response:
        operator = holder_of_request(request, self._login_check)
        return web.json_response(await self._source.delete(asked["client_id"], asked["name"], operator))
