"""What a reader of a table needs of it, by the conditions of ``where``, which are evaluated once more on its rows.

So anything may be left out here that no condition wants, and nothing has to be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final

import numpy as np

from spark_bridge.arrow.columns import DAY_MS, states_of
from spark_bridge.arrow.schema import DELIVERIES
from spark_bridge.log.heads import Heads
from spark_bridge.log.records import Flags
from spark_bridge.log.settlements import OUTCOME_MASK, STATE_NAMES, Settled
from spark_bridge.read.where import EPOCH, IN, Condition

EQUAL: Final = ("=", IN)
LEAST: Final = (">", ">=")
MOST: Final = ("<", "<=")
OF_DESTINATION: Final = ("destination", "destination_kind", "destination_name")
STATE: Final = "delivery_state"
ENDLESS: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Rows from log offset ``start`` to below ``stop``, from store time ``from_ms`` to below ``to_ms``.

    only: of a column of texts, the values that count.  offsets: those that count, None for all.
    """

    start: int = 0
    stop: int = ENDLESS
    from_ms: int = 0
    to_ms: int = ENDLESS
    only: tuple[tuple[str, frozenset[str]], ...] = ()
    offsets: frozenset[int] | None = None

    def destinations(self) -> tuple[tuple[str, frozenset[str]], ...]:
        """Return what counts of the columns of destinations, see ``Selection.only``."""
        return tuple(each for each in self.only if each[0] != STATE)

    def rows(self, heads: Heads, topics: list[int], settled: dict[int, Settled]) -> Flags:
        """Return which messages are wanted, leaving their destinations and the range of offsets aside.

        topics: numbers of all topics.  settled: by lane.
        """
        found: Flags = (heads.times_ms >= self.from_ms) & (heads.times_ms < self.to_ms)
        if self.offsets is not None:
            found &= np.isin(heads.offsets, sorted(self.offsets))
        for column, values in self.only:
            if column == STATE:
                is_topic = np.isin(heads.numbers, topics)
                states = states_of(heads.numbers, is_topic, heads.lanes, heads.queue_offsets, settled)
                codes = [code for code, name in enumerate(STATE_NAMES) if name in values]
                found &= np.isin(states & OUTCOME_MASK, codes)
        return found


EVERYTHING: Final = RowFilter()


def row_filter(conditions: Iterable[Condition], table: str) -> RowFilter:
    """Return what conditions want, all of them together."""
    found = EVERYTHING
    for each in conditions:
        found = _narrowed(found, each, table)
    return found


def _narrowed(found: RowFilter, condition: Condition, table: str) -> RowFilter:
    column, kind, values = condition.column, condition.operator, condition.values
    if kind not in (*EQUAL, *LEAST, *MOST):
        return found
    if kind in EQUAL and (column in OF_DESTINATION or (column == STATE and table != DELIVERIES)):
        return replace(found, only=(*found.only, (column, frozenset(str(value) for value in values))))
    if column == "log_offset":
        return _of_offsets(found, kind, [value for value in values if isinstance(value, int)])
    if kind in EQUAL and column == "message_id" and table != DELIVERIES:
        numbers = [str(value).rpartition("-")[2] for value in values]
        offsets = [int(number) for number in numbers if number.isdecimal() and len(number) < 19]
        return _of_offsets(found, kind, offsets) if offsets else found
    if column in ("store_time", "date"):
        times = [value for value in values if isinstance(value, date)]
        size_ms = 1 if column == "store_time" else DAY_MS
        low, high = _range(kind, _first_ms(min(times)), _first_ms(max(times)) + size_ms)
        return replace(found, from_ms=max(found.from_ms, low), to_ms=min(found.to_ms, high))
    return found


def _of_offsets(found: RowFilter, kind: str, values: list[int]) -> RowFilter:
    low, high = _range(kind, min(values), max(values) + 1)
    found = replace(found, start=max(found.start, low), stop=min(found.stop, high))
    if kind not in EQUAL:
        return found
    offsets = frozenset(values)
    return replace(found, offsets=offsets if found.offsets is None else found.offsets & offsets)


def _range(kind: str, low: int, high: int) -> tuple[int, int]:
    """Return what a condition of this kind leaves, 0 and ENDLESS where it sets no bound."""
    return (low if kind in (*EQUAL, *LEAST) else 0), (high if kind in (*EQUAL, *MOST) else ENDLESS)


def _first_ms(value: date) -> int:
    time = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC)
    return (time - EPOCH) // timedelta(milliseconds=1)
