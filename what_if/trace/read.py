"""Two tables -> a trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engine.values.destination import QUEUE
from what_if.trace.deliveries import attempts_of, ends_of, read_deliveries, since_of
from what_if.trace.messages import read_messages
from what_if.trace.tables import Batches, Chosen, read_tables
from what_if.trace.trace import Owner, Trace


def read_trace(source: Path, chosen: Chosen) -> Trace:
    """Read an export or a store.

    Raises: ValueError for a source without both tables or without messages, and for wrong options; StoreError,
    TargetError, RangeGone, StoreCorrupt.
    """
    trace = trace_of(*read_tables(source, chosen))
    if not trace.messages:
        raise ValueError(f"--from {str(source)!r} has no messages of {chosen.destination!r} in this time")
    if chosen.to_time:
        trace.end_ms = min(trace.end_ms, chosen.to_ms() - 1)
    return trace


def trace_of(messages: Batches, deliveries: Batches) -> Trace:
    """Return the trace of two tables, whose rows may come in any order."""
    sent = read_messages(messages)
    rows = read_deliveries(deliveries)
    worked = attempts_of(rows)
    offsets = sent.columns["offset"]
    firsts = np.searchsorted(worked.messages, offsets)
    counts = np.searchsorted(worked.messages, offsets, side="right") - firsts
    owners = [rows.owner_of(text) for text in rows.owners]
    since = since_of(rows, len(owners))
    for kind, name in sent.destinations():
        if kind == QUEUE and Owner(kind, name) not in owners:
            owners.append(Owner(kind, name))
            since.append(0)
    times = sent.columns["time"]
    start_ms = int(times[0]) if len(times) else 0
    first_offset = int(offsets[0]) if len(offsets) else 0
    ends = ends_of(rows, first_offset)
    end_ms = max([int(times[-1]) if len(times) else 0, *ends.times_ms[-1:]])
    found = sent.messages(firsts, counts)
    return Trace(sent.destinations(), owners, since, worked.consumers, worked.attempts, found, ends, start_ms, end_ms)
