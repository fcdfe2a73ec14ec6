"""Records of messages -> one Arrow record batch with the columns of ``schema``."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.store.format import layout
from engine.store.read.reader import DestinationInfo
from engine.values.destination import KIND_NAMES, TOPIC, uri
from engine.values.message import DEAD_LETTER, PERSISTENT, STOMP, TEXT
from engine.values.outcomes import CAUSE_NAMES, CAUSE_NONE
from spark_bridge.arrow import headers
from spark_bridge.arrow.arrays import from_numpy, strings
from spark_bridge.arrow.records import Block, Int64s
from spark_bridge.arrow.schema import ARROW_SCHEMA, TIMESTAMP
from spark_bridge.arrow.settlements import CAUSE_SHIFT, OUTCOME_MASK, PENDING, PUBLISHED, STATE_NAMES, Settled
from spark_bridge.arrow.subscriptions import Subscriber, subscription_states

DAY_MS: Final = 86_400_000
CAUSES: Final = [CAUSE_NAMES.get(cause, str(cause)) for cause in range(256)]
YEAR_10000_MS: Final = 253_402_300_800_000  # Parquet readers have a lower limit; an expiry may be any number


def record_batch(
    block: Block,
    store_id: str,
    destinations: dict[int, DestinationInfo],
    settled: dict[int, Settled],
    subscribers: dict[int, list[Subscriber]],
) -> pa.RecordBatch:
    """Return one row per record of ``block``.

    settled: by lane, see ``settlements.by_lane``.  subscribers: durable subscriptions by topic.
    """
    flags = block.u16(10)
    numbers, which = np.unique(block.u32(12), return_inverse=True)
    infos = [destinations[number] for number in numbers.tolist()]
    rows = from_numpy(which)
    is_topic = np.array([info.kind == TOPIC for info in infos], dtype=np.bool_)[which]
    log_offsets = from_numpy(block.i64(16))
    queue_offsets = block.i64(72)
    store_times = block.i64(32)
    priorities = block.u8(52)
    expires = block.i64(64)
    prefix, nothing = strings([f"ID:{store_id}-", ""])
    blocks, bodies = _cut(block)
    mapped, named = headers.parse(blocks)
    topics = block.u32(12)
    states = _states(topics, is_topic, priorities, queue_offsets, settled)
    causes = states >> CAUSE_SHIFT
    values = {
        "destination": strings([uri(info.kind, info.name) for info in infos]).take(rows),
        "destination_kind": strings([KIND_NAMES[info.kind] for info in infos]).take(rows),
        "destination_name": strings([info.name for info in infos]).take(rows),
        "message_id": pc.binary_join_element_wise(prefix, log_offsets.cast(pa.string()), nothing),
        "log_offset": log_offsets,
        "queue_offset": from_numpy(queue_offsets),
        "store_time": _timestamps(store_times),
        "date": from_numpy((store_times // DAY_MS).astype(np.int32)).cast(pa.date32()),
        "priority": from_numpy(priorities.astype(np.int32)),
        "persistent": from_numpy(flags & PERSISTENT != 0),
        "correlation_id": named["correlation-id"],
        "type": named["type"],
        "reply_to": named["reply-to"],
        "expires": _timestamps(expires, expires <= 0),
        "headers": mapped,
        "body": bodies,
        "body_text": _texts(bodies, flags & TEXT != 0),
        "delivery_state": strings(STATE_NAMES).take(from_numpy(states & OUTCOME_MASK)),
        "delivery_cause": strings(CAUSES).take(from_numpy(causes, causes == CAUSE_NONE)),
        "dead_letter": from_numpy(flags & DEAD_LETTER != 0),
        "subscription_states": subscription_states(topics, is_topic, priorities, queue_offsets, subscribers, settled),
    }
    return pa.RecordBatch.from_arrays([values[name] for name in ARROW_SCHEMA.names], schema=ARROW_SCHEMA)


def _cut(block: Block) -> tuple[pa.Array, pa.Array]:
    """Return the header blocks (annotations first, so that they override) and the bodies, each cut in one call."""
    count = len(block.positions)
    starts = block.positions + layout.MESSAGE_HEAD_BYTES
    header_starts = starts + block.u32(40)
    body_starts = header_starts + block.u32(44)
    cuts = np.empty(count * 4 + 1, dtype=np.int32)
    cuts[0:-1:4] = starts
    # Headers in other encodings than STOMP's lines are left out of the map.
    cuts[1::4] = np.where(block.u8(9) == STOMP, body_starts, header_starts)
    cuts[2::4] = body_starts
    cuts[3::4] = body_starts + block.u32(48)
    cuts[-1] = cuts[-2]
    # Elements of four cuts: header block, headers left out, body, octets before the next record.
    pieces = pa.Array.from_buffers(pa.binary(), count * 4, [None, pa.py_buffer(cuts), pa.py_buffer(block.octets)])
    return pieces.take(from_numpy(np.arange(0, count * 4, 4))), pieces.take(from_numpy(np.arange(2, count * 4, 4)))


def _timestamps(times_ms: Int64s, mask: np.ndarray[Any, np.dtype[np.bool_]] | None = None) -> pa.Array:
    return from_numpy(np.clip(times_ms, 0, YEAR_10000_MS - 1) * 1000, mask).cast(TIMESTAMP)


def _texts(bodies: pa.Array, is_text: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Array:
    """Return the bodies of text messages as strings, null for those that are not valid UTF-8."""
    if not is_text.any():
        return pa.nulls(len(bodies), pa.string())
    index = np.flatnonzero(is_text)
    texts = bodies if len(index) == len(bodies) else bodies.take(from_numpy(index))
    try:
        strings = texts.cast(pa.string())
    except pa.ArrowInvalid:
        strings = pa.array([_text(body) for body in texts.to_pylist()], pa.string())
    if len(index) == len(bodies):
        return strings
    places = np.cumsum(is_text) - 1
    return strings.take(from_numpy(places, ~is_text))


def _text(body: bytes) -> str | None:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _states(
    numbers: Int64s,
    is_topic: np.ndarray[Any, np.dtype[np.bool_]],
    priorities: np.ndarray[Any, np.dtype[np.uint8]],
    queue_offsets: Int64s,
    settled: dict[int, Settled],
) -> Int64s:
    states = np.full(len(numbers), PENDING, dtype=np.int64)
    lanes = (numbers << layout.LANE_SHIFT) + priorities
    for lane in np.unique(lanes).tolist():
        ranges = settled.get(lane)
        if ranges is not None:
            rows = np.flatnonzero(lanes == lane)
            states[rows] = ranges.states(queue_offsets[rows])
    states[is_topic] = PUBLISHED
    return states
