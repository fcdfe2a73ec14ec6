"""The byte vectors of AMQP 1.0 in tests/vectors; the file explains its fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

Vector = dict[str, Any]

VECTORS: Final[list[Vector]] = json.loads((Path(__file__).parents[2] / "vectors" / "amqp10.json").read_text())[
    "vectors"
]


def is_value(vector: Vector) -> bool:
    """Say whether a vector is a value or sections of a message, and no frame."""
    return vector["group"] in ("primitive", "message")
