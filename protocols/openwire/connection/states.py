"""The states of an OpenWire connection: those of ``protocols.session.states``, and one before them.

    NEGOTIATING --NEGOTIATED--> CONNECTING ...

A client may send ShutdownInfo at any time.
"""

from __future__ import annotations

from typing import Final

from protocols.session.states import (
    CLOSED,
    COMMON,
    CONNECTING,
    FAIL,
    FAILING,
    HANG_UP,
    LEAVE,
    LEAVING,
    LOSE,
    NEGOTIATED,
    NEGOTIATING,
    PAUSED,
)

TRANSITIONS: Final[dict[tuple[int, int], int]] = {
    (NEGOTIATING, NEGOTIATED): CONNECTING,
    (NEGOTIATING, LEAVE): LEAVING,
    (NEGOTIATING, HANG_UP): LEAVING,
    (NEGOTIATING, FAIL): FAILING,
    (NEGOTIATING, LOSE): CLOSED,
    (CONNECTING, LEAVE): LEAVING,
    (PAUSED, LEAVE): LEAVING,
    **COMMON,
}
