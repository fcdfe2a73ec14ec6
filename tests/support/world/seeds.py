"""The seeds of a default run, or the one in PENSTOCK_SEED, and all seeds that once failed.

``--long`` continues after them, see ``long_run.py``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

BROKER_SEEDS: Final = 240
STOMP_SEEDS: Final = 120
AMQP_SEEDS: Final = 120
STORE_SEEDS: Final = 3_000
WIRE_SEEDS: Final = 20

SEEDS: Final = {
    "broker": BROKER_SEEDS,
    "stomp": STOMP_SEEDS,
    "amqp": AMQP_SEEDS,
    "store": STORE_SEEDS,
    "wire": WIRE_SEEDS,
}

VECTORS: Final = Path(__file__).parents[2] / "vectors" / "seeds.json"


def asked_or(seeds: range) -> list[int]:
    """Return the seed in PENSTOCK_SEED if there is one, else those of a default run."""
    asked = os.environ.get("PENSTOCK_SEED")
    return list(seeds) if asked is None else [int(asked)]


def seeds_of(kind: str) -> list[int]:
    """Return the seeds for ``kind``: "broker", "stomp", "amqp" (with STOMP), "store" or "wire"."""
    seeds = asked_or(range(1, SEEDS[kind] + 1))
    if len(seeds) == 1:
        return seeds
    known: list[dict[str, Any]] = json.loads(VECTORS.read_text())[kind]
    return sorted({*seeds, *(int(one["seed"]) for one in known)})
