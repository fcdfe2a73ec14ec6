"""``/api/why/consumer|producer|message/ID``: what holds it back.  ``/api/explain/...``: where settings come from."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from engine.features.why import ConsumerView, ProducerView, Whereabouts
from engine.store.read.found_message import NO_END
from engine.store.read.message_history import Biography
from engine.values.errors import PenstockError
from gateway.answers.message_lives import Search, SearchGoesOn
from gateway.web.client_address import address_of
from gateway.web.management.why import Answer, LiveWhy
from gateway.web.routing.fields import Fields, Schema, Text, Whole
from gateway.web.routing.problems import Problem
from gateway.web.routing.routes import READS, SEES, Permission, Route, Take, Values
from gateway.web.routing.schemas import ANYTHING, STRING, closed, listed, mapped, members, or_null, schema_of


def _with_lines(of: type, **more: Schema) -> Schema:
    return closed({"lines": listed(STRING), **schema_of(of)["properties"], **more})


CONSUMER: Final = _with_lines(ConsumerView)
PRODUCER: Final = _with_lines(ProducerView)
_WHERE: Final = or_null(schema_of(Whereabouts))
_PLACES: Final[dict[str, Schema]] = {"where": _WHERE, "subscriptions": or_null(mapped(schema_of(Whereabouts)))}
_LIFE: Final = closed({**schema_of(Biography)["properties"], **_PLACES})
MESSAGE: Final = _with_lines(Biography, **_PLACES, search=or_null(schema_of(Search)), others=listed(_LIFE))
_ORIGIN: Final = {"value": ANYTHING, "source": STRING}
EXPLANATION: Final = members(
    what=STRING,
    settings=mapped(closed({**_ORIGIN, "overrode": listed(closed(_ORIGIN))})),
    left_out=listed(STRING),
    asked=listed(STRING),
    permissions=mapped(listed(STRING)),
)


class WhyRoutes:
    def __init__(self, source: LiveWhy) -> None:
        self._source = source

    def routes(self) -> list[Route]:
        consumer = Whole("id", "Of the consumer.")
        return [
            _route("/api/why/consumer/{id}", self._consumer, "whyConsumer", CONSUMER, (consumer,)),
            _route(
                "/api/why/producer/{id}", self._producer, "whyProducer", PRODUCER, (Whole("id", "Of the connection."),)
            ),
            _route(
                "/api/why/message/{id}",
                self._message,
                "whyMessage",
                MESSAGE,
                (
                    Text("id", "JMSMessageID: the store's, or the one that its sender gave it."),
                    Whole("before", "Search for a sender's id below this log offset.", default=None),
                ),
                READS,
            ),
            _route("/api/explain/consumer/{id}", self._explain_consumer, "explainConsumer", EXPLANATION, (consumer,)),
            _route(
                "/api/explain/destination/{name}",
                self._explain_destination,
                "explainDestination",
                EXPLANATION,
                (
                    Text("name", "As a client would write the destination."),
                    Whole("connection", "For which connection; without it for a new one.", default=None),
                ),
            ),
        ]

    async def _consumer(self, request: web.Request, asked: Values) -> web.Response:
        number = asked["id"]
        return _response(self._source.consumer(number), f"no consumer {number}; 'penstock stat --json' lists them")

    async def _producer(self, request: web.Request, asked: Values) -> web.Response:
        number = asked["id"]
        return _response(self._source.producer(number), f"no connection {number}; 'penstock stat --json' lists them")

    async def _message(self, request: web.Request, asked: Values) -> web.Response:
        try:
            before = NO_END if asked["before"] is None else asked["before"]
            return _response(await self._source.message(address_of(request), asked["id"], before), "")
        except SearchGoesOn as error:
            raise Problem(404, str(error), error.condition, before=error.before) from None
        except PenstockError as error:
            raise Problem(404, str(error), error.condition) from None

    async def _explain_consumer(self, request: web.Request, asked: Values) -> web.Response:
        number = asked["id"]
        document = self._source.explain_consumer(number)
        if document is None:
            raise Problem(404, f"no consumer {number}; 'penstock stat --json' lists them")
        return web.json_response(document)

    async def _explain_destination(self, request: web.Request, asked: Values) -> web.Response:
        number = asked["connection"]
        try:
            document = self._source.explain_destination(asked["name"], number)
        except ValueError as error:
            raise Problem(400, str(error)) from None
        if document is None:
            raise Problem(404, f"no connection {number}; 'penstock stat --json' lists them")
        return web.json_response(document)


_SAYS: Final = {
    "why": "Say what holds it back, in lines for people and as facts.",
    "explain": "Show the origin of each setting.",
}


def _route(
    path: str, take: Take, name: str, answer: Schema, parameters: Fields, permission: Permission = SEES
) -> Route:
    return Route(
        path=path,
        take=take,
        name=name,
        says=_SAYS[path.split("/")[2]],
        permission=permission,
        parameters=parameters,
        answers={200: answer},
        problems=(404,),
    )


def _response(answer: Answer | None, missing: str) -> web.Response:
    if answer is None:
        raise Problem(404, missing)
    return web.json_response({"lines": answer.lines, **answer.facts})
