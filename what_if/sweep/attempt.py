"""One run of a sweep, wherever it runs: its result, or an error that names it."""

from __future__ import annotations

from collections.abc import Callable
from traceback import extract_tb
from typing import TYPE_CHECKING, ClassVar

from engine.values.errors import PenstockError

if TYPE_CHECKING:
    from what_if.model.scenario import Scenario
    from what_if.report.results import Result
    from what_if.trace.trace import Trace


class SimulationFailed(PenstockError):
    """A run has failed; the text has its name, and why."""

    condition: ClassVar[str] = "simulation-failed"
    scope: ClassVar[str] = "request"


def attempt(name: str, given: Callable[[], tuple[Trace, Scenario]], host: str = "") -> Result:
    """Run the scenario of a name.

    given: gets it and the trace, and may fail.  host: where this is, "" for the machine of the command.
    Raises: SimulationFailed.
    """
    try:
        from what_if.run import run  # here, because a worker may lack what the engine needs

        return run(*given())
    except Exception as error:
        raise SimulationFailed(failed([name], _reason(error, host), host)) from error


def failed(names: list[str], why: str, host: str = "") -> str:
    """Return what is said of runs of which one has failed."""
    runs = f"the run {names[0]!r}" if len(names) == 1 else f"one of the runs {', '.join(map(repr, names))}"
    return f"{runs} failed{f' on {host}' if host else ''}: {why}"


def _reason(error: Exception, host: str) -> str:
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, ImportError):
        needed = "; Spark's workers need Python with the packages of penstock" if host else ""
        return f"{error}{needed}"
    frames = extract_tb(error.__traceback__)
    place = f"{'/'.join(frames[-1].filename.split('/')[-3:])}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__}: {error} ({place})"
