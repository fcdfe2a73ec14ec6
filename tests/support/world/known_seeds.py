"""Where each planted bug was found: a search begins there.

A seed that no longer finds it costs a run and proves nothing: the search goes on with all others.  This notes the seeds
anew, in one process:

    PENSTOCK_NOTE_SEEDS=1 python -m pytest -q tests/simulation tests/fuzz -k planted
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

FOUND: Final = Path(__file__).parents[2] / "vectors" / "found.json"
NOTES: Final = os.environ.get("PENSTOCK_NOTE_SEEDS") == "1"


def known_first(seeds: Iterable[int]) -> Iterator[int]:
    """Yield the seed that was noted for the present test, if it is one of ``seeds``, and then the others."""
    test = os.environ["PYTEST_CURRENT_TEST"].partition(" ")[0]
    noted: dict[str, int] = json.loads(FOUND.read_text())
    seeds = list(seeds)
    if not NOTES and noted.get(test) in seeds:
        seeds.remove(noted[test])
        seeds.insert(0, noted[test])
    for seed in seeds:
        try:
            yield seed
        except GeneratorExit:  # the search has ended here
            if NOTES:
                _note(noted, test, seed)
            raise


def _note(noted: dict[str, int], test: str, seed: int) -> None:
    noted[test] = seed
    FOUND.write_text(json.dumps(noted, indent=0, sort_keys=True) + "\n")
