"""Messages over HTTP: send, browse page by page, look at one, take with a lease, settle (docs/reference/rest.md)."""

from __future__ import annotations

import base64
import json
from typing import Final

from aiohttp import web

from config.matching import QUEUE
from gateway.answers.message_document import BODY_FORMS, FIELDS
from gateway.web.client_address import address_of
from gateway.web.connections.http_connection import connection_of
from gateway.web.rest.messages import LiveMessages
from gateway.web.rest.named_destination import Named
from gateway.web.rest.requests import (
    ACKNOWLEDGE,
    LEASE_MOST,
    OUTCOMES,
    Asking,
    Outgoing,
    Page,
    Took,
    Watch,
)
from gateway.web.rest.trace_context import trace_properties
from gateway.web.routing.bodies import refuse_charset
from gateway.web.routing.credentials import external_groups, login_of
from gateway.web.routing.fields import (
    Anything,
    Choice,
    Destination,
    Fields,
    Flag,
    Properties,
    Text,
    Texts,
    Whole,
    shown,
)
from gateway.web.routing.problems import Problem
from gateway.web.routing.routes import Permission, Route, Values
from gateway.web.routing.schemas import ANYTHING, BOOLEAN, INTEGER, STRING, closed, listed, mapped, members, or_null

BODY_BYTES_MAX: Final = 1024 * 1024  # of a request that sends
PAGE_MOST: Final = 500
PAGE_DEFAULT: Final = 50
TAKE_MOST: Final = 100
WAIT_MOST_MS: Final = 60_000
LEASE_LEAST_MS: Final = 1_000
LEASE_DEFAULT_MS: Final = 30_000
LEASE_MOST_MS: Final = 3_600_000
TTL_MOST_MS: Final = 2**53
FIELD_CHARACTERS: Final = 4_096

PROPERTY: Final = {"type": ["string", "number", "boolean"]}
_MESSAGE: Final = {
    "id": STRING,
    "destination": STRING,
    "store_time_ms": INTEGER,
    "persistent": BOOLEAN,
    "priority": INTEGER,
    "expires_ms": INTEGER,
    **{name: or_null(STRING) for name in FIELDS},
    "properties": mapped(PROPERTY),
    "annotations": mapped(STRING),
    "body_bytes": INTEGER,
    "whole": BOOLEAN,
    "body": STRING,
    "body_json": ANYTHING,
    "body_base64": STRING,
}
_BODIES: Final = ("body", "body_json", "body_base64")
MESSAGE: Final = closed(_MESSAGE, optional=_BODIES)
TAKEN: Final = closed(
    {**_MESSAGE, "lease": STRING, "redelivered": BOOLEAN, "delivery_count": INTEGER}, optional=_BODIES
)

_FIELDS_SAID: Final = {
    "correlation_id": "JMSCorrelationID.",
    "reply_to": "JMSReplyTo: a queue or topic that lasts.",
    "type": "JMSType.",
    "group": "JMSXGroupID.",
    "content_type": "Content type of the body, for receivers.",
}
_SENT: Final[Fields] = (
    Flag("persistent", "Answered once the message is durable.", True),
    Whole("priority", "JMSPriority.", 0, 9, 4),
    Whole("ttl_ms", "The message expires after this time; 0 for never.", 0, TTL_MOST_MS, 0),
    *(Text(name, _FIELDS_SAID[name], None, FIELD_CHARACTERS) for name in FIELDS if name != "content_type"),
    Properties("properties", "Properties for selectors and receivers, with their types."),
)
_BODY_FORM: Final = Choice("body", "Form of the body; auto: text if it is one, else base64.", BODY_FORMS, "auto")
_DESTINATION: Final = Destination("destination", "Which one; in a path its slashes are written %2F.")
_FILTER: Final = Text("filter", "Which messages.", "", FIELD_CHARACTERS, "a JMS selector, empty for all")


class MessageRoutes:
    def __init__(self, source: LiveMessages) -> None:
        self._source = source

    async def stop(self, application: web.Application) -> None:
        self._source.stop()

    def routes(self) -> list[Route]:
        return [*self._sending(), *self._looking(), *self._taking()]

    def _sending(self) -> list[Route]:
        sent = members(id=or_null(STRING))
        return [
            Route(
                method="POST",
                path="/api/destinations/{destination}/messages",
                take=self._send,
                name="send",
                is_traffic=True,
                says="Send a message; answered once it is durable.",
                permission=Permission(of_one="write"),
                check=self._check_send,
                parameters=(_DESTINATION,),
                body=(
                    Text("body", "A text; only one of the three bodies.", None),
                    Anything("body_json", "A JSON value, sent as its text."),
                    Text("body_base64", "Octets, in base64.", None),
                    *_SENT,
                    Text("content_type", _FIELDS_SAID["content_type"], None, FIELD_CHARACTERS),
                ),
                answers={201: sent},
                problems=(404, 409, 429, 503, 507),
                body_bytes_max=BODY_BYTES_MAX,
            ),
            Route(
                method="POST",
                path="/api/destinations/{destination}/body",
                take=self._send_raw,
                name="sendBody",
                is_traffic=True,
                says="Send the request's body as a message: a text if its Content-Type is text or JSON, else octets.",
                permission=Permission(of_one="write"),
                check=self._check_send,
                parameters=(_DESTINATION, *_SENT),
                raw_body={"application/octet-stream": {}, "text/plain": STRING},
                answers={201: sent},
                problems=(404, 409, 429, 503, 507),
                body_bytes_max=BODY_BYTES_MAX,
            ),
        ]

    def _looking(self) -> list[Route]:
        page = members(messages=listed(MESSAGE), next=STRING)
        limit = Whole("limit", "Messages of a page.", 1, PAGE_MOST, PAGE_DEFAULT)
        return [
            Route(
                path="/api/destinations/{destination}/messages",
                take=self._browse,
                name="browse",
                says="Return the first page of what waits in a queue, as it is now.",
                permission=Permission(of_one="browse"),
                parameters=(_DESTINATION, _FILTER, limit, _BODY_FORM),
                answers={200: page},
                problems=(404, 429, 503),
                has_head=False,  # it would open a cursor that nobody learns of
            ),
            Route(
                path="/api/cursors/{cursor}",
                take=self._browse_on,
                name="browseOn",
                says="Return the next page: next of the last one leads to it, once, for a minute.",
                permission=Permission(of_one="browse"),
                parameters=(Text("cursor", "next of the last page."), limit),
                answers={200: page},
                problems=(404, 503),
                has_head=False,  # it would use the cursor up
            ),
            Route(
                path="/api/messages/{id}",
                take=self._message,
                name="message",
                says="Return a message that the log has, also one that is settled.",
                permission=Permission(of_one="read"),
                parameters=(Text("id", "JMSMessageID."), _BODY_FORM),
                answers={200: MESSAGE},
                problems=(404,),
            ),
        ]

    def _taking(self) -> list[Route]:
        lease = Whole(
            "lease_ms", "Unsettled messages return after this time.", LEASE_LEAST_MS, LEASE_MOST_MS, LEASE_DEFAULT_MS
        )
        return [
            Route(
                method="POST",
                path="/api/destinations/{destination}/take",
                take=self._take,
                name="take",
                is_traffic=True,
                says="Take messages of a queue with a lease; wait for the first one.",
                permission=Permission(of_one="read"),
                parameters=(
                    _DESTINATION,
                    _FILTER,
                    Whole("count", "Messages at most.", 1, TAKE_MOST, 1),
                    Whole("wait_ms", "How long to wait for the first one.", 0, WAIT_MOST_MS, 0),
                    lease,
                    Flag("ends_with_connection", "They return also when the connection of this request ends."),
                    _BODY_FORM,
                ),
                answers={200: members(messages=listed(TAKEN))},
                problems=(409, 429, 503),
            ),
            Route(
                method="POST",
                path="/api/settle",
                take=self._settle,
                name="settle",
                is_traffic=True,
                says="Settle messages by their leases; answered once that is durable.",
                permission=Permission(of_one="read"),
                body=(
                    Texts("leases", "Of the messages.", LEASE_MOST),
                    Choice(
                        "outcome",
                        "release: back to its place, not counted; fail: counted, and redelivered by the policy; "
                        "dead-letter: at once.",
                        OUTCOMES,
                        ACKNOWLEDGE,
                    ),
                ),
                answers={200: members(settled=INTEGER, unknown=listed(STRING))},
                problems=(507,),
            ),
        ]

    # -- answers

    def _check_send(self, request: web.Request, asked: Values) -> None:
        self._source.require_target(asking_of(request), asked["destination"])

    async def _send(self, request: web.Request, asked: Values) -> web.Response:
        given = [name for name in _BODIES if asked[name] is not None]
        if len(given) > 1:
            raise Problem(400, f"{' and '.join(given)} are given; allowed is one of {', '.join(_BODIES)}, or none")
        body, is_text = _body_of(asked)
        return await self._sent(request, asked, body, is_text, asked["content_type"])

    async def _send_raw(self, request: web.Request, asked: Values) -> web.Response:
        body = await request.read()
        kind = request.content_type
        is_text = kind.startswith("text/") or kind == "application/json"
        if is_text:
            refuse_charset(request)
            try:
                body.decode()
            except UnicodeDecodeError as error:
                raise Problem(400, f"the body is {kind} but not UTF-8 at octet {error.start}") from None
        return await self._sent(request, asked, body, is_text, kind if "Content-Type" in request.headers else None)

    async def _sent(
        self, request: web.Request, asked: Values, body: bytes, is_text: bool, content_type: str | None
    ) -> web.Response:
        fields = {**{name: asked.get(name) for name in FIELDS}, "content_type": content_type}
        outgoing = Outgoing(
            body,
            is_text,
            asked["persistent"],
            asked["priority"],
            asked["ttl_ms"],
            {name: text for name, text in fields.items() if text is not None},
            {**trace_properties(request.headers), **asked["properties"]},
        )
        message_id = await self._source.send(asking_of(request), asked["destination"], outgoing)
        return web.json_response({"id": message_id}, status=201)

    async def _browse(self, request: web.Request, asked: Values) -> web.Response:
        name = queue_in(asked["destination"])
        asking = asking_of(request)
        return _page(await self._source.browsing.browse(asking, name, asked["filter"], asked["limit"], asked["body"]))

    async def _browse_on(self, request: web.Request, asked: Values) -> web.Response:
        return _page(await self._source.browsing.browse_on(asking_of(request), asked["cursor"], asked["limit"]))

    async def _message(self, request: web.Request, asked: Values) -> web.Response:
        return _json(await self._source.message(asking_of(request), asked["id"], asked["body"]))

    async def _take(self, request: web.Request, asked: Values) -> web.Response:
        name = queue_in(asked["destination"])
        asking = asking_of(request)
        took = Took(
            asked["filter"],
            asked["count"],
            asked["wait_ms"],
            asked["lease_ms"],
            asked["ends_with_connection"],
            asked["body"],
        )
        found = await self._source.leases.take(asking, name, took, Watch(connection_of(request)))
        return _json(b'{"messages": [%b]}' % b", ".join(found))

    async def _settle(self, request: web.Request, asked: Values) -> web.Response:
        settled = await self._source.leases.settle(asking_of(request), asked["leases"], asked["outcome"])
        return web.json_response(settled)


def asking_of(request: web.Request) -> Asking:
    return Asking(login_of(request), address_of(request), external_groups())


def _page(page: Page) -> web.Response:
    return _json(b'{"messages": [%b], "next": %b}' % (b", ".join(page.documents), json.dumps(page.next).encode()))


def _json(octets: bytes) -> web.Response:
    return web.Response(body=octets, content_type="application/json", charset="utf-8")


def queue_in(destination: Named) -> str:
    """Return the name of a queue.  Raises: Problem for a topic."""
    kind, name = destination
    if kind != QUEUE:
        raise Problem(400, "destination is a topic, which keeps no messages; allowed is a queue")
    return name


def _body_of(asked: Values) -> tuple[bytes, bool]:
    """Take the body out of a request's values, because parsed JSON takes much memory while the message is sent.

    Return its octets, and whether they are a text.  Raises: Problem.
    """
    text, parsed, in_base64 = (asked.pop(name) for name in _BODIES)
    if in_base64 is not None:
        try:
            return base64.b64decode(in_base64, validate=True), False
        except ValueError:
            raise Problem(400, f"body_base64 is {shown(in_base64)}; allowed is base64") from None
    text = text or ""
    if parsed is not None:
        text = json.dumps(parsed, ensure_ascii=False)
    try:
        return text.encode(), True
    except UnicodeEncodeError:
        raise Problem(400, "the body has half of a surrogate pair; allowed is Unicode text") from None
