"""Which build is running: the hot files as they are, or compiled by mypyc; and whether it has native functions."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

COMPILED: Final = "compiled"
INTERPRETED: Final = "interpreted"

HOT: Final = "engine.broker"  # one file represents the compile group, which is built whole or not at all


def build() -> str:
    """Return COMPILED or INTERPRETED, without loading the module that shows it."""
    spec = find_spec(HOT)
    assert spec is not None and spec.origin is not None, f"{HOT} is not there"
    return INTERPRETED if spec.origin.endswith(".py") else COMPILED


def has_native_functions() -> bool:
    """Return whether the functions that are also written in C are used in that form."""
    from protocols.stomp.codec.frame_octets import decimal, plain_decimal

    return decimal is not plain_decimal
