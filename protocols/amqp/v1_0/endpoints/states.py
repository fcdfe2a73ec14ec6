"""The states of connections, sessions and links, and their events: the tables that code and tests read.

A row gives the state that follows an event.  A performative without a row is the peer's error: an illegal state on a
connection or a channel, a handle that is in use or unattached on a link.
Sources: AMQP 1.0 part 2, 2.4.6, 2.5.5, 2.6; part 5.
"""

from __future__ import annotations

from typing import Final

from protocols.amqp.v1_0.wire.composites.performatives import (
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    OPEN,
    TRANSFER,
)
from protocols.amqp.v1_0.wire.composites.sasl_frames import SaslInit, SaslResponse

# Events that are no performatives: the peer's other octets, and events of our own.
SASL_INIT: Final = SaslInit.CODE
SASL_RESPONSE: Final = SaslResponse.CODE
AMQP_HEADER: Final = -1
SASL_HEADER: Final = -2
CHECK: Final = -3  # a password is checked elsewhere
CHECKED: Final = -4  # the result of that check
LOGGED_IN: Final = -5
LEFT: Final = -6  # our own begin or attach was sent
FAIL: Final = -7  # we end it, and the peer knows

# -- connections (2.4.6, and the SASL layer in front of it)

LOGIN_DUE: Final = 0  # no octets yet; the header of SASL must come
START: Final = 1  # no octets yet
MECHANISM_DUE: Final = 2  # the peer chooses how to log in
RESPONSE_DUE: Final = 3  # it answers our challenge
CHECKING: Final = 4  # octets after its password wait
SASL_DONE: Final = 5  # the header of AMQP comes next
HDR_EXCH: Final = 6  # open comes next
OPENED: Final = 7
CLOSE_SENT: Final = 8  # nothing more is read; owed confirmations are still sent

CONNECTION: Final[dict[tuple[int, int], int]] = {
    (LOGIN_DUE, SASL_HEADER): MECHANISM_DUE,
    (START, SASL_HEADER): MECHANISM_DUE,
    (START, AMQP_HEADER): HDR_EXCH,
    (MECHANISM_DUE, SASL_INIT): RESPONSE_DUE,
    (RESPONSE_DUE, SASL_RESPONSE): RESPONSE_DUE,
    (RESPONSE_DUE, CHECK): CHECKING,
    (CHECKING, CHECKED): RESPONSE_DUE,
    (RESPONSE_DUE, LOGGED_IN): SASL_DONE,
    (SASL_DONE, AMQP_HEADER): HDR_EXCH,
    (HDR_EXCH, OPEN): OPENED,
    (OPENED, BEGIN): OPENED,
    (OPENED, ATTACH): OPENED,
    (OPENED, FLOW): OPENED,
    (OPENED, TRANSFER): OPENED,
    (OPENED, DISPOSITION): OPENED,
    (OPENED, DETACH): OPENED,
    (OPENED, END): OPENED,
    (OPENED, CLOSE): CLOSE_SENT,
}
for _state in range(CLOSE_SENT):
    CONNECTION[_state, FAIL] = CLOSE_SENT

# States that read no frames.
UNREAD: Final = frozenset((CHECKING, CLOSE_SENT))

# -- sessions, by the peer's channel (2.5.5)

UNMAPPED: Final = 0
BEGIN_RCVD: Final = 1  # our begin was not sent yet
MAPPED: Final = 2
SESSION_DISCARDING: Final = 3  # we sent an end with an error; frames are dropped until the peer's end

SESSION: Final[dict[tuple[int, int], int]] = {
    (UNMAPPED, BEGIN): BEGIN_RCVD,
    (UNMAPPED, LEFT): UNMAPPED,
    (BEGIN_RCVD, LEFT): MAPPED,
    (SESSION_DISCARDING, LEFT): SESSION_DISCARDING,
}
for _state in (BEGIN_RCVD, MAPPED, SESSION_DISCARDING):
    for _event in (ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH):
        SESSION[_state, _event] = _state
    SESSION[_state, END] = UNMAPPED
    SESSION[_state, FAIL] = SESSION_DISCARDING

# -- links, by the peer's handle (2.6.3 to 2.6.6)

DETACHED: Final = 0
ATTACH_RCVD: Final = 1  # our attach was not sent yet
ATTACHED: Final = 2
LINK_DISCARDING: Final = 3  # we sent a detach with an error; frames are dropped until the peer's detach

LINK: Final[dict[tuple[int, int], int]] = {
    (DETACHED, ATTACH): ATTACH_RCVD,
    (DETACHED, LEFT): DETACHED,
    (ATTACH_RCVD, LEFT): ATTACHED,
    (LINK_DISCARDING, LEFT): LINK_DISCARDING,
}
for _state in (ATTACH_RCVD, ATTACHED, LINK_DISCARDING):
    for _event in (FLOW, TRANSFER):
        LINK[_state, _event] = _state
    LINK[_state, DETACH] = DETACHED
    LINK[_state, FAIL] = LINK_DISCARDING


def advance(table: dict[tuple[int, int], int], state: int, event: int) -> int:
    """Return the state after ``event``; a missing row is our bug, never bad input."""
    after = table.get((state, event))
    assert after is not None, f"no row for state {state} and event {event}"
    return after
