"""``/api/why/consumer|producer|message/ID``: what holds it back.  ``/api/explain/...``: where settings come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from engine.values.errors import PenstockError


@dataclass(frozen=True, slots=True)
class Answer:
    """lines: for people; facts: the same for programs, JSON values only."""

    lines: list[str]
    facts: dict[str, Any]


class WhySource(ABC):
    """Called on the event loop that owns the broker.  The answer is None for an unknown id."""

    @abstractmethod
    def consumer(self, consumer_id: int) -> Answer | None: ...

    @abstractmethod
    def producer(self, connection_id: int) -> Answer | None: ...

    @abstractmethod
    async def message(self, message_id: str) -> Answer:
        """Raises: StoreError."""

    @abstractmethod
    def explain_consumer(self, consumer_id: int) -> dict[str, Any] | None:
        """Return where each setting of a consumer comes from (config.reports.explain)."""

    @abstractmethod
    def explain_destination(self, text: str, connection_id: int | None = None) -> dict[str, Any] | None:
        """Return the same for a destination as a client would write it, for one connection if that is given.

        None: there is no such connection.  Raises: ValueError.
        """


class WhyRoutes:
    def __init__(self, source: WhySource) -> None:
        self._source = source

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/why/consumer/{id}", self._consumer)
        router.add_get("/api/why/producer/{id}", self._producer)
        router.add_get("/api/why/message/{id}", self._message)
        router.add_get("/api/explain/consumer/{id}", self._explain_consumer)
        router.add_get("/api/explain/destination/{name}", self._explain_destination)

    async def _consumer(self, request: web.Request) -> web.Response:
        number = _number(request, "consumer")
        return _response(self._source.consumer(number), f"no consumer {number}; 'penstock stat --json' lists them")

    async def _producer(self, request: web.Request) -> web.Response:
        number = _number(request, "producer")
        return _response(self._source.producer(number), f"no connection {number}; 'penstock stat --json' lists them")

    async def _message(self, request: web.Request) -> web.Response:
        try:
            return _response(await self._source.message(request.match_info["id"]), "")
        except PenstockError as error:
            return web.Response(status=404, text=f"{error}\n")

    async def _explain_consumer(self, request: web.Request) -> web.Response:
        number = _number(request, "consumer")
        document = self._source.explain_consumer(number)
        if document is None:
            return web.Response(status=404, text=f"no consumer {number}; 'penstock stat --json' lists them\n")
        return web.json_response(document)

    async def _explain_destination(self, request: web.Request) -> web.Response:
        text = request.query.get("connection")
        number = None if text is None else _number_in(text, "connection")
        try:
            document = self._source.explain_destination(request.match_info["name"], number)
        except ValueError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from None
        if document is None:
            return web.Response(status=404, text=f"no connection {number}; 'penstock stat --json' lists them\n")
        return web.json_response(document)


def _number(request: web.Request, what: str) -> int:
    return _number_in(request.match_info["id"], what)


def _number_in(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise web.HTTPBadRequest(text=f"{what} is {text[:80]!r}; allowed is its number\n")
    return int(text)


def _response(answer: Answer | None, missing: str) -> web.Response:
    if answer is None:
        return web.Response(status=404, text=f"{missing}\n")
    return web.json_response({"lines": answer.lines, **answer.facts})
