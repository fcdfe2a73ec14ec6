"""What is said of the exports and named streams of a store, as ``/api/store/readers`` has them."""

from __future__ import annotations

from typing import Any

from engine.store.plain_words import duration, size
from gateway.answers.wording import clock_time


def reader_line(reader: dict[str, Any]) -> str:
    place = f"{reader['kind']} {reader['reader']} of {reader['destination']}: at log offset {reader['to_offset']}"
    line = f"{place} since {clock_time(reader['read_ms'])}, {size(reader['lag_bytes'])} behind"
    if not reader["lag_bytes"]:
        return line
    if reader["eta_ms"] is None:
        return f"{line}, and stands"
    return f"{line}, {duration(reader['eta_ms'])} at its last pace"
