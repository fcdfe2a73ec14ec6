"""Which entries of a consume queue somebody may still ask for: what has to stay when the rest goes."""

from __future__ import annotations

from engine.store.format import layout
from engine.store.state.log_state import StoreState
from engine.values.destination import TOPIC


def needed_bits(state: StoreState, key: int, first: int, end: int) -> int:
    """Return which entries of a lane from ``first`` to ``end`` (excluded) somebody may still ask for, as bits."""
    lane = state.lanes.get(key)
    destination = state.destinations.get(key >> layout.LANE_SHIFT)
    if lane is None or destination is None:  # closed meanwhile
        return 0
    if destination.kind != TOPIC:
        return ((1 << (end - first)) - 1) & ~lane.settled.bits(first, end)
    bits = 0
    for member in destination.holders.members:
        own = member.lanes.get(lane.priority)
        if own is None:
            until = first if member.is_closing else end
            bits |= (1 << (until - first)) - 1
        else:
            until = end if own.end < 0 else max(min(own.end, end), first)
            bits |= ((1 << (until - first)) - 1) & ~own.settled.bits(first, end)
    return bits
