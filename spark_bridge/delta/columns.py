"""Arrow's columns -> the schema of a Delta table (Delta transaction log protocol, "Schema Serialization Format")."""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa

PRIMITIVES: Final[dict[pa.DataType, str]] = {
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


def schema_text(schema: pa.Schema, earlier: str = "") -> str:
    """Return the schema as JSON; fields that only ``earlier``, the table's present one, has follow those of ours."""
    fields = [_field(field) for field in schema]
    names = set(schema.names)
    if earlier:
        fields += [field for field in json.loads(earlier)["fields"] if field["name"] not in names]
    return json.dumps({"type": "struct", "fields": fields})


def _field(field: pa.Field) -> dict[str, Any]:
    return {"name": field.name, "type": _type(field.type), "nullable": True, "metadata": {}}


def _type(kind: pa.DataType) -> str | dict[str, Any]:
    if pa.types.is_map(kind):
        key, value = _type(kind.key_type), _type(kind.item_type)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_field(kind.field(at)) for at in range(kind.num_fields)]}
    return PRIMITIVES[kind]
