"""What really happened, in the figures of a simulation."""

from __future__ import annotations

from what_if.figures import Figures, Period
from what_if.trace.trace import Owner, Trace


def actual_figures(trace: Trace, period: Period) -> dict[Owner, Figures]:
    """Return the figures of each queue and durable subscription of a trace."""
    figures = {owner: Figures(period) for owner in trace.owners}
    by_place = list(figures.values())
    readers = trace.readers()
    messages, ends = trace.messages, trace.ends
    row, rows = 0, len(ends.times_ms)
    for at, time_ms in enumerate(messages.times_ms):
        while row < rows and ends.times_ms[row] < time_ms:
            _leave(trace, by_place, row)
            row += 1
        for place in readers[messages.destinations[at]]:
            if trace.since[place] <= messages.offsets[at]:
                by_place[place].come(time_ms)
    while row < rows and ends.times_ms[row] <= period.end_ms:
        _leave(trace, by_place, row)
        row += 1
    for each in by_place:
        each.end()
    return figures


def _leave(trace: Trace, by_place: list[Figures], row: int) -> None:
    ends = trace.ends
    figures = by_place[ends.owners[row]]
    if ends.outcomes[row]:
        figures.leave(ends.times_ms[row], ends.waits_ms[row], ends.outcomes[row])
    else:
        figures.fail()
