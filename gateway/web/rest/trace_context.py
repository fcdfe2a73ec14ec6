"""The trace that a request belongs to: its headers become properties of the message that the request sends.

Source: https://www.w3.org/TR/trace-context/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

PARENT: Final = "traceparent"
STATE: Final = "tracestate"
STATE_CHARACTERS_MAX: Final = 512
# Version, trace, parent and flags.  Versions after 00 may have more behind them, and ff is none.
_FIELDS: Final = r"-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_PARENT: Final = re.compile(rf"00{_FIELDS}|(?!00|ff)[0-9a-f]{{2}}{_FIELDS}(?:-[\x21-\x7e]*)?")
_STATE: Final = re.compile(r"[\x20-\x7e]*")


def trace_properties(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a message that its request's trace gives it; none for a trace that cannot be read."""
    parent = headers.get(PARENT, "")
    if len(parent) > STATE_CHARACTERS_MAX or _PARENT.fullmatch(parent) is None:
        return {}
    state = headers.get(STATE, "")
    if not state or len(state) > STATE_CHARACTERS_MAX or _STATE.fullmatch(state) is None:
        return {PARENT: parent}
    return {PARENT: parent, STATE: state}
