"""The description of the API, OpenAPI 3.1, made from the table of routes.  Source: https://spec.openapis.org/oas/v3.1"""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final

from aiohttp import web

from gateway.web.routing.fields import Field, Schema, described, object_schema
from gateway.web.routing.problems import CONTENT_TYPE
from gateway.web.routing.routes import LOGIN, Media, Route, Values
from gateway.web.routing.schemas import ANY_OBJECT, INTEGER, STRING, closed

VERSION: Final = "3.1.0"
PROBLEM: Final[Schema] = closed(
    {
        **dict.fromkeys(("type", "title", "detail", "condition"), STRING),
        "status": INTEGER,
        "before": {**INTEGER, "description": "Of a search that has found nothing: where the next one begins."},
    },
    optional=("before",),
)
INTRODUCTION: Final = (
    "Messages, destinations and consumers of a Penstock gateway, and its operation. Every error is a problem document "
    "(RFC 9457): detail says what was seen and what is allowed, condition is a stable word. Host must be a literal IP "
    "address, localhost or the configured host; Origin, if sent, must be the same."
)
_OF_EVERY_ROUTE: Final = (400, 403, 500)


def description(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if not route.is_hidden:
            paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": VERSION,
        "info": {"title": "Penstock", "version": version("penstock"), "description": INTRODUCTION},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {"Problem": PROBLEM},
            "responses": {str(status): _problem(status) for status in sorted(_statuses(routes))},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "token": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def description_route(routes: list[Route]) -> Route:
    """Return the route of the document; it describes itself, too."""
    octets = b""

    async def take(request: web.Request, asked: Values) -> web.Response:
        return web.Response(body=octets, content_type="application/json")

    own = Route(
        path="/api/openapi.json",
        take=take,
        name="description",
        says="Return this description.",
        permission=LOGIN,
        answers={200: ANY_OBJECT},
    )
    octets = json.dumps(description([*routes, own])).encode()
    return own


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.says,
        "description": route.permission.says() + (" Other parameters are taken, too." if route.has_more else ""),
        "parameters": [_parameter(route, one) for one in route.parameters],
        "responses": {
            **{str(status): _answer(status, content) for status, content in route.answers.items()},
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in _problems_of(route)},
        },
        # A gateway without users asks for no login.
        "security": [{"basic": []}, {"token": []}, {}] if route.permission.needs_login else [],
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": object_schema(route.body)}},
        }
    elif route.raw_body:
        operation["requestBody"] = {
            "content": {kind: {"schema": schema} for kind, schema in route.raw_body.items()},
        }
    return operation


def _parameter(route: Route, field: Field[Any]) -> dict[str, Any]:
    is_in_path = route.in_path(field.name)
    schema = described(field, is_text=True)
    says = schema.pop("description")
    return {
        "name": field.name,
        "in": "path" if is_in_path else "query",
        "required": is_in_path or field.is_required,
        "description": says,
        "schema": schema,
    }


def _answer(status: int, content: Schema | Media) -> dict[str, Any]:
    says = HTTPStatus(status).phrase
    if isinstance(content, Media) and not content.content_types:
        return {"description": says}
    if isinstance(content, Media):
        return {"description": says, "content": {kind: {} for kind in content.content_types}}
    return {"description": says, "content": {"application/json": {"schema": content}}}


def _problems_of(route: Route) -> list[int]:
    login = (401,) if route.permission.needs_login else ()
    body = (413, 415) if route.body is not None or route.raw_body else ()
    return sorted({*_OF_EVERY_ROUTE, *login, *body, *route.problems} - set(route.answers))


def _statuses(routes: Sequence[Route]) -> set[int]:
    return {status for route in routes if not route.is_hidden for status in _problems_of(route)}


def _problem(status: int) -> dict[str, Any]:
    content = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": HTTPStatus(status).phrase, "content": content}
