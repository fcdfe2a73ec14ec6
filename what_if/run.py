"""Runs of one trace: what really happened, and what each scenario makes of it (what_if.model.simulation)."""

from __future__ import annotations

from what_if.figures import Figures, Period
from what_if.model.scenario import Scenario
from what_if.model.simulation import simulate
from what_if.report.results import REALLY, Result, result_of
from what_if.trace.trace import Owner, Trace


def really(trace: Trace) -> Result:
    """Return what really happened."""
    return result_of(REALLY, _actual_figures(trace, period_of(trace)))


def run(trace: Trace, scenario: Scenario) -> Result:
    """Return what a scenario would have made of it."""
    return result_of(scenario.name, simulate(trace, scenario))


def period_of(trace: Trace) -> Period:
    return Period(trace.start_ms, trace.end_ms)


def _actual_figures(trace: Trace, period: Period) -> dict[Owner, Figures]:
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
