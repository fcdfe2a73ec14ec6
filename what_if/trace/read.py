"""Two tables -> a trace."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from config.matching import AddressEntry, AddressMatcher
from engine.values.destination import QUEUE
from what_if.trace.deliveries import attempts_of, ends_of, read_deliveries, since_of
from what_if.trace.messages import read_messages, with_waiting
from what_if.trace.tables import Batches, Chosen, read_tables
from what_if.trace.trace import AT_ONCE, FAILED, GIVEN_UP, ROLLED_BACK, Owner, Trace


def read_trace(source: Path, chosen: Chosen, present: Iterable[AddressEntry]) -> Trace:
    """Read an export or a store.  present: the addresses of that time.

    Raises: ValueError for a source without both tables or without messages, and for wrong options; StoreError,
    TargetError, RangeGone, StoreCorrupt.
    """
    trace = trace_of(*read_tables(source, chosen), chosen.from_ms())
    if not trace.messages:
        raise ValueError(f"--from {str(source)!r} has no messages of {chosen.destination!r} in this time")
    if chosen.to_time:
        trace.end_ms = min(trace.end_ms, chosen.to_ms() - 1)
    find_rollbacks(trace, AddressMatcher(present))
    return trace


def trace_of(messages: Batches, deliveries: Batches, from_ms: int = 0) -> Trace:
    """Return the trace of two tables, whose rows may come in any order.

    from_ms: what waited then is part of it, 0 if the tables begin with the first message.
    """
    sent = read_messages(messages)
    rows = read_deliveries(deliveries)
    if from_ms:
        sent = with_waiting(sent, rows, from_ms)
    worked = attempts_of(rows)
    offsets, times = sent.columns["offset"], sent.columns["time"]
    firsts = np.searchsorted(worked.messages, offsets)
    counts = np.searchsorted(worked.messages, offsets, side="right") - firsts
    owners = [rows.owner_of(text) for text in rows.owners]
    since = since_of(rows, len(owners))
    for kind, name in sent.destinations():
        if kind == QUEUE and Owner(kind, name) not in owners:
            owners.append(Owner(kind, name))
            since.append(0)
    start_ms = int(times[0]) if len(times) else 0
    ends = ends_of(rows, offsets, start_ms)
    end_ms = max([int(times[-1]) if len(times) else 0, *ends.times_ms[-1:]])
    found = sent.messages(firsts, counts)
    return Trace(sent.destinations(), owners, since, worked.consumers, worked.attempts, found, ends, start_ms, end_ms)


def find_rollbacks(trace: Trace, present: AddressMatcher) -> None:
    """Decide which failures were rollbacks: those that were tried again at once although their address has a delay."""
    delays_ms = [
        present.settings_for(owner.kind, owner.name).redelivery.initial_redelivery_delay_ms for owner in trace.owners
    ]
    attempts = trace.attempts
    for row, kind in enumerate(attempts.kinds):
        if kind & ~GIVEN_UP == AT_ONCE:
            found = ROLLED_BACK if delays_ms[attempts.owners[row]] > 0 else FAILED
            attempts.kinds[row] = found | kind & GIVEN_UP
