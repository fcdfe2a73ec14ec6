"""The octets in tests/vectors/openwire.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

Vector = dict[str, Any]

VECTORS: Final[list[Vector]] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "openwire.json").read_text(encoding="utf-8")
)["vectors"]
