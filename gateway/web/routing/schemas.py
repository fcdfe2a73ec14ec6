"""JSON Schema of answers, for ``/api/openapi.json``; that of dataclasses is made from their fields."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, Final, Union, get_args, get_origin

from gateway.web.routing.fields import Schema

INTEGER: Final[Schema] = {"type": "integer"}
NUMBER: Final[Schema] = {"type": "number"}
STRING: Final[Schema] = {"type": "string"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
ANY_OBJECT: Final[Schema] = {"type": "object"}
ANYTHING: Final[Schema] = {}

_PLAIN: Final[dict[Any, Schema]] = {int: INTEGER, str: STRING, bool: BOOLEAN, float: NUMBER, Any: ANYTHING}


def listed(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def mapped(values: Schema) -> Schema:
    """Return the schema of an object whose names are data."""
    return {"type": "object", "additionalProperties": values}


def members(**properties: Schema) -> Schema:
    """Return the schema of an object that has exactly these members."""
    return closed(dict(properties))


def closed(properties: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    """Return the same for names that are no identifiers.  optional: members that may be missing."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def schema_of(kind: Any) -> Schema:
    """Return the schema of a dataclass as ``dataclasses.asdict`` makes it, or of the type of one of its fields."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return closed({one.name: schema_of(hints[one.name]) for one in dataclasses.fields(kind)})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (list, tuple):
        return listed(schema_of(arguments[0]))
    if origin is dict:
        return mapped(schema_of(arguments[1]))
    assert origin in (Union, types.UnionType), f"no schema for {kind}"
    return {"anyOf": [{"type": "null"} if one is type(None) else schema_of(one) for one in arguments]}
