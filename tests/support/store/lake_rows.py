"""What the bridge makes of a store, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from engine.store.read.reader import StoreReader
from engine.store.read.selection import parse
from spark_bridge.arrow.schema import MESSAGES
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import make_plan

# What Scenarios.java sends as ``jms.typedProperties``: type, field and value.
TYPED_PROPERTIES: Final = {
    "yes": ("boolean", "boolean", True),
    "byte": ("byte", "long", 1),
    "short": ("short", "long", 2),
    "int": ("int", "long", 3),
    "long": ("long", "long", 4),
    "float": ("float", "double", 1.5),
    "double": ("double", "double", 2.5),
    "text": ("string", "string", "five"),
}


def typed_properties(row: dict[str, Any]) -> dict[str, tuple[str, str, Any]]:
    """Return the properties of a row: type, field and value."""
    found = {}
    for name, struct in dict(row["properties"]).items():
        ((field, value),) = ((key, one) for key, one in struct.items() if key != "type" and one is not None)
        found[name] = (struct["type"], field, value)
    return found


def lake_rows(directory: Path, pattern: str, table: str = MESSAGES) -> list[dict[str, Any]]:
    """Return the rows of all chosen destinations, in the order of the log."""
    plan = make_plan(StoreReader(directory), parse(pattern), tables=(table,))
    return [row for pieces in plan.partitions for batch in read_pieces(plan, pieces) for row in batch.to_pylist()]
