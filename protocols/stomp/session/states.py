"""The states of a STOMP connection: those of ``protocols.session.states``, and one between OPEN and LEAVING.

OPEN --WAIT--> DISCONNECTING --LEAVE--> LEAVING
"""

from __future__ import annotations

from typing import Final

from protocols.session.states import (
    CLOSED,
    COMMON,
    DISCONNECTING,
    FAIL,
    FAILING,
    HANG_UP,
    LEAVE,
    LEAVING,
    LOSE,
    OPEN,
    WAIT,
)

TRANSITIONS: Final[dict[tuple[int, int], int]] = {
    **COMMON,
    (OPEN, WAIT): DISCONNECTING,
    (DISCONNECTING, LEAVE): LEAVING,
    (DISCONNECTING, HANG_UP): DISCONNECTING,
    (DISCONNECTING, FAIL): FAILING,
    (DISCONNECTING, LOSE): CLOSED,
}
