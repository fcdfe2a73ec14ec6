"""The byte vectors of AMQP 1.0 that stand in tests/vectors; what each field means, the file says itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

Vector = dict[str, Any]

VECTORS: Final[list[Vector]] = json.loads((Path(__file__).parents[2] / "vectors" / "amqp10.json").read_text())[
    "vectors"
]


def is_value(vector: Vector) -> bool:
    """Say whether a vector is a value or sections of a message, not what follows a protocol header."""
    return vector["group"] in ("primitive", "message")
