"""The supported versions of STOMP, as numbers that compare and as peers write them."""

from __future__ import annotations

from typing import Final

VERSION_1_0: Final = 10
VERSION_1_1: Final = 11
VERSION_1_2: Final = 12

VERSIONS: Final = {"1.0": VERSION_1_0, "1.1": VERSION_1_1, "1.2": VERSION_1_2}
VERSION_NAMES: Final = {number: name for name, number in VERSIONS.items()}
