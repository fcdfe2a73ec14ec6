"""Bodies as columns: texts as strings, others as octets.

A body is text if it is UTF-8, and its sender said so: by its JMS type or its content-type.  Many STOMP clients write a
content-length and no content-type whatever they send; such a body is text unless it has a NUL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from protocols.amqp.v1_0.mapping.stomp_content import BINARY, is_textual
from protocols.message_lines import BODY_HEADER
from spark_bridge.arrow.arrays import Booleans, from_numpy, to_numpy

AS_TEXT: Final = "text"  # a text is a string, another body is octets
AS_BINARY: Final = "binary"  # every body is octets
AS_BOTH: Final = "both"  # every body is octets, and a text is also a string
FORMS: Final = (AS_TEXT, AS_BINARY, AS_BOTH)

HEADERS: Final = ("content-type", BODY_HEADER)


def body_columns(
    bodies: pa.Array, is_declared: Booleans, named: dict[str, pa.Array], form: str
) -> tuple[pa.Array, pa.Array]:
    """Return ``body`` and ``body_text``.

    is_declared: the messages whose JMS type is text.  named: a column for each of HEADERS.  form: one of FORMS.
    """
    if form == AS_BINARY:
        return bodies, pa.nulls(len(bodies), pa.string())
    is_text = is_declared | _has_textual_type(bodies, named)
    texts = bodies if is_text.all() else bodies.take(from_numpy(np.flatnonzero(is_text)))
    try:
        strings = texts.cast(pa.string())
    except pa.ArrowInvalid:
        is_valid = np.array([_is_utf_8(body) for body in texts.to_pylist()], dtype=np.bool_)
        is_text[np.flatnonzero(is_text)[~is_valid]] = False
        strings = texts.take(from_numpy(np.flatnonzero(is_valid))).cast(pa.string())
    octets = bodies if form == AS_BOTH else _only(bodies, ~is_text)
    if len(strings) < len(bodies):
        strings = strings.take(from_numpy(np.cumsum(is_text) - 1, ~is_text))
    return octets, strings


def _only(bodies: pa.Array, is_kept: Booleans) -> pa.Array:
    if not is_kept.any():
        return pa.nulls(len(bodies), pa.binary())
    return bodies.take(from_numpy(np.arange(len(bodies)), ~is_kept))


def _has_textual_type(bodies: pa.Array, named: dict[str, pa.Array]) -> Booleans:
    types = named["content-type"]
    found = _where(types, is_textual)
    if types.null_count:
        has_nul = _booleans(pc.match_substring(bodies, "\0"))
        found |= _booleans(types.is_null()) & ~has_nul & ~_where(named[BODY_HEADER], BINARY.__eq__)
    return found


def _where(texts: pa.Array, is_wanted: Callable[[str], bool]) -> Booleans:
    """Return which texts are wanted, asking once for equal ones; a null is not."""
    if texts.null_count == len(texts):
        return np.zeros(len(texts), dtype=np.bool_)
    encoded = texts.dictionary_encode()
    wanted = np.array([is_wanted(text) for text in encoded.dictionary.to_pylist()], dtype=np.bool_)
    # Without ``fill_null`` and its like, which would import pandas.
    codes = np.where(_booleans(texts.is_valid()), to_numpy(encoded.indices), 0)
    found: Booleans = wanted[codes] & _booleans(texts.is_valid())
    return found


def _booleans(values: pa.Array) -> Booleans:
    return to_numpy(values.cast(pa.uint8())).astype(np.bool_)  # its own ``to_numpy`` would, too


def _is_utf_8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
