"""The life of one message on one queue, or in one topic subscription, as a table of transitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.values.failed_attempts import FailureHistory
from engine.values.message import Message

if TYPE_CHECKING:
    from engine.backlog.lane import Lane
    from engine.consumers.consumer import Consumer

# States.
READY: Final = 0
IN_FLIGHT: Final = 1
HELD: Final = 2  # acknowledged or refused inside an open transaction
DELAYED: Final = 3
GONE: Final = 4
STATE_COUNT: Final = 5

# Events.
DISPATCH: Final = 0
ACKNOWLEDGE: Final = 1
RELEASE: Final = 2
FAIL: Final = 3
EXHAUST: Final = 4
TIMER: Final = 5
EXPIRE: Final = 6
HOLD: Final = 7
UNHOLD: Final = 8
DROP: Final = 9
EVENT_COUNT: Final = 10

TRANSITIONS: Final[dict[tuple[int, int], int]] = {
    (READY, DISPATCH): IN_FLIGHT,
    (READY, EXPIRE): GONE,
    (READY, DROP): GONE,  # a newer message has taken its place
    (IN_FLIGHT, ACKNOWLEDGE): GONE,
    (IN_FLIGHT, RELEASE): READY,  # consumer closed, or asked for a plain return: not an attempt by itself
    (IN_FLIGHT, FAIL): DELAYED,  # NACK: waits for the policy's delay
    (IN_FLIGHT, EXHAUST): GONE,  # moved to the dead-letter address, or dropped where there is none
    (IN_FLIGHT, HOLD): HELD,  # ACK or NACK inside a transaction: its place in the window is free
    (HELD, UNHOLD): IN_FLIGHT,  # ABORT: still delivered, may be acknowledged again
    (HELD, ACKNOWLEDGE): GONE,  # COMMIT
    (HELD, FAIL): DELAYED,  # COMMIT of a NACK
    (HELD, EXHAUST): GONE,  # COMMIT of a NACK, the last one
    (HELD, RELEASE): READY,  # COMMIT of a NACK that asks for a plain return; ABORT after its consumer has closed
    (DELAYED, TIMER): READY,
    (DELAYED, DROP): GONE,  # its record can no longer be read, and the operator asked to go on without it
}

_NONE: Final = 255
_FLAT: Final = bytes(
    TRANSITIONS.get((state, event), _NONE) for state in range(STATE_COUNT) for event in range(EVENT_COUNT)
)


def advance(state: int, event: int) -> int:
    """Return the state after ``event``; a missing row is our bug, never bad input."""
    after = _FLAT[state * EVENT_COUNT + event]
    assert after != _NONE, f"no transition from state {state} on event {event}"
    return after


class Delivery:
    """One message handed, or waiting to be handed, to one consumer of a queue.

    position: its place in the lane; a persistent message's is its queue offset shifted left by 32 bits.
    failed_attempts: how often it came back counted; JMSXDeliveryCount is one more.
    is_redelivered: it has been with a consumer before, counted or not.
    tag: number of the hand-over, ascending over the broker.  key: the adapter's name for it.
    history: of its failures, None before the first.
    """

    __slots__ = (
        "message",
        "lane",
        "position",
        "state",
        "consumer",
        "tag",
        "failed_attempts",
        "is_redelivered",
        "key",
        "history",
    )

    def __init__(self, message: Message, lane: Lane, position: int) -> None:
        self.message = message
        self.lane = lane
        self.position = position
        self.state = READY
        self.consumer: Consumer | None = None
        self.tag = 0
        self.failed_attempts = 0
        self.is_redelivered = False
        self.key = b""
        self.history: FailureHistory | None = None
