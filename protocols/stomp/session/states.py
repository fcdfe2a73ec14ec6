"""The states of a STOMP connection, and the events that change them.

    CONNECTING ------ADMIT------> OPEN ---LEAVE, HANG_UP---> LEAVING ---LOSE---> CLOSED
        |                        | ^ |                          ^
      CHECK                  PAUSE | WAIT                     LEAVE
        v                        v | v                          |
    AUTHENTICATING --ADMIT-->  PAUSED  DISCONNECTING -----------+

FAIL leads to FAILING from every state that still accepts frames, LOSE to CLOSED from every state.
"""

from __future__ import annotations

from typing import Final

CONNECTING: Final = 0  # only CONNECT is accepted
AUTHENTICATING: Final = 1  # CONNECT has come; its login is being checked elsewhere
AUTHENTICATING_LAST: Final = 2  # the same, but the client sends no more: its frames are taken, then it leaves
OPEN: Final = 3
PAUSED: Final = 4  # too much waits at a gate: nothing more is read until some of it has passed
DISCONNECTING: Final = 5  # DISCONNECT waits behind frames at a gate; later frames are ignored
LEAVING: Final = 6  # DISCONNECT was taken, or the client sends no more; owed confirmations are still sent
FAILING: Final = 7  # an ERROR ends the connection, after owed confirmations
CLOSED: Final = 8  # the socket is gone

CHECK: Final = 0  # CONNECT needs a login that is checked elsewhere
ADMIT: Final = 1  # CONNECTED is sent
PAUSE: Final = 2
RESUME: Final = 3
WAIT: Final = 4  # DISCONNECT came while frames wait at a gate
LEAVE: Final = 5  # DISCONNECT came, or its turn has come
HANG_UP: Final = 6  # the client has closed its side
FAIL: Final = 7
LOSE: Final = 8
EVENT_COUNT: Final = 9

TRANSITIONS: Final[dict[tuple[int, int], int]] = {
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
    (OPEN, WAIT): DISCONNECTING,
    (OPEN, LEAVE): LEAVING,
    (OPEN, HANG_UP): LEAVING,
    (OPEN, FAIL): FAILING,
    (OPEN, LOSE): CLOSED,
    (PAUSED, RESUME): OPEN,
    (PAUSED, HANG_UP): LEAVING,
    (PAUSED, FAIL): FAILING,
    (PAUSED, LOSE): CLOSED,
    (DISCONNECTING, LEAVE): LEAVING,
    (DISCONNECTING, HANG_UP): DISCONNECTING,
    (DISCONNECTING, FAIL): FAILING,
    (DISCONNECTING, LOSE): CLOSED,
    # No FAIL, no LEAVE: frames are no longer taken, and the engine has dropped the connection's consumers and waits.
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
    """Say whether CONNECTED was sent, and no ERROR or end followed."""
    return OPEN <= state <= DISCONNECTING


def is_ending(state: int) -> bool:
    """Say whether no more frames are accepted."""
    return state >= LEAVING
