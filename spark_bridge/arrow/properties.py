"""JMS properties with their types: a map from each name to a struct that names the type and has the value.

Properties are the headers that are not about the message itself; ``amqp-property-types`` has their types, and without
it they are strings, as in ActiveMQ.  Source of the types: AMQP JMS mapping, 3.3.  Decision 57.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from protocols.amqp.v1_0.mapping.property_types import typed_property
from protocols.amqp.v1_0.mapping.stomp_headers import is_property
from protocols.message_lines import named_types
from spark_bridge.arrow.arrays import Booleans, from_numpy, strings, to_numpy
from spark_bridge.arrow.schema import PROPERTY, PROPERTY_MAP

Int64s = np.ndarray[Any, np.dtype[np.int64]]

STRING: Final = "string"
# Types of AMQP that a JMS client sees as another one; of the others the names are those of JMS.
JMS_TYPES: Final = {
    "ubyte": "short",
    "ushort": "int",
    "uint": "long",
    "ulong": "long",
    "timestamp": "long",
    "char": STRING,
    "symbol": STRING,
    "binary": STRING,
    "uuid": STRING,
}
NAMES: Final = (STRING, "boolean", "byte", "short", "int", "long", "float", "double")
CODES: Final = {name: code for code, name in enumerate(NAMES)}
BOOLEAN: Final = CODES["boolean"]
FLOAT: Final = CODES["float"]
LONG_LEAST, LONG_MOST = -(1 << 63), (1 << 63) - 1


def property_column(headers: pa.Array, types: pa.Array) -> pa.Array:
    """Return the properties of each message.

    headers: the map column.  types: the header ``amqp-property-types``, null without it.
    """
    encoded = headers.keys.dictionary_encode()
    codes = to_numpy(encoded.indices).astype(np.int64)
    names = encoded.dictionary.to_pylist()
    is_kept = np.array([is_property(name) for name in names], dtype=np.bool_)[codes]
    lines = np.flatnonzero(is_kept)
    before = np.concatenate([[0], np.cumsum(is_kept)])
    offsets = before[to_numpy(headers.offsets)]
    texts = headers.items.take(from_numpy(lines))
    kinds = _kinds(types, names, codes[lines], np.repeat(np.arange(len(headers)), np.diff(offsets)))
    values = _values(texts, kinds)
    return pa.MapArray.from_arrays(
        from_numpy(offsets.astype(np.int32)), headers.keys.take(from_numpy(lines)), values, type=PROPERTY_MAP
    )


def _kinds(types: pa.Array, names: list[str], codes: Int64s, rows: Int64s) -> list[str] | None:
    """Return the type of AMQP of each property, None if all are strings.  codes: of its name.  rows: its message."""
    if types.null_count == len(types):
        return None
    encoded = types.dictionary_encode()
    of_each = [named_types(text) for text in encoded.dictionary.to_pylist()]
    which = np.where(to_numpy(types.is_valid().cast(pa.uint8())) > 0, to_numpy(encoded.indices), -1)[rows]
    return [
        STRING if one < 0 else of_each[one].get(names[code], STRING)
        for one, code in zip(which.tolist(), codes.tolist(), strict=True)
    ]


def _values(texts: pa.Array, kinds: list[str] | None) -> pa.Array:
    count = len(texts)
    codes = np.zeros(count, dtype=np.int8)
    longs = np.zeros(count, dtype=np.int64)
    doubles = np.zeros(count, dtype=np.float64)
    booleans = np.zeros(count, dtype=np.bool_)
    if kinds is not None:
        for at, (kind, text) in enumerate(zip(kinds, texts.to_pylist(), strict=True)):
            if kind == STRING:
                continue
            value = typed_property(text, kind)
            code = CODES.get(JMS_TYPES.get(kind, kind), 0)
            if isinstance(value, bool):
                booleans[at] = value
            elif isinstance(value, int) and LONG_LEAST <= value <= LONG_MOST:
                longs[at] = value
            elif isinstance(value, float):
                doubles[at] = value
            else:
                code = 0
            codes[at] = code
    is_text = codes == 0
    is_long = (codes > BOOLEAN) & (codes < FLOAT)
    columns = {
        "type": strings(list(NAMES)).take(from_numpy(codes)),
        "boolean": _where(codes == BOOLEAN, booleans, pa.bool_()),
        "long": _where(is_long, longs, pa.int64()),
        "double": _where(codes >= FLOAT, doubles, pa.float64()),
        STRING: texts if is_text.all() else texts.take(from_numpy(np.arange(count), ~is_text)),
    }
    return pa.StructArray.from_arrays([columns[field.name] for field in PROPERTY], fields=list(PROPERTY))


def _where(is_there: Booleans, values: np.ndarray[Any, np.dtype[Any]], arrow_type: pa.DataType) -> pa.Array:
    return from_numpy(values, ~is_there) if is_there.any() else pa.nulls(len(values), arrow_type)
