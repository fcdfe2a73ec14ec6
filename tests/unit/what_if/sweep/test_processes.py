"""Sweeps in processes of this machine: results, and runs that fail."""

from __future__ import annotations

import pytest

from tests.support.what_if.sweeps import broken, combinations, deadly, short_trace
from what_if.sweep.attempt import SimulationFailed
from what_if.sweep.processes import sweep_in_processes


def test_the_results_have_the_order_of_the_runs() -> None:
    found = sweep_in_processes(short_trace(), combinations(), 2)
    assert [each.name for each in found] == [each.name for each in combinations()]
    assert found == sweep_in_processes(short_trace(), combinations(), 1)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_run_that_fails_is_named(processes: int) -> None:
    with pytest.raises(SimulationFailed, match="^the run 'prefetch=3' failed: TypeError: .*[.]py:[0-9]+[)]$"):
        sweep_in_processes(short_trace(), [combinations()[0], broken("prefetch=3")], processes)


def test_a_process_that_is_killed_is_one_of_those_under_way() -> None:
    runs = [deadly("prefetch=1"), deadly("prefetch=2"), *combinations()]
    with pytest.raises(
        SimulationFailed, match="one of the runs 'prefetch=1', 'prefetch=2' failed: its process was kil"
    ):
        sweep_in_processes(short_trace(), runs, 2)
