"""The life of one message on one queue, or in one topic subscription, as a table of transitions."""

from __future__ import annotations

from typing import Final

from engine.values.failed_attempts import FailureHistory
from engine.values.message import Message

# States.
READY: Final = 0
IN_FLIGHT: Final = 1
HELD: Final = 2  # acknowledged or refused inside an open transaction
DELAYED: Final = 3
GONE: Final = 4
REFUSED: Final = 5  # by its client; its fate is decided in this turn or a later one
STATE_COUNT: Final = 6

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
REFUSE: Final = 10
EVENT_COUNT: Final = 11

TRANSITIONS: Final[dict[tuple[int, int], int]] = {
    (READY, DISPATCH): IN_FLIGHT,
    (READY, EXPIRE): GONE,
    (READY, DROP): GONE,  # a newer message has taken its place
    (IN_FLIGHT, ACKNOWLEDGE): GONE,
    (IN_FLIGHT, RELEASE): READY,  # consumer closed, or asked to requeue: not counted as an attempt
    (IN_FLIGHT, FAIL): DELAYED,  # NACK: waits for the policy's delay
    (IN_FLIGHT, EXHAUST): GONE,  # moved to the dead-letter address, or dropped where there is none
    (IN_FLIGHT, HOLD): HELD,  # ACK or NACK inside a transaction: frees its place in the window
    (IN_FLIGHT, REFUSE): REFUSED,  # one of more refusals than one turn may process
    (REFUSED, RELEASE): READY,
    (REFUSED, FAIL): DELAYED,
    (REFUSED, EXHAUST): GONE,
    (HELD, UNHOLD): IN_FLIGHT,  # ABORT: still delivered, may be acknowledged again
    (HELD, ACKNOWLEDGE): GONE,  # COMMIT
    (HELD, FAIL): DELAYED,  # COMMIT of a NACK
    (HELD, EXHAUST): GONE,  # COMMIT of a NACK, the last one
    (HELD, RELEASE): READY,  # COMMIT of a NACK that asks to requeue; ABORT after its consumer has closed
    (DELAYED, TIMER): READY,
    (DELAYED, DROP): GONE,  # its record can no longer be read, and the operator allows to skip it
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


class LaneBase:
    """A lane as its deliveries see it; the lane itself is ``engine.backlog.lane.Lane``."""

    __slots__ = ("priority",)

    def __init__(self, priority: int) -> None:
        self.priority = priority


class ConsumerBase:
    """A consumer as its deliveries see it; the consumer itself is ``engine.consumers.consumer.Consumer``.

    furthest_tag: the furthest acknowledged tag, including those of rolled-back transactions; 0 for no sign of life.
    adapter: the protocol session's own object for this subscription; the engine never reads it.
    """

    __slots__ = ("consumer_id", "ack_mode", "name", "is_closed", "acknowledged_count", "furthest_tag", "adapter")

    def __init__(self, consumer_id: int, ack_mode: int, name: str) -> None:
        self.consumer_id = consumer_id
        self.ack_mode = ack_mode
        self.name = name
        self.is_closed = False
        self.acknowledged_count = 0
        self.furthest_tag = 0
        self.adapter: object = None


class Delivery:
    """One message that is, or waits to be, with one consumer of a queue.

    position: its place in the lane; for a persistent message, its queue offset shifted left by 32 bits.
    failed_attempts: returns that counted as an attempt; JMSXDeliveryCount is one more.
    is_redelivered: it was with a consumer before, counted or not.
    tag: number of the hand-over, ascending across the broker.  key: the adapter's name for it.
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

    def __init__(self, message: Message, lane: LaneBase, position: int) -> None:
        self.message = message
        self.lane = lane
        self.position = position
        self.state = READY
        self.consumer: ConsumerBase | None = None
        self.tag = 0
        self.failed_attempts = 0
        self.is_redelivered = False
        self.key = b""
        self.history: FailureHistory | None = None
