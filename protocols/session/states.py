"""The states of a connection with one session, and the events that change them; each protocol adds its own rows.

    CONNECTING ------ADMIT------> OPEN ---LEAVE, HANG_UP---> LEAVING ---LOSE---> CLOSED
        |                         | ^
      CHECK                   PAUSE | RESUME
        v                         v |
    AUTHENTICATING ---ADMIT---> PAUSED

FAIL leads to FAILING from every state that still accepts frames, LOSE to CLOSED from every state.
"""

from __future__ import annotations

from typing import Final

NEGOTIATING: Final = 0  # OpenWire: only WireFormatInfo is accepted
CONNECTING: Final = 1  # only the frame that introduces the client is accepted
AUTHENTICATING: Final = 2  # it has come; its login is being checked elsewhere
AUTHENTICATING_LAST: Final = 3  # the same, but the client sends no more: its frames are taken, then it leaves
OPEN: Final = 4
PAUSED: Final = 5  # too much waits at a gate: nothing more is read until some of it has passed
DISCONNECTING: Final = 6  # STOMP: DISCONNECT waits behind frames at a gate; later frames are ignored
LEAVING: Final = 7  # the client has said goodbye, or sends no more; owed confirmations are still sent
FAILING: Final = 8  # an error ends the connection, after owed confirmations
CLOSED: Final = 9  # the socket is gone

NEGOTIATED: Final = 0  # OpenWire: both sides agree on a version
CHECK: Final = 1  # the client needs a login that is checked elsewhere
ADMIT: Final = 2
PAUSE: Final = 3
RESUME: Final = 4
WAIT: Final = 5  # STOMP: DISCONNECT came while frames wait at a gate
LEAVE: Final = 6  # the client's goodbye came, or its turn has come
HANG_UP: Final = 7  # the client has closed its side
FAIL: Final = 8
LOSE: Final = 9

COMMON: Final[dict[tuple[int, int], int]] = {
    (CONNECTING, CHECK): AUTHENTICATING,
    (CONNECTING, ADMIT): OPEN,
    (CONNECTING, HANG_UP): LEAVING,
    (CONNECTING, FAIL): FAILING,
    (CONNECTING, LOSE): CLOSED,
    (AUTHENTICATING, ADMIT): OPEN,
    (AUTHENTICATING, HANG_UP): AUTHENTICATING_LAST,
    (AUTHENTICATING, FAIL): FAILING,
    (AUTHENTICATING, LOSE): CLOSED,
    (AUTHENTICATING_LAST, ADMIT): OPEN,
    (AUTHENTICATING_LAST, HANG_UP): AUTHENTICATING_LAST,
    (AUTHENTICATING_LAST, FAIL): FAILING,
    (AUTHENTICATING_LAST, LOSE): CLOSED,
    (OPEN, PAUSE): PAUSED,
    (OPEN, LEAVE): LEAVING,
    (OPEN, HANG_UP): LEAVING,
    (OPEN, FAIL): FAILING,
    (OPEN, LOSE): CLOSED,
    (PAUSED, RESUME): OPEN,
    (PAUSED, HANG_UP): LEAVING,
    (PAUSED, FAIL): FAILING,
    (PAUSED, LOSE): CLOSED,
    # No FAIL, no LEAVE: frames are no longer taken, and the engine has dropped the connection's consumers and waits.
    (LEAVING, HANG_UP): LEAVING,
    (LEAVING, LOSE): CLOSED,
    (FAILING, HANG_UP): FAILING,
    (FAILING, LOSE): CLOSED,
}


def advance(transitions: dict[tuple[int, int], int], state: int, event: int) -> int:
    """Return the state after ``event``; a missing row is our bug, never bad input."""
    after = transitions.get((state, event))
    assert after is not None, f"no transition from {state} on {event}"
    return after


def is_open(state: int) -> bool:
    """Say whether the client is introduced and admitted, and no error or end followed."""
    return OPEN <= state <= DISCONNECTING
