"""The option ``where``: the rows of a read, by comparisons joined with AND.

    destination = 'queue://orders' AND store_time >= '2026-11-23T09:00:00Z' AND delivery_state IN ('pending', 'expired')

The values are texts, whole numbers, and times and dates as texts.  As in SQL, no comparison holds for null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_bridge.arrow.schema import SCHEMAS, TIMESTAMP

IN: Final = "IN"
COMPARED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
ALLOWED: Final = "comparisons (=, <>, <, <=, >, >=, IN) of columns with values, joined by AND"
TEXT: Final = str(pa.string())
TIME: Final = str(TIMESTAMP)
DATE: Final = str(pa.date32())
NUMBER: Final = "number"
ALLOWED_VALUES: Final = {
    TEXT: "a text in quotes",
    TIME: "a time such as '2026-11-23T09:00:00Z', or milliseconds since 1970",
    DATE: "a date such as '2026-11-23'",
    NUMBER: "a whole number",
}
_VALUE: Final = r"(?:'[^']*(?:''[^']*)*'|-?\d{1,18}\b)"
_COMPARISON: Final = re.compile(
    rf"\s*(?P<column>\w+)\s*(?:(?P<operator>=|<>|<=|>=|<|>)\s*(?P<value>{_VALUE})"
    rf"|\bIN\s*\((?P<values>\s*{_VALUE}\s*(?:,\s*{_VALUE}\s*)*)\))\s*(?P<end>$|\bAND\b)",
    re.IGNORECASE | re.ASCII,
)

Value = str | int | date


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a column.  operator: of COMPARED, with one value, or IN.  Times have a zone."""

    column: str
    operator: str
    values: tuple[Value, ...]

    def holds(self, batch: pa.RecordBatch) -> pa.Array:
        """Return for which rows it holds; null where the column is null."""
        column = batch.column(self.column)
        of_type = pa.int64() if pa.types.is_integer(column.type) else column.type
        alternatives = [pa.scalar(value, of_type) for value in self.values]
        compare = COMPARED["=" if self.operator == IN else self.operator]
        return reduce(pc.or_, [compare(column, each) for each in alternatives])


def parse(text: str, table: str) -> tuple[Condition, ...]:
    """Parse the option; "" has no conditions.  Raises: ValueError with what is not understood."""
    found: list[Condition] = []
    at = 0
    end = "AND" if text.strip() else ""
    while end:
        match = _COMPARISON.match(text, at)
        if match is None:
            rest = text[at : at + 80].strip()
            raise ValueError(f"option 'where' is not understood from {rest!r} on; it takes {ALLOWED}")
        column, end, at = match["column"], match["end"], match.end()
        written = re.findall(_VALUE, match["values"] or match["value"], re.ASCII)
        values = tuple(_value(column, each, table) for each in written)
        found.append(Condition(column, match["operator"] or IN, values))
    return tuple(found)


def _value(column: str, written: str, table: str) -> Value:
    schema = SCHEMAS[table]
    names = [field.name for field in schema if _kind(field.type) in ALLOWED_VALUES]
    if column not in names:
        raise ValueError(f"option 'where': {column!r} cannot be compared; of {table} these can: {', '.join(names)}")
    kind, is_text = _kind(schema.field(column).type), written.startswith("'")
    text = written[1:-1].replace("''", "'") if is_text else written
    try:
        if kind == TIME:
            return with_zone(datetime.fromisoformat(text)) if is_text else EPOCH + timedelta(milliseconds=int(text))
        if kind == NUMBER and not is_text:
            return int(text)
        if kind == DATE and is_text:
            return date.fromisoformat(text)
    except (ValueError, OverflowError):
        pass
    if kind == TEXT and is_text:
        return text
    raise ValueError(f"option 'where': {column} is compared with {written}; it takes {ALLOWED_VALUES[kind]}")


def _kind(of_type: pa.DataType) -> str:
    return NUMBER if pa.types.is_integer(of_type) else str(of_type)


def with_zone(time: datetime) -> datetime:
    """Return the time; without a zone it is UTC, as in the commands."""
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def chosen_rows(
    batches: Iterator[pa.RecordBatch], conditions: Sequence[Condition], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows for which all conditions hold, with some of their columns."""
    for batch in batches:
        found = batch.filter(reduce(pc.and_, [each.holds(batch) for each in conditions]))
        if len(found):
            yield found.select(list(columns))
