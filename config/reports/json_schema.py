"""penstock.yaml for editors: a JSON schema generated from the tables by which the file is read."""

from __future__ import annotations

import operator
from typing import Final

from config.address_schema import ADDRESS
from config.model import ServerConfig, VirtualTopic
from config.names import AccessTokenText, AddressPattern, DestinationName, GroupName, QueuePrefix, Verifier
from config.policies import DEFAULT_ADDRESS_SETTINGS
from config.schema import ADMIN, ADMIN_PARTS, GRANTS, GROUP_KEY, SERVER, UNITES_KEY, Leaf, Tree
from config.values import JsonSchema

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_KINDS: Final[JsonSchema] = {"enum": ["queue", "topic", "both"], "default": "both"}


def build() -> JsonSchema:
    """Return the schema of a whole file."""
    properties = _properties(SERVER, ServerConfig())
    properties["users"] = {"type": "object", "additionalProperties": _user()}
    properties["permissions"] = _list_of(_permission())
    properties["virtual-topics"] = _list_of(_virtual_topic())
    properties["destinations"] = _list_of(DestinationName().json_schema())
    group = GroupName().json_schema()
    properties["addresses"] = _list_of(_entry({GROUP_KEY: group, **_properties(ADDRESS, DEFAULT_ADDRESS_SETTINGS)}))
    return {"$schema": DIALECT, "title": "penstock.yaml", **_object(properties)}


def _properties(tree: Tree, defaults: object) -> dict[str, JsonSchema]:
    found: dict[str, JsonSchema] = {}
    for key, at in tree.items():
        if isinstance(at, Leaf):
            found[key] = at.kind.json_schema()
            if not at.is_alias:
                value = operator.attrgetter(at.path)(defaults)
                is_plain = value is None or isinstance(value, bool | int | float | str)
                found[key] = {**found[key], "default": value if is_plain else at.kind.show(value)}
        else:
            found[key] = _object(_properties(at, defaults))
    return found


def _object(properties: dict[str, JsonSchema], *required: str) -> JsonSchema:
    # Null means nothing: everything below the key is commented out.
    schema: JsonSchema = {"type": ["object", "null"], "additionalProperties": False, "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def _list_of(items: JsonSchema) -> JsonSchema:
    return {"type": ["array", "null"], "items": items}


def _entry(properties: dict[str, JsonSchema]) -> JsonSchema:
    return _object({"match": AddressPattern().json_schema(), "kind": _KINDS, **properties}, "match")


def _user() -> JsonSchema:
    return _object(
        {
            "verifiers": {"type": "array", "minItems": 1, "items": Verifier().json_schema()},
            "groups": _names(),
            "access-tokens": {"type": "array", "items": AccessTokenText().json_schema()},
        },
        "verifiers",
    )


def _names() -> JsonSchema:
    name = GroupName().json_schema()
    return {"anyOf": [name, {"type": "array", "items": name}]}


def _permission() -> JsonSchema:
    entry = _entry({UNITES_KEY: {"type": "boolean", "default": False}, **{key: _names() for key in GRANTS}})
    # Those are two ways to grant the same.
    both = {"required": [ADMIN], "anyOf": [{"required": [key]} for key in ADMIN_PARTS]}
    return {**entry, "not": both}


def _virtual_topic() -> JsonSchema:
    default = VirtualTopic()
    return _object(
        {
            "match": {**AddressPattern().json_schema(), "default": default.pattern},
            "prefix": {**QueuePrefix().json_schema(), "default": default.prefix},
            "selective": {"type": "boolean", "default": default.is_selective},
        }
    )
