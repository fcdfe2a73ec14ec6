"""Messages -> one Arrow record batch with the columns of ``schema``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.store.format import layout
from engine.store.read.reader import DestinationInfo
from engine.values.destination import KIND_NAMES, TOPIC, uri
from engine.values.message import DEAD_LETTER, PERSISTENT, PRIORITY_SHIFT
from engine.values.outcomes import CAUSE_NAMES, CAUSE_NONE
from protocols.message_lines import TYPES_HEADER
from spark_bridge.arrow import headers
from spark_bridge.arrow.arrays import Booleans, from_numpy, rows_by_code, strings, timestamps, to_numpy
from spark_bridge.arrow.bodies import AS_BINARY, AS_TEXT, body_columns
from spark_bridge.arrow.contents import read_contents
from spark_bridge.arrow.dead_letters import origin_columns
from spark_bridge.arrow.fields import field_columns
from spark_bridge.arrow.payload import payload_column
from spark_bridge.arrow.properties import property_column
from spark_bridge.arrow.schema import DEAD_LETTERS, PAYLOAD, chosen_schema
from spark_bridge.arrow.subscriptions import Subscriber, subscription_states
from spark_bridge.log.heads import Heads
from spark_bridge.log.records import Block, Int64s
from spark_bridge.log.settlements import CAUSE_SHIFT, OUTCOME_MASK, PENDING, PUBLISHED, STATE_NAMES, Settled

DAY_MS: Final = 86_400_000
CAUSES: Final = [CAUSE_NAMES.get(cause, str(cause)) for cause in range(256)]


def record_batch(
    heads: Heads,
    block: Block | None,
    store_id: str,
    destinations: dict[int, DestinationInfo],
    settled: dict[int, Settled],
    subscribers: dict[int, list[Subscriber]],
    body: str,
    columns: Sequence[str],
    table: str,
) -> pa.RecordBatch:
    """Return one row per message.

    block: the records; None if only ENTRY_COLUMNS are wanted.
    settled: by lane, see ``settlements.by_lane``.  subscribers: durable subscriptions by topic.
    body: one of ``bodies.FORMS``.  columns: names of those wanted; headers and bodies are read only if needed.
    table: MESSAGES or DEAD_LETTERS.
    """
    wanted = set(columns)
    made = _makers(heads, store_id, destinations, settled, subscribers)
    values = {name: make() for name, make in made.items() if name in wanted}
    if table == DEAD_LETTERS and block is not None:
        values |= origin_columns(block)
    if block is not None and not values.keys() >= wanted:
        values |= _contents(block, heads.flags, body, columns)
    return pa.RecordBatch.from_arrays([values[name] for name in columns], schema=chosen_schema(table, columns))


def _makers(
    heads: Heads,
    store_id: str,
    destinations: dict[int, DestinationInfo],
    settled: dict[int, Settled],
    subscribers: dict[int, list[Subscriber]],
) -> dict[str, Callable[[], pa.Array]]:
    """Return by its name what makes a column from heads alone: a count needs few of them."""
    numbers = from_numpy(heads.numbers).dictionary_encode()
    infos = [destinations[number] for number in numbers.dictionary.to_pylist()]
    rows = numbers.indices
    is_topic = np.array([info.kind == TOPIC for info in infos], dtype=np.bool_)[to_numpy(rows)]
    places = (heads.numbers, is_topic, heads.lanes, heads.queue_offsets)
    log_offsets = from_numpy(heads.offsets)

    @cache
    def states() -> Int64s:
        return states_of(*places, settled)

    def causes() -> pa.Array:
        codes = states() >> CAUSE_SHIFT
        return strings(CAUSES).take(from_numpy(codes, codes == CAUSE_NONE))

    return {
        "destination": lambda: strings([uri(info.kind, info.name) for info in infos]).take(rows),
        "destination_kind": lambda: strings([KIND_NAMES[info.kind] for info in infos]).take(rows),
        "destination_name": lambda: strings([info.name for info in infos]).take(rows),
        "store": lambda: strings([store_id]).take(from_numpy(np.zeros(len(rows), dtype=np.int8))),
        "message_id": lambda: _message_ids(store_id, log_offsets),
        "log_offset": lambda: log_offsets,
        "queue_offset": lambda: from_numpy(heads.queue_offsets),
        "lane": lambda: from_numpy(heads.lanes.astype(np.int32)),
        "store_time": lambda: timestamps(heads.times_ms),
        "date": lambda: from_numpy((heads.times_ms // DAY_MS).astype(np.int32)).cast(pa.date32()),
        "priority": lambda: from_numpy(_sent_priorities(heads.flags, heads.lanes).astype(np.int32)),
        "persistent": lambda: from_numpy(heads.flags & PERSISTENT != 0),
        "expires": lambda: timestamps(heads.expires_ms, heads.expires_ms <= 0),
        "delivery_state": lambda: strings(STATE_NAMES).take(from_numpy(states() & OUTCOME_MASK)),
        "delivery_cause": causes,
        "dead_letter": lambda: from_numpy(heads.flags & DEAD_LETTER != 0),
        "subscription_states": lambda: subscription_states(*places, subscribers, settled),
    }


def _message_ids(store_id: str, log_offsets: pa.Array) -> pa.Array:
    prefix, nothing = strings([f"ID:{store_id}-", ""])
    return pc.binary_join_element_wise(prefix, log_offsets.cast(pa.string()), nothing)


def _contents(block: Block, flags: Int64s, body: str, columns: Sequence[str]) -> dict[str, pa.Array]:
    contents = read_contents(block, flags)
    mapped, named = headers.parse(contents.lines)
    values = field_columns(named) | {"headers": mapped}
    if "properties" in columns:
        values["properties"] = property_column(mapped, named[TYPES_HEADER])
    if "body" in columns or "body_text" in columns:
        values["body"], values["body_text"] = body_columns(contents.bodies, contents.is_text, named, body)
    if PAYLOAD in columns:
        texts = values.get("body_text")
        if texts is None or body == AS_BINARY:
            _, texts = body_columns(contents.bodies, contents.is_text, named, AS_TEXT)
        values[PAYLOAD] = payload_column(texts)
    return values


def _sent_priorities(flags: Int64s, lanes: Int64s) -> Int64s:
    """Do for many messages what ``engine.values.message.sent_priority`` does for one."""
    sent = flags >> PRIORITY_SHIFT
    return np.where(sent > 0, sent - 1, lanes)


def states_of(
    numbers: Int64s,
    is_topic: Booleans,
    priorities: Int64s,
    queue_offsets: Int64s,
    settled: dict[int, Settled],
) -> Int64s:
    """Return the state and the cause of each message, see ``settlements``."""
    states = np.full(len(numbers), PENDING, dtype=np.int64)
    if settled:
        lanes = from_numpy((numbers << layout.LANE_SHIFT) + priorities).dictionary_encode()
        for lane, rows in zip(lanes.dictionary.to_pylist(), rows_by_code(lanes), strict=True):
            ranges = settled.get(lane)
            if ranges is not None:
                states[rows] = ranges.states(queue_offsets[rows])
    states[is_topic] = PUBLISHED
    return states
