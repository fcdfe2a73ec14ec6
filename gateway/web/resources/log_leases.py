"""``/api/store/leases``: a reader of the store's files over HTTP asks retention to keep what it reads."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from engine.store.read.leases import LEASE_LEAST_MS, LEASE_MOST_MS, READER_CHARACTERS, ServedLease
from gateway.logins.login_check import LoginCheck
from gateway.web.client_address import address_of
from gateway.web.management.log_leases import LogLeases, NoLeases
from gateway.web.routing.credentials import holder_of_request
from gateway.web.routing.fields import Text, Whole
from gateway.web.routing.problems import Problem
from gateway.web.routing.routes import KEEPS, Route, Values
from gateway.web.routing.schemas import INTEGER, STRING, members

HELD: Final = members(lease=STRING, until_ms=INTEGER)


class LogLeaseRoutes:
    def __init__(self, source: LogLeases, login_check: LoginCheck) -> None:
        self._source = source
        self._login_check = login_check

    def routes(self) -> list[Route]:
        one = (Text("lease", "As it was answered."),)
        for_ms = Whole("lease_ms", "How long, if it is not renewed.", LEASE_LEAST_MS, LEASE_MOST_MS, LEASE_MOST_MS)
        return [
            Route(
                method="POST",
                path="/api/store/leases",
                take=self._begin,
                name="beginLogLease",
                says="Keep the log from an offset on for a reader of its files, until a time.",
                permission=KEEPS,
                body=(
                    Text("reader", "Who reads, for those who ask what retention waits for.", most=READER_CHARACTERS),
                    Whole("from_offset", "Log offset."),
                    for_ms,
                ),
                answers={201: HELD},
                problems=(409, 429, 507),
            ),
            Route(
                method="POST",
                path="/api/store/leases/{lease}",
                take=self._renew,
                name="renewLogLease",
                says="Keep a lease for longer; all together store.retention.lease-max.",
                permission=KEEPS,
                parameters=one,
                body=(for_ms,),
                answers={200: HELD},
                problems=(404, 507),
            ),
            Route(
                method="DELETE",
                path="/api/store/leases/{lease}",
                take=self._end,
                name="endLogLease",
                says="End a lease.",
                permission=KEEPS,
                parameters=one,
                answers={200: members(ended=STRING)},
                problems=(404,),
            ),
        ]

    async def _begin(self, request: web.Request, asked: Values) -> web.Response:
        holder = holder_of_request(request, self._login_check)
        try:
            token, held = await self._source.begin(
                address_of(request), holder, asked["reader"], asked["from_offset"], asked["lease_ms"]
            )
        except NoLeases as error:
            raise Problem(409, str(error)) from None
        except OSError as error:
            raise Problem.unwritten("the lease", error) from None
        return _answer(token, held, 201)

    async def _renew(self, request: web.Request, asked: Values) -> web.Response:
        holder = holder_of_request(request, self._login_check)
        try:
            held = await self._source.renew(address_of(request), holder, asked["lease"], asked["lease_ms"])
        except OSError as error:
            raise Problem.unwritten("the lease", error) from None
        return _answer(asked["lease"], held, 200)

    async def _end(self, request: web.Request, asked: Values) -> web.Response:
        holder = holder_of_request(request, self._login_check)
        await self._source.end(address_of(request), holder, asked["lease"])
        return web.json_response({"ended": asked["lease"]})


def _answer(token: str, held: ServedLease, status: int) -> web.Response:
    return web.json_response({"lease": token, "until_ms": held.lease.until_ms}, status=status)
