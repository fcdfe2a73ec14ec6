"""Text bodies as values of Spark's type VARIANT: the column ``payload``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_bridge.arrow.arrays import binaries, from_numpy
from spark_bridge.arrow.schema import VARIANT
from spark_bridge.arrow.variant import SIZE_MAX, encode


def payload_column(texts: pa.Array) -> pa.Array:
    """Return the VARIANT of each text that is JSON; null for a null and for any other text, see ``variant.encode``."""
    values: list[bytes] = []
    metadata: list[bytes] = []
    is_null = np.zeros(len(texts), dtype=np.bool_)
    for row, text in enumerate(texts):  # one by one, because texts may be large
        octets = text.as_buffer()
        found = None if octets is None or octets.size > SIZE_MAX else encode(text.as_py())
        is_null[row] = found is None
        value, names = found or (b"", b"")
        values.append(value)
        metadata.append(names)
    columns = [binaries(values), binaries(metadata)]
    return pa.StructArray.from_arrays(columns, fields=list(VARIANT), mask=from_numpy(is_null))
