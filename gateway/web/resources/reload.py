"""``POST /api/reload`` reads the configuration again."""

from __future__ import annotations

from dataclasses import asdict

from aiohttp import web

from config.errors import ConfigError
from config.reports.changes import Changes
from gateway.logins.login_check import LoginCheck
from gateway.web.management.reload import LiveReload
from gateway.web.routing.credentials import holder_of_request
from gateway.web.routing.problems import Problem
from gateway.web.routing.routes import MANAGES, Route, Values
from gateway.web.routing.schemas import schema_of


class ReloadRoutes:
    def __init__(self, source: LiveReload, login_check: LoginCheck) -> None:
        self._source = source
        self._login_check = login_check

    def routes(self) -> list[Route]:
        return [
            Route(
                method="POST",
                path="/api/reload",
                take=self._reload,
                name="reload",
                says="Read the configuration again: what has changed and is applied, and what needs a restart.",
                permission=MANAGES,
                answers={200: schema_of(Changes)},
                problems=(409,),
            )
        ]

    async def _reload(self, request: web.Request, asked: Values) -> web.Response:
        try:
            found = await self._source.reload(holder_of_request(request, self._login_check))
        except ConfigError as error:
            raise Problem(
                409, f"nothing has changed, because the configuration has errors:\n{error}", error.condition
            ) from None
        return web.json_response(asdict(found))
