"""Which seeds a default run takes, or the one in PENSTOCK_SEED; and all that once failed.

``--long`` goes on from there, see long_run.py.
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

SEEDS: Final = {"broker": BROKER_SEEDS, "stomp": STOMP_SEEDS, "amqp": AMQP_SEEDS, "store": STORE_SEEDS}

VECTORS: Final = Path(__file__).parent.parent / "vectors" / "seeds.json"


def seeds_of(kind: str) -> list[int]:
    """Return the seeds for ``kind``: "broker", "stomp", "amqp" (with STOMP) or "store"."""
    asked = os.environ.get("PENSTOCK_SEED")
    if asked is not None:
        return [int(asked)]
    count = SEEDS[kind]
    known: list[dict[str, Any]] = json.loads(VECTORS.read_text())[kind]
    return sorted({*range(1, count + 1), *(int(one["seed"]) for one in known)})
