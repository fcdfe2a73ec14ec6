"""The table messages -> the messages of a trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.values.destination import KINDS_BY_NAME, QUEUE
from what_if.trace.columns import Int64s, codes, joined, milliseconds, numbers, packed
from what_if.trace.deliveries import DeliveryColumns
from what_if.trace.tables import Batches
from what_if.trace.trace import Messages

HEADER_OCTETS = 2  # of a header line beside its name and value


@dataclass(slots=True)
class MessageColumns:
    """Columns in the order of the log.  destinations: codes of ``names``, kind and name."""

    names: dict[str, int] = field(default_factory=dict)
    columns: dict[str, Int64s] = field(default_factory=dict)

    def destinations(self) -> list[tuple[int, str]]:
        """Return kind and name of each code."""
        split = [text.partition("://") for text in self.names]
        return [(KINDS_BY_NAME[kind], name) for kind, _, name in split]

    def messages(self, firsts: Int64s, counts: Int64s) -> Messages:
        """Return them for the simulation.  firsts, counts: of each message's attempts."""
        found = self.columns
        return Messages(
            packed("i", found["destination"]),
            packed("q", found["offset"]),
            packed("q", found["time"]),
            packed("b", found["priority"]),
            packed("b", 1 - found["dead_letter"]),
            packed("q", found["expires"]),
            packed("i", np.minimum(found["size"], 2**31 - 1)),
            packed("I", found["group"]),
            packed("q", firsts),
            packed("i", counts),
        )


def read_messages(batches: Batches) -> MessageColumns:
    """Read all rows, without keeping headers and bodies."""
    found = MessageColumns()
    groups: dict[str, int] = {"": 0}
    parts: dict[str, list[Int64s]] = {}
    for batch in batches:
        uris = pc.binary_join_element_wise(batch.column("destination_kind"), batch.column("destination_name"), "://")
        row = {
            "destination": codes(uris, found.names),
            "offset": numbers(batch.column("log_offset")),
            "time": milliseconds(batch.column("store_time")),
            "priority": numbers(batch.column("priority")),
            "dead_letter": numbers(batch.column("dead_letter")),
            "expires": milliseconds(batch.column("expires")),
            "size": _sizes(batch),
            "group": codes(batch.column("group_id"), groups),
        }
        for name, values in row.items():
            parts.setdefault(name, []).append(values)
    names = ("destination", "offset", "time", "priority", "dead_letter", "expires", "size", "group")
    joined_parts = {name: joined(parts.get(name, [])) for name in names}
    order = np.argsort(joined_parts["offset"], kind="stable")
    found.columns = {name: values[order] for name, values in joined_parts.items()}
    hashes = np.array([crc32(text.encode()) if text else 0 for text in groups], np.int64)
    found.columns["group"] = hashes[found.columns["group"]]
    return found


def with_waiting(sent: MessageColumns, rows: DeliveryColumns, from_ms: int) -> MessageColumns:
    """Add the messages of queues that waited at ``from_ms``, as far as they were settled or failed later.

    They come at that time, with the size of an average message; their expiry and group are not known.
    """
    found, columns = rows.columns, sent.columns
    is_queue = np.array([rows.owner_of(text).kind == QUEUE for text in rows.owners] or [False])[found["owner"]]
    is_earlier = is_queue & (found["message"] >= 0) & (found["message_time"] < from_ms)
    offsets, at = np.unique(found["message"][is_earlier], return_index=True)
    names = np.array(
        [sent.names.setdefault(text.partition("\n")[0], len(sent.names)) for text in rows.owners], np.int64
    )
    nothing = np.zeros(len(offsets), np.int64)
    size = int(columns["size"].mean()) if len(columns["size"]) else 0
    earlier = {
        "destination": names[found["owner"][is_earlier][at]] if len(offsets) else nothing,
        "offset": offsets,
        "time": nothing + from_ms,
        "priority": found["lane"][is_earlier][at],
        "dead_letter": nothing,
        "expires": nothing,
        "size": nothing + size,
        "group": nothing,
    }
    return MessageColumns(sent.names, {name: np.concatenate([earlier[name], columns[name]]) for name in columns})


def _sizes(batch: pa.RecordBatch) -> Int64s:
    """Return about how many octets each message has in the store."""
    bodies = numbers(pc.binary_length(batch.column("body"))) + numbers(pc.binary_length(batch.column("body_text")))
    headers = batch.column("headers")
    lines = numbers(pc.binary_length(headers.keys)) + numbers(pc.binary_length(headers.items)) + HEADER_OCTETS
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lines)])
    places = headers.offsets.to_numpy()
    sizes: Int64s = bodies + ends[places[1:]] - ends[places[:-1]]
    return sizes
