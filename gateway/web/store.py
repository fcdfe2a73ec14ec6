"""``/api/store/query`` finds messages, ``/api/store/du`` tells of space, ``POST /api/store/backup`` makes a copy."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from engine.errors import PenstockError, StoreError


class StoreSource(ABC):
    """Called on the event loop; whatever reads the disk does so on another thread."""

    @abstractmethod
    async def query(self, asked: Mapping[str, str]) -> dict[str, Any]:
        """Raises: ValueError for a question that cannot be; StoreError."""

    @abstractmethod
    async def space(self, tells_why: bool) -> dict[str, Any]:
        """Raises: StoreError."""

    @abstractmethod
    async def backup(self, directory: str) -> dict[str, Any]:
        """Raises: StoreError; OSError."""


class StoreRoutes:
    def __init__(self, source: StoreSource) -> None:
        self._source = source

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/store/query", self._query)
        router.add_get("/api/store/du", self._space)
        router.add_post("/api/store/backup", self._backup)

    async def _query(self, request: web.Request) -> web.Response:
        try:
            return web.json_response(await self._source.query(request.query))
        except ValueError as error:
            return web.Response(status=400, text=f"{error}\n")
        except PenstockError as error:
            return web.Response(status=404, text=f"{error}\n")

    async def _space(self, request: web.Request) -> web.Response:
        why = request.query.get("why", "false")
        if why not in ("true", "false"):
            return web.Response(status=400, text=f"why is {why[:80]!r}; allowed is true or false\n")
        return web.json_response(await self._source.space(why == "true"))

    async def _backup(self, request: web.Request) -> web.Response:
        try:
            asked = json.loads(await request.text())
        except ValueError:
            asked = None
        if not isinstance(asked, dict) or set(asked) != {"directory"} or not isinstance(asked["directory"], str):
            return web.Response(status=400, text="the body is no JSON object with a text 'directory' alone\n")
        try:
            return web.json_response(await self._source.backup(asked["directory"]))
        except (StoreError, OSError) as error:
            return web.Response(status=409, text=f"{error}\n")
