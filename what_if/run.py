"""Runs of one trace: what really happened, and each scenario."""

from __future__ import annotations

from what_if.actual import actual_figures
from what_if.figures import Period
from what_if.model.scenario import Scenario
from what_if.model.simulation import simulate
from what_if.report.results import REALLY, Result, result_of
from what_if.trace.trace import Trace


def really(trace: Trace) -> Result:
    """Return what really happened."""
    return result_of(REALLY, actual_figures(trace, period_of(trace)))


def run(trace: Trace, scenario: Scenario) -> Result:
    """Return what a scenario would have made of it."""
    return result_of(scenario.name, simulate(trace, scenario))


def period_of(trace: Trace) -> Period:
    return Period(trace.start_ms, trace.end_ms)
