"""The life of one message on one queue, or in one topic subscription, as a table of transitions; its failures."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from config.policies import Nack
from engine.values.message import Message
from engine.values.outcomes import CAUSE_NACK
from engine.values.stored import Attempts

# States.
READY: Final = 0
IN_FLIGHT: Final = 1
ENLISTED: Final = 2  # acknowledged or refused inside an open transaction
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
ENLIST: Final = 7
DELIST: Final = 8
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
    (IN_FLIGHT, ENLIST): ENLISTED,  # ACK or NACK inside a transaction: frees its place in the window
    (IN_FLIGHT, REFUSE): REFUSED,  # one of more refusals than one turn may process
    (REFUSED, RELEASE): READY,
    (REFUSED, FAIL): DELAYED,
    (REFUSED, EXHAUST): GONE,
    (ENLISTED, DELIST): IN_FLIGHT,  # ABORT: still delivered, may be acknowledged again
    (ENLISTED, ACKNOWLEDGE): GONE,  # COMMIT
    (ENLISTED, FAIL): DELAYED,  # COMMIT of a NACK
    (ENLISTED, EXHAUST): GONE,  # COMMIT of a NACK, the last one
    (ENLISTED, RELEASE): READY,  # COMMIT of a NACK that asks to requeue; ABORT after its consumer has closed
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
    is_redelivered: it was with a consumer before, counted or not, and an application may have seen it.
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


class FailureHistory:
    """first_ms, last_ms: wall clock of the first and the last failure.  consumer: the last consumer, in words.

    annotations: what consumers added to the message when they returned it, in their protocol's encoding; not in the
    log.
    """

    __slots__ = ("first_ms", "last_ms", "cause", "consumer", "annotations")

    def __init__(self, first_ms: int, last_ms: int, cause: int, consumer: str, annotations: bytes = b"") -> None:
        self.first_ms = first_ms
        self.last_ms = last_ms
        self.cause = cause
        self.consumer = consumer
        self.annotations = annotations


def restored(attempts: Attempts, consumer: Mapping[str, str]) -> FailureHistory:
    """Return what the log remembers of failures before the last start.  consumer: its description in the store."""
    who = consumer_words(consumer)
    return FailureHistory(attempts.first_ms, attempts.last_ms, attempts.cause, who)


def consumer_words(description: Mapping[str, str]) -> str:
    """Return a consumer in words: client id or login, address, subscription; "" if nothing is known."""
    who = description.get("client_id") or description.get("login") or ""
    words = " at ".join(word for word in (who, description.get("address", "")) if word)
    subscription = description.get("subscription", "")
    return ", ".join(word for word in (words, f"subscription {subscription}" if subscription else "") if word)


INTERVAL_MS: Final = 1_000
SAMPLES_MAX: Final = 20_000  # more than five hours; earlier deliveries count as "longer ago"


class HandOvers:
    """Samples of (tag, wall ms): deliveries from this tag on were handed over at that time or later."""

    __slots__ = ("samples", "next_ms")

    def __init__(self) -> None:
        self.samples: deque[tuple[int, int]] = deque(maxlen=SAMPLES_MAX)
        self.next_ms = 0

    def sample(self, next_tag: int, wall_ms: int) -> None:
        """Record the time before ``next_tag`` is handed over; call it once ``next_ms`` has passed."""
        self.next_ms = wall_ms + INTERVAL_MS
        if self.samples and self.samples[-1][0] == next_tag:
            self.samples.pop()  # nothing was handed over since
        self.samples.append((next_tag, wall_ms))

    def since_ms(self, tag: int) -> int:
        """Return the time at or shortly after which ``tag`` was handed over, 0 if that is too long ago to know."""
        index = bisect_right(self.samples, tag, key=_tag) - 1
        return self.samples[index][1] if index >= 0 else 0


def _tag(sample: tuple[int, int]) -> int:
    return sample[0]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A negative answer to a delivery, in the engine's words: NACK, released, rejected, modified, a rollback.

    mode: redeliver (counts as an attempt and waits), dead-letter (at once), requeue (back to its place, not counted);
    None means the address setting.
    delay_ms: the wait, instead of the policy's; None for the policy's own delay.  A requeued delivery waits only if
    this is given.
    text: the client's own words, kept with a dead letter.
    is_excluding: this consumer must not get it again.
    annotations: all annotations for its next receiver; b"" keeps those that were added before.
    """

    mode: Nack | None = None
    delay_ms: int | None = None
    cause: int = CAUSE_NACK
    text: str = ""
    is_excluding: bool = False
    annotations: bytes = b""


AS_THE_ADDRESS_SAYS: Final = Refusal()
ROLLED_BACK: Final = Refusal("redeliver", 0)
ROLLED_BACK_LATER: Final = Refusal("redeliver")
