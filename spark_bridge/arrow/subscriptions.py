"""Delivery states of a topic's messages, by durable subscription, as one column of maps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.store.format import layout
from spark_bridge.arrow.arrays import from_numpy, strings
from spark_bridge.arrow.schema import TEXT_MAP
from spark_bridge.log.records import Int64s
from spark_bridge.log.settlements import Settled, state_text


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A durable subscription with its name in the column; ``starts``: its first entry by priority, 0 for others."""

    number: int
    label: str
    starts: dict[int, int]

    def first_entries(self, priorities: Int64s) -> Int64s:
        """Return for each message the beginning of the subscription in its lane."""
        firsts = np.zeros(256, dtype=np.int64)
        for priority, first in self.starts.items():
            firsts[priority] = first
        found: Int64s = firsts[priorities]
        return found


def label(name: str, taken: set[str], number: int) -> str:
    """Return the name of a subscription, with its number if another one has the same name."""
    return f"{name}#{number}" if name in taken else name


def subscription_states(
    topics: Int64s,
    is_topic: np.ndarray[tuple[int], np.dtype[np.bool_]],
    priorities: Int64s,
    queue_offsets: Int64s,
    subscribers: dict[int, list[Subscriber]],
    settled: dict[int, Settled],
) -> pa.Array:
    """Return for each message a map from its subscriptions to its state; null for a queue's message.

    topics: the destination of each message.  subscribers: by topic.
    """
    count = len(topics)
    labels: list[str] = []
    rows: list[Int64s] = [np.empty(0, dtype=np.int64)]
    names: list[Int64s] = [np.empty(0, dtype=np.int64)]
    codes: list[Int64s] = [np.empty(0, dtype=np.int64)]
    for topic in np.unique(topics[is_topic]).tolist():
        of_topic = np.flatnonzero(topics == topic)
        for subscriber in subscribers.get(topic, []):
            firsts = subscriber.first_entries(priorities[of_topic])
            got = of_topic[queue_offsets[of_topic] >= firsts]
            found = np.zeros(len(got), dtype=np.int64)
            for priority in np.unique(priorities[got]).tolist():
                ranges = settled.get((subscriber.number << layout.LANE_SHIFT) + priority)
                if ranges is not None:
                    of_lane = np.flatnonzero(priorities[got] == priority)
                    found[of_lane] = ranges.states(queue_offsets[got[of_lane]])
            rows.append(got)
            names.append(np.full(len(got), len(labels), dtype=np.int64))
            codes.append(found)
            labels.append(subscriber.label)
    row = np.concatenate(rows)
    order = np.argsort(row, kind="stable")
    known, which = np.unique(np.concatenate(codes), return_inverse=True)
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.bincount(row, minlength=count), out=offsets[1:])
    keys = strings(labels).take(from_numpy(np.concatenate(names)[order]))
    items = strings([state_text(code) for code in known.tolist()]).take(from_numpy(which[order]))
    # A null offset makes its map null; the last offset only ends the map before it.
    is_null = np.append(~is_topic, False)
    return pa.MapArray.from_arrays(from_numpy(offsets, is_null), keys, items).cast(TEXT_MAP)
