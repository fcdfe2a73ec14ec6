"""The states of an OpenWire connection, and the events that change them.

    NEGOTIATING --NEGOTIATED--> CONNECTING ---ADMIT---> OPEN ---LEAVE, HANG_UP---> LEAVING ---LOSE---> CLOSED
                                    |                   | ^
                                  CHECK             PAUSE | RESUME
                                    v                   v |
                              AUTHENTICATING --ADMIT-> PAUSED

FAIL leads to FAILING from every state that still accepts commands, LOSE to CLOSED from every state.
"""

from __future__ import annotations

from typing import Final

NEGOTIATING: Final = 0  # only WireFormatInfo is accepted
CONNECTING: Final = 1  # ConnectionInfo is due
AUTHENTICATING: Final = 2  # ConnectionInfo has come; its login is being checked elsewhere
AUTHENTICATING_LAST: Final = 3  # the same, but the client sends no more: its commands are taken, then it leaves
OPEN: Final = 4
PAUSED: Final = 5  # too much waits at a gate: nothing more is read until some of it has passed
LEAVING: Final = 6  # ShutdownInfo was taken, or the client sends no more; owed responses are still sent
FAILING: Final = 7  # an error ends the connection, after owed responses
CLOSED: Final = 8  # the socket is gone

NEGOTIATED: Final = 0
CHECK: Final = 1
ADMIT: Final = 2
PAUSE: Final = 3
RESUME: Final = 4
LEAVE: Final = 5
HANG_UP: Final = 6  # the client has closed its side
FAIL: Final = 7
LOSE: Final = 8

_ENDING: Final = {
    (state, event): after
    for state in (NEGOTIATING, CONNECTING, OPEN, PAUSED)
    for event, after in ((LEAVE, LEAVING), (HANG_UP, LEAVING), (FAIL, FAILING), (LOSE, CLOSED))
}
TRANSITIONS: Final[dict[tuple[int, int], int]] = {
    (NEGOTIATING, NEGOTIATED): CONNECTING,
    (CONNECTING, CHECK): AUTHENTICATING,
    (CONNECTING, ADMIT): OPEN,
    (OPEN, PAUSE): PAUSED,
    (PAUSED, RESUME): OPEN,
    **_ENDING,
    (AUTHENTICATING, ADMIT): OPEN,
    (AUTHENTICATING, HANG_UP): AUTHENTICATING_LAST,
    (AUTHENTICATING, FAIL): FAILING,
    (AUTHENTICATING, LOSE): CLOSED,
    (AUTHENTICATING_LAST, ADMIT): OPEN,
    (AUTHENTICATING_LAST, HANG_UP): AUTHENTICATING_LAST,
    (AUTHENTICATING_LAST, FAIL): FAILING,
    (AUTHENTICATING_LAST, LOSE): CLOSED,
    (LEAVING, HANG_UP): LEAVING,
    (LEAVING, LOSE): CLOSED,
    (FAILING, HANG_UP): FAILING,
    (FAILING, LOSE): CLOSED,
}


def advance(state: int, event: int) -> int:
    """Return the state after ``event``; a missing row is our bug, never bad input."""
    after = TRANSITIONS.get((state, event))
    assert after is not None, f"no transition from {state} on {event}"
    return after


def is_open(state: int) -> bool:
    """Say whether the connection is introduced and does not end."""
    return state in (OPEN, PAUSED)
