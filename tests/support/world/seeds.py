"""The seeds of a default run, or the one in PENSTOCK_SEED, and all seeds that once failed.

A history breaks the same laws in both builds, so they share the seeds: of twelve, the interpreted build takes two, and
the compiled one, which has less else to do, four others.  ``--long`` continues after them, see ``long_run.py``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from engine.values.errors import EngineError, PenstockError
from gateway.process.build import COMPILED, INTERPRETED, build
from tests.support.disk.faulty_files import Crashed
from tests.support.world.bodies import Violation
from tests.support.world.known_seeds import known_first

BROKER_SEEDS: Final = 240
STOMP_SEEDS: Final = 120
AMQP_SEEDS: Final = 120
STORE_SEEDS: Final = 3_000
REFUSAL_SEEDS: Final = 240
SCHEDULE_SEEDS: Final = 80
BRANCH_SEEDS: Final = 40
SUBSCRIPTION_SEEDS: Final = 120
READER_SEEDS: Final = 50

# Which of twelve seeds; even and odd ones, because some worlds differ in that.
SHARES: Final = {INTERPRETED: (0, 7), COMPILED: (1, 4, 5, 10)}

SEEDS: Final = {
    "broker": BROKER_SEEDS,
    "stomp": STOMP_SEEDS,
    "amqp": AMQP_SEEDS,
    "store": STORE_SEEDS,
}

# What a run raises: a broken law, or a fault of the product or of the simulation.
FAILURES: Final = (AssertionError, Crashed, LookupError, TypeError, ValueError, AttributeError, OSError, PenstockError)
TOLD_LINES: Final = 12
VECTORS: Final = Path(__file__).parents[2] / "vectors" / "seeds.json"


def asked_or(seeds: Sequence[int]) -> list[int]:
    """Return the seed in PENSTOCK_SEED if there is one, else those of a default run."""
    asked = os.environ.get("PENSTOCK_SEED")
    return list(seeds) if asked is None else [int(asked)]


def taken(seeds: range) -> list[int]:
    """Return those of ``seeds`` that a default run of this build takes, or the one in PENSTOCK_SEED."""
    share = SHARES[build()]
    return asked_or([seed for at, seed in enumerate(seeds) if at % 12 in share])


def seeds_of(kind: str) -> list[int]:
    """Return the seeds for ``kind``: "broker", "stomp", "amqp" (with STOMP) or "store"."""
    seeds = taken(range(1, SEEDS[kind] + 1))
    if len(seeds) == 1:
        return seeds
    known: list[dict[str, Any]] = json.loads(VECTORS.read_text())[kind]
    return sorted({*seeds, *(int(one["seed"]) for one in known)})


@contextmanager
def telling(kind: str, seed: int, told: Sequence[str] = (), again: str = "") -> Iterator[None]:
    """Add to the failure of a run its seed, its last steps and the command to run it again.

    Raises: Violation.
    """
    try:
        yield
    except FAILURES as error:
        steps = "".join(f"\n    {line}" for line in told[-TOLD_LINES:])
        cause = f" ({error.__cause__})" if error.__cause__ is not None else ""
        again = again or f"PENSTOCK_SEED={seed} python -m pytest tests/simulation -k {kind}_seed"
        raise Violation(
            f"{kind} seed {seed}: {type(error).__name__}: {error}{cause}\n  before it:{steps}\n  again: {again}"
        ) from error


class Runnable(Protocol):
    def run(self) -> object: ...


def first_found(make: Callable[[int], Runnable], seeds: Iterable[int]) -> str:
    """Return what a failing run says: of a broken law, or of a refusal that no client has earned."""
    for seed in known_first(seeds):
        try:
            make(seed).run()
        except (Violation, EngineError) as violation:
            return str(violation)
    return ""
