"""``POST /api/retry`` starts a retry of dead letters, ``GET /api/retry/N`` shows its progress, ``DELETE`` stops it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from engine.values.errors import EngineError
from gateway.web.bodies import json_object

NUMBERS: Final = ("rate", "limit")
KNOWN: Final = ("queue", "filter", *NUMBERS)
MOST: Final = 2**31 - 1


class RetrySource(ABC):
    """Called on the event loop that owns the broker."""

    @abstractmethod
    def start(self, queue: str, selector: str, rate: int, limit: int) -> int:
        """Return the number of the run.  Raises: EngineError; LookupError if the queue does not exist."""

    @abstractmethod
    def status(self, number: int) -> Mapping[str, object] | None:
        """Return None if there is no such run."""

    @abstractmethod
    def stop(self, number: int) -> None: ...


class RetryRoutes:
    def __init__(self, source: RetrySource) -> None:
        self._source = source

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_post("/api/retry", self._start)
        router.add_get("/api/retry/{number:[0-9]{1,9}}", self._status)
        router.add_delete("/api/retry/{number:[0-9]{1,9}}", self._stop)

    async def _start(self, request: web.Request) -> web.Response:
        asked = _checked(await json_object(request))
        try:
            number = self._source.start(asked["queue"], asked["filter"], asked["rate"], asked["limit"])
        except LookupError as error:
            return web.Response(status=404, text=f"{error.args[0]}\n")
        except EngineError as error:
            return web.Response(status=400, text=f"{error}\n")
        return self._answer(number, 201)

    async def _status(self, request: web.Request) -> web.Response:
        return self._answer(int(request.match_info["number"]), 200)

    async def _stop(self, request: web.Request) -> web.Response:
        number = int(request.match_info["number"])
        self._source.stop(number)
        return self._answer(number, 200)

    def _answer(self, number: int, status: int) -> web.Response:
        found = self._source.status(number)
        if found is None:
            return web.Response(status=404, text=f"no retry {number}\n")
        return web.json_response({"retry": number, **found}, status=status)


def _checked(asked: dict[str, Any] | None) -> dict[str, Any]:
    """Return the options in the body, with defaults.  Raises: HTTPBadRequest."""
    if asked is None or not isinstance(asked.get("queue"), str):
        raise web.HTTPBadRequest(text="the body is not a JSON object with a text 'queue'\n")
    unknown = sorted(set(asked) - set(KNOWN))
    if unknown:
        raise web.HTTPBadRequest(text=f"{unknown[0][:80]!r} is not known; allowed are {', '.join(KNOWN)}\n")
    if not isinstance(asked.setdefault("filter", ""), str):
        raise web.HTTPBadRequest(text="'filter' is not a text; allowed is a JMS selector\n")
    for name in NUMBERS:
        value = asked.setdefault(name, 0)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
            raise web.HTTPBadRequest(text=f"{name!r} is {value!r}; allowed is a whole number from 0 to {MOST}\n")
    return asked
