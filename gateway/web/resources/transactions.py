"""``GET /api/transactions`` lists prepared transactions; ``POST /api/transactions/commit`` and ``/rollback`` decide.

``/forget`` forgets what was decided in this way.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.logins.login_check import LoginCheck
from gateway.web.management.transactions import LiveTransactions
from gateway.web.routing.credentials import holder_of_request
from gateway.web.routing.fields import Text, Whole
from gateway.web.routing.routes import MANAGES, READS, Route, Values
from gateway.web.routing.schemas import INTEGER, STRING, listed, members

LIMIT_DEFAULT: Final = 100
LIMIT_MOST: Final = 10_000
XID_CHARACTERS: Final = 300

TRANSACTION: Final = members(
    xid=STRING, user=STRING, prepared_ms=INTEGER, messages=INTEGER, acknowledged=INTEGER, size_bytes=INTEGER
)
OUTCOME: Final = members(xid=STRING, user=STRING, decided_ms=INTEGER, outcome=STRING)
LISTED: Final = members(prepared=INTEGER, transactions=listed(TRANSACTION), decided=listed(OUTCOME))
DECIDED: Final = members(xid=STRING, outcome=STRING)


class TransactionRoutes:
    def __init__(self, source: LiveTransactions, login_check: LoginCheck) -> None:
        self._source = source
        self._login_check = login_check

    def routes(self) -> list[Route]:
        return [
            Route(
                path="/api/transactions",
                take=self._list,
                name="preparedTransactions",
                says="List the distributed transactions that are prepared, and those that an operator has decided.",
                permission=READS,
                parameters=(Whole("limit", "Transactions in the answer.", 1, LIMIT_MOST, LIMIT_DEFAULT),),
                answers={200: LISTED},
            ),
            *(
                Route(
                    method="POST",
                    path=f"/api/transactions/{word}",
                    take=take,
                    name=f"{word}Transaction",
                    says=says,
                    permission=MANAGES,
                    body=(Text("xid", "As listed.", most=XID_CHARACTERS),),
                    answers={200: DECIDED},
                    problems=(404, 507),
                )
                for word, take, says in (
                    ("commit", self._commit, "Commit a prepared transaction whose transaction manager will not."),
                    ("rollback", self._roll_back, "Roll a prepared transaction back; messages return to their queues."),
                    ("forget", self._forget, "Forget the outcome that an operator gave to a transaction."),
                )
            ),
        ]

    async def _list(self, request: web.Request, asked: Values) -> web.Response:
        return web.json_response(self._source.listed(asked["limit"]))

    async def _commit(self, request: web.Request, asked: Values) -> web.Response:
        return await self._decide(request, asked["xid"], is_commit=True)

    async def _roll_back(self, request: web.Request, asked: Values) -> web.Response:
        return await self._decide(request, asked["xid"], is_commit=False)

    async def _forget(self, request: web.Request, asked: Values) -> web.Response:
        return web.json_response(await self._source.forget(asked["xid"], holder_of_request(request, self._login_check)))

    async def _decide(self, request: web.Request, xid: str, is_commit: bool) -> web.Response:
        operator = holder_of_request(request, self._login_check)
        return web.json_response(await self._source.decide(xid, is_commit, operator))
