"""``POST /api/purge`` empties a queue, ``GET /api/purge/N`` shows its progress, ``POST /api/delete`` deletes.

They need the permission ``delete`` for their destination.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from config.matching import QUEUE
from config.names import DestinationName
from engine.values.errors import DestinationInUse, PenstockError, StoreError
from gateway.connections.security import Security
from gateway.web.bodies import json_object
from gateway.web.credentials import login_of
from gateway.web.schedule import DISK_REFUSES

PATHS: Final = ("/api/purge", "/api/delete")

Named = tuple[int, str]  # kind of config.matching and name


class UpkeepSource(ABC):
    """Called on the event loop that owns the broker."""

    @abstractmethod
    def purge(self, queue: str, selector: str) -> int:
        """Return the number of the run.  Raises: EngineError, StoreError; LookupError if the queue does not exist."""

    @abstractmethod
    def purged(self, number: int) -> str | None:
        """Return the name of the queue that a run empties; None if there is no such run."""

    @abstractmethod
    def status(self, number: int) -> Mapping[str, object]:
        """Return the status of an existing run."""

    @abstractmethod
    def stop(self, number: int) -> None:
        """Stop an existing run."""

    @abstractmethod
    async def delete(self, destination: Named, is_forced: bool) -> dict[str, Any]:
        """Delete a destination; return once that is durable.  is_forced: even with messages in it.

        Raises: EngineError, StoreError; LookupError if it does not exist.
        """


class UpkeepRoutes:
    def __init__(self, source: UpkeepSource, security: Security) -> None:
        self._source = source
        self._security = security

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_post("/api/purge", self._purge)
        router.add_get("/api/purge/{number:[0-9]{1,9}}", self._status)
        router.add_delete("/api/purge/{number:[0-9]{1,9}}", self._stop)
        router.add_post("/api/delete", self._delete)

    async def _purge(self, request: web.Request) -> web.Response:
        asked = _checked(await json_object(request), "filter", "")
        kind, name = asked["destination"]
        self._check(request, (kind, name))
        if kind != QUEUE:
            return web.Response(status=400, text="destination is a topic, which has no messages; allowed is a queue\n")
        try:
            number = self._source.purge(name, asked["filter"])
        except (PenstockError, LookupError) as error:
            return _refusal(error)
        return self._answer(number, 201)

    async def _status(self, request: web.Request) -> web.Response:
        return self._answer(self._number(request), 200)

    async def _stop(self, request: web.Request) -> web.Response:
        number = self._number(request)
        self._source.stop(number)
        return self._answer(number, 200)

    async def _delete(self, request: web.Request) -> web.Response:
        asked = _checked(await json_object(request), "force", False)
        self._check(request, asked["destination"])
        try:
            return web.json_response(await self._source.delete(asked["destination"], asked["force"]))
        except (PenstockError, LookupError) as error:
            return _refusal(error)

    def _number(self, request: web.Request) -> int:
        """Return the number of an existing run.  Raises: HTTPNotFound, HTTPForbidden."""
        number = int(request.match_info["number"])
        name = self._source.purged(number)
        if name is None:
            raise web.HTTPNotFound(text=f"no purge {number}\n")
        self._check(request, (QUEUE, name))
        return number

    def _answer(self, number: int, status: int) -> web.Response:
        return web.json_response({"purge": number, **self._source.status(number)}, status=status)

    def _check(self, request: web.Request, destination: Named) -> None:
        """Raises: HTTPForbidden."""
        if not self._security.may(login_of(request), "delete", *destination):
            shown = DestinationName().show(destination)
            raise web.HTTPForbidden(text=f"{request.method} {request.path} needs the permission delete for {shown}\n")


def _checked(asked: dict[str, Any] | None, option: str, default: str | bool) -> dict[str, Any]:
    """Return the destination and the ``option`` in the body.  Raises: HTTPBadRequest."""
    if asked is None or not isinstance(asked.get("destination"), str):
        raise web.HTTPBadRequest(text="the body is not a JSON object with a text 'destination'\n")
    unknown = sorted(set(asked) - {"destination", option})
    if unknown:
        raise web.HTTPBadRequest(text=f"{unknown[0][:80]!r} is not known; allowed are destination, {option}\n")
    if not isinstance(asked.setdefault(option, default), type(default)):
        allowed = "true or false" if isinstance(default, bool) else "a JMS selector"
        raise web.HTTPBadRequest(text=f"{option!r} is {str(asked[option])[:80]}; allowed is {allowed}\n")
    try:
        return {**asked, "destination": DestinationName().parse(asked["destination"])}
    except ValueError:
        text = f"destination is {asked['destination'][:200]!r}, allowed is {DestinationName().allowed}\n"
        raise web.HTTPBadRequest(text=text) from None


def _refusal(error: PenstockError | LookupError) -> web.Response:
    if isinstance(error, LookupError):
        return web.Response(status=404, text=f"{error.args[0]}\n")
    if isinstance(error, DestinationInUse):
        return web.Response(status=409, text=f"{error}\n")
    return web.Response(status=DISK_REFUSES if isinstance(error, StoreError) else 400, text=f"{error}\n")
