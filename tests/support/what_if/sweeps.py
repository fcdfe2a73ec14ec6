"""Sweeps: a short trace, what is tried on it, and a run that ends its process."""

from __future__ import annotations

import os
from typing import Any

from tests.support.what_if.recorded_world import ALWAYS, RecordedWorld, Sent, every, takes
from tests.support.what_if.scenarios import scenario
from what_if.model.scenario import Scenario
from what_if.trace.trace import Trace


def short_trace() -> Trace:
    sent = [*every(3, 200), Sent(100, failures=2), Sent(600, failures=ALWAYS)]
    return RecordedWorld(sent, [("q", takes(5)), ("q", takes(20))]).trace()


def combinations() -> list[Scenario]:
    """Return six runs, half of which draw their times."""
    return [
        scenario(name=f"consumers={count} drawn={is_drawn}", consumers=count, is_drawn=is_drawn, seed=7)
        for count in (1, 2, 5)
        for is_drawn in (False, True)
    ]


class Deadly:
    """Ends the process that unpickles it, as a kernel that is short of memory does."""

    def __reduce__(self) -> Any:
        return os._exit, (9,)


class TooLarge:
    """Takes more memory than any machine has, where it is unpickled."""

    def __reduce__(self) -> Any:
        return bytearray, (1 << 60,)


def broken(name: str) -> Scenario:
    """Return a run that fails."""
    return scenario(name=name, addresses=None)


def deadly(name: str) -> Scenario:
    return scenario(name=name, addresses=Deadly())


def too_large(name: str) -> Scenario:
    return scenario(name=name, addresses=TooLarge())
