"""Paths that ActiveMQ's users call already: its message servlet, and reads of Jolokia as monitoring plug-ins make them.

Source: https://activemq.apache.org/components/classic/documentation/rest, https://jolokia.org (protocol 7.2, "read").
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from aiohttp import web

from config.matching import QUEUE, TOPIC
from config.names import QueueName
from engine.values.broker_stats import BrokerStats
from gateway.answers.jolokia import READS_MAX, DiskUse, Jolokia, Read
from gateway.web.client_address import address_of
from gateway.web.connections.http_connection import connection_of
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.resources.messages import (
    BODY_BYTES_MAX,
    LEASE_DEFAULT_MS,
    TTL_MOST_MS,
    WAIT_MOST_MS,
    asking_of,
    queue_in,
)
from gateway.web.rest.messages import LiveMessages
from gateway.web.rest.named_destination import Named
from gateway.web.rest.requests import ACKNOWLEDGE, RELEASE, Outgoing, Took, Watch
from gateway.web.routing.bodies import form_fields, json_document
from gateway.web.routing.fields import Choice, Fields, Text, Whole, shown
from gateway.web.routing.problems import Problem
from gateway.web.routing.routes import SEES, Media, Permission, Route, Values
from gateway.web.routing.schemas import ANY_OBJECT

READ_TIMEOUT_MS: Final = 30_000
TEXT: Final = Media(("text/plain", "application/octet-stream"))
_KINDS: Final = {"queue": QUEUE, "topic": TOPIC}
_OPTIONS: Final = ("clientId", "oneShot", "destination")  # of the servlet; they have no effect here

Sampled = Callable[[], Awaitable[BrokerStats]]


class MessageServlet:
    """``/api/message/NAME?type=queue``: POST sends, GET and DELETE take one message and acknowledge it."""

    """memory: where answers are made."""

    def __init__(self, source: LiveMessages, memory: RequestMemory) -> None:
        self._source = source
        self._memory = memory

    def routes(self) -> list[Route]:
        named = (
            Text("name", "Of the destination."),
            Choice("type", "Kind of the destination.", _KINDS, "topic"),
        )
        taking = (
            *named,
            Whole("readTimeout", "How long to wait for a message, in ms.", 0, WAIT_MOST_MS, READ_TIMEOUT_MS),
            Text("clientId", "Has no effect.", ""),
            Text("oneShot", "Has no effect.", ""),
        )
        return [
            Route(
                method="POST",
                path="/api/message/{name}",
                take=self._send,
                name="servletSend",
                is_traffic=True,
                says="As ActiveMQ's servlet: send the parameter or form field body, or the request's body, as a text.",
                permission=Permission(of_one="write"),
                check=self._check_send,
                parameters=(
                    *named,
                    Text("body", "The text.", None),
                    Choice("JMSDeliveryMode", "How it is kept.", ("persistent", "non_persistent"), "persistent"),
                    Whole("JMSPriority", "Its priority.", 0, 9, 4),
                    Whole("JMSTimeToLive", "In ms, 0 for ever.", 0, TTL_MOST_MS, 0),
                    Text("JMSCorrelationID", "A text.", None),
                    Text("JMSReplyTo", "A destination.", None),
                    Text("JMSType", "A text.", None),
                    Text("JMSXGroupID", "A text.", None),
                    Text("clientId", "Has no effect.", ""),
                ),
                has_more=True,
                raw_body={"text/plain": {}, "application/x-www-form-urlencoded": {}},
                body_bytes_max=BODY_BYTES_MAX,
                answers={200: TEXT},
                problems=(404, 409, 429, 503, 507),
            ),
            *(
                Route(
                    method=method,
                    path="/api/message/{name}",
                    take=self._receive,
                    name=f"servletReceive{method.title()}",
                    says="As ActiveMQ's servlet: take one message and acknowledge it; 204 if none comes in time.",
                    permission=Permission(of_one="read"),
                    parameters=taking,
                    answers={200: TEXT, 204: Media(())},
                    problems=(404, 409, 429, 503, 507),
                    has_head=False,
                    has_effect=True,  # also of a GET
                )
                for method in ("GET", "DELETE")
            ),
        ]

    def _check_send(self, request: web.Request, asked: Values) -> None:
        self._source.require_target(asking_of(request), _destination(asked))

    async def _send(self, request: web.Request, asked: Values) -> web.Response:
        more: dict[str, str] = asked["more"]
        text = asked["body"]
        if text is None and request.content_type == "application/x-www-form-urlencoded":
            given = await form_fields(request)
            text = given.pop("body", None)
            more = {**given, **more}
        octets = await request.read() if text is None else text.encode()
        try:
            octets.decode()
        except UnicodeDecodeError as error:
            raise Problem(400, f"the body is not UTF-8 at octet {error.start}") from None
        members = {
            "correlation_id": "JMSCorrelationID",
            "reply_to": "JMSReplyTo",
            "type": "JMSType",
            "group": "JMSXGroupID",
        }
        outgoing = Outgoing(
            octets,
            True,
            asked["JMSDeliveryMode"] == "persistent",
            asked["JMSPriority"],
            asked["JMSTimeToLive"],
            {member: asked[name] for member, name in members.items() if asked[name] is not None},
            {name: value for name, value in more.items() if name not in _OPTIONS},
        )
        message_id = await self._source.send(asking_of(request), _destination(asked), outgoing)
        return web.Response(text="Message sent", headers={"messageID": message_id or ""})

    async def _receive(self, request: web.Request, asked: Values) -> web.Response:
        asking = asking_of(request)
        took = Took("", 1, asked["readTimeout"], LEASE_DEFAULT_MS, False, "auto")
        watch = Watch(connection_of(request))
        found = await self._source.leases.take(asking, queue_in(_destination(asked)), took, watch)
        if not found:
            return web.Response(status=204)
        message = await self._memory.made(asking.address, lambda: json.loads(found[0]))
        if not message["whole"]:
            await self._source.leases.settle(asking, [message["lease"]], RELEASE)
            raise Problem(409, f"the next message has a body of {message['body_bytes']} octets, too large for HTTP")
        is_there = request.transport is not None and not request.transport.is_closing()
        await self._source.leases.settle(asking, [message["lease"]], ACKNOWLEDGE if is_there else RELEASE)
        # Never as HTML, whatever its sender says: a body could be a script.
        headers = {"id": message["id"], "destination": message["destination"]}
        if "body" in message:
            return web.Response(text=message["body"], headers=headers)
        return web.Response(
            body=base64.b64decode(message["body_base64"]), content_type="application/octet-stream", headers=headers
        )


class JolokiaRoutes:
    """sampled: returns the last sample.  disk_use: returns that of now.  memory: where answers are made."""

    def __init__(self, sampled: Sampled, disk_use: Callable[[], DiskUse | None], memory: RequestMemory) -> None:
        self._sampled = sampled
        self._disk_use = disk_use
        self._memory = memory

    def routes(self) -> list[Route]:
        one = Text(
            "mbean",
            "Of ActiveMQ: org.apache.activemq:type=Broker,brokerName=..., with destinationType and destinationName.",
        )
        attribute = Text("attribute", "One, or several with commas between.")
        asking: tuple[tuple[str, str, Fields], ...] = (
            ("", "Version", ()),
            ("/", "Agent", ()),
            ("/version", "Protocol", ()),
            ("/read/{mbean}", "Read", (one,)),
            ("/read/{mbean}/{attribute}", "ReadAttribute", (one, attribute)),
            ("/search/{mbean}", "Search", (one,)),
        )
        return [
            Route(
                path=f"/api/jolokia{path}",
                take=self._answer,
                name=f"jolokia{name}",
                says="As Jolokia: read attributes of the broker and of queues; an error is in status and error.",
                permission=SEES,
                parameters=parameters,
                has_more=True,
                answers={200: ANY_OBJECT},
            )
            for path, name, parameters in asking
        ] + [
            Route(
                method="POST",
                path=f"/api/jolokia{path}",
                take=self._bulk,
                name=f"jolokia{name}",
                is_traffic=True,  # it only asks
                says="As Jolokia: answer the object, or each object of the array, with type, mbean and attribute.",
                permission=SEES,
                has_more=True,
                raw_body={"application/json": {"type": ["object", "array"], "maxItems": READS_MAX}},
                answers={200: {"type": ["object", "array"]}},
            )
            for path, name in (("", "Bulk"), ("/", "BulkOfAgent"), ("/read", "BulkRead"))
        ]

    async def _answer(self, request: web.Request, asked: Values) -> web.Response:
        names = asked.get("attribute")
        kind = "version" if "mbean" not in asked else "search" if "/search/" in request.path else "read"
        several = tuple(dict.fromkeys(names.split(","))) if names is not None and "," in names else None
        read = Read(asked.get("mbean", ""), several or names, _is_lenient(asked), kind)
        return await self._made(request, lambda answers: answers.answer(read))

    async def _bulk(self, request: web.Request, asked: Values) -> web.Response:
        document = await json_document(request)
        is_lenient = _is_lenient(asked)
        if isinstance(document, dict):
            return await self._made(request, lambda answers: answers.one(document, is_lenient))
        if not isinstance(document, list) or len(document) > READS_MAX:
            raise Problem(400, f"the body is no JSON object and no array of at most {READS_MAX} objects")
        return await self._made(request, lambda answers: answers.bulk(document, is_lenient))

    async def _made(self, request: web.Request, pieces: Callable[[Jolokia], Iterator[str]]) -> web.Response:
        stats = await self._sampled()
        answers = Jolokia(stats, int(time.time()), disk=self._disk_use())
        octets = await self._memory.made(address_of(request), lambda: "".join(pieces(answers)).encode())
        return web.Response(body=octets, content_type="application/json", charset="utf-8")


def _is_lenient(asked: Values) -> bool:
    return bool(asked["more"].get("ignoreErrors", "").lower() == "true")


def _destination(asked: Values) -> Named:
    """Raises: Problem."""
    try:
        name = QueueName().parse(asked["name"])
    except ValueError:
        name = None
    if name is None:
        raise Problem(400, f"name is {shown(asked['name'])}; allowed is {QueueName().allowed}")
    return _KINDS[asked["type"]], name
