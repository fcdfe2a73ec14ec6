"""``/api/store``: ``query`` finds messages, ``dump`` pages through the log, ``du`` reports space.

``POST backup`` makes a copy.  ``POST verify`` and ``POST rebuild`` begin tasks that take a while; ``GET verify/N``
reports their progress.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from typing import Any

from aiohttp import web

from engine.values.errors import PenstockError, StoreError
from gateway.answers.questions import WrongQuestion
from gateway.answers.store_tasks import TaskRefused
from gateway.web.bodies import json_object


class StoreSource(ABC):
    """Called on the event loop; reads of the disk happen on another thread."""

    @abstractmethod
    async def query(self, asked: Mapping[str, str]) -> dict[str, Any]:
        """Raises: WrongQuestion; StoreError."""

    @abstractmethod
    async def dump(self, asked: Mapping[str, str]) -> dict[str, Any]:
        """Raises: WrongQuestion; StoreError."""

    @abstractmethod
    def start(self, what: str) -> dict[str, Any]:
        """Begin a verification or a rebuild.  Raises: TaskRefused."""

    @abstractmethod
    def status(self, number: int) -> dict[str, Any] | None:
        """Return None if there is no such task."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop the task that is under way."""

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
        router.add_get("/api/store/dump", self._dump)
        router.add_post("/api/store/backup", self._backup)
        router.add_post("/api/store/{what:verify|rebuild}", self._start)
        router.add_get("/api/store/{what:verify|rebuild}/{number:[0-9]{1,9}}", self._status)

    async def stop(self, application: web.Application) -> None:
        await self._source.stop()

    async def _query(self, request: web.Request) -> web.Response:
        return await _answer(self._source.query(request.query))

    async def _dump(self, request: web.Request) -> web.Response:
        return await _answer(self._source.dump(request.query))

    async def _start(self, request: web.Request) -> web.Response:
        try:
            return web.json_response(self._source.start(request.match_info["what"]), status=201)
        except TaskRefused as error:
            return web.Response(status=409, text=f"{error}\n")

    async def _status(self, request: web.Request) -> web.Response:
        found = self._source.status(int(request.match_info["number"]))
        if found is None:
            return web.Response(status=404, text=f"no task {request.match_info['number']}\n")
        return web.json_response(found)

    async def _space(self, request: web.Request) -> web.Response:
        why = request.query.get("why", "false")
        if why not in ("true", "false"):
            return web.Response(status=400, text=f"why is {why[:80]!r}; allowed is true or false\n")
        return web.json_response(await self._source.space(why == "true"))

    async def _backup(self, request: web.Request) -> web.Response:
        asked = await json_object(request)
        if asked is None or set(asked) != {"directory"} or not isinstance(asked["directory"], str):
            return web.Response(status=400, text="the body is not a JSON object with only a text 'directory'\n")
        try:
            return web.json_response(await self._source.backup(asked["directory"]))
        except (StoreError, OSError) as error:
            return web.Response(status=409, text=f"{error}\n")
        except ValueError:
            return web.Response(status=400, text=f"directory is {asked['directory'][:80]!a}; allowed is a path\n")


async def _answer(asked: Awaitable[dict[str, Any]]) -> web.Response:
    try:
        return web.json_response(await asked)
    except WrongQuestion as error:
        return web.Response(status=400, text=f"{error}\n")
    except PenstockError as error:
        return web.Response(status=404, text=f"{error}\n")
