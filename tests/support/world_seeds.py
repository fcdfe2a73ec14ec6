"""Which seeds a run takes: hundreds, thousands with ``--long``, one with PENSTOCK_SEED; and all that once failed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

BROKER_SEEDS: Final = 240
STOMP_SEEDS: Final = 120
LONG_FACTOR: Final = 30

VECTORS: Final = Path(__file__).parent.parent / "vectors" / "seeds.json"


def seeds_of(kind: str, is_long: bool) -> list[int]:
    """Return the seeds for ``kind``, "broker" or "stomp"."""
    asked = os.environ.get("PENSTOCK_SEED")
    if asked is not None:
        return [int(asked)]
    count = (BROKER_SEEDS if kind == "broker" else STOMP_SEEDS) * (LONG_FACTOR if is_long else 1)
    known: list[dict[str, Any]] = json.loads(VECTORS.read_text())[kind]
    return sorted({*range(1, count + 1), *(int(one["seed"]) for one in known)})
