"""A sweep in processes of this machine, each with a copy of the trace."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Final

from what_if.model.scenario import Scenario
from what_if.report.results import Result
from what_if.sweep.attempt import SimulationFailed, attempt, failed
from what_if.trace.trace import Trace

KILLED: Final = "its process was killed, perhaps because memory was short; fewer --processes need less"

_here: dict[str, Trace] = {}  # of a process that runs scenarios


def sweep_in_processes(trace: Trace, scenarios: Sequence[Scenario], processes: int) -> list[Result]:
    """Run scenarios, several at the same time.  processes: 0 for one per processor.  Raises: SimulationFailed."""
    count = min(len(scenarios), processes or os.cpu_count() or 1)
    if count == 1:
        return [attempt(scenario.name, partial(_given, trace, scenario)) for scenario in scenarios]
    with ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _take_trace, (trace,)) as pool:
        runs = [pool.submit(_run_here, scenario) for scenario in scenarios]
        try:
            return [run.result() for run in runs]
        except BrokenProcessPool:
            raise SimulationFailed(failed(_lost(scenarios, runs, count), KILLED)) from None
        except BaseException:  # of one run, or Ctrl-C: nobody waits for the others
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _lost(scenarios: Sequence[Scenario], runs: Sequence[Future[Result]], count: int) -> list[str]:
    """Return the names of the runs that were under way when a process was lost."""
    unfinished = [
        scenario.name
        for scenario, run in zip(scenarios, runs, strict=True)
        if isinstance(run.exception(), BrokenProcessPool)
    ]
    return unfinished[:count]  # they begin in this order


def _take_trace(trace: Trace) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # of a terminal: no traceback from each
    _here["trace"] = trace


def _run_here(scenario: Scenario) -> Result:
    return attempt(scenario.name, partial(_given, _here["trace"], scenario))


def _given(trace: Trace, scenario: Scenario) -> tuple[Trace, Scenario]:
    return trace, scenario
