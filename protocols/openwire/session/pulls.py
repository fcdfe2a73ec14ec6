"""MessagePull: one message on demand, for consumers without a prefetch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.consumers.consumer import Consumer
from engine.values import gates
from protocols.openwire.connection.negotiation import Terms
from protocols.openwire.session.open_consumer import OpenConsumer
from protocols.openwire.wire.identities import ConsumerId

NO_WAIT: Final = -1  # in a MessagePull: a message that is there, or nothing
WAIT_ALWAYS: Final = 0
TICK_MS: Final = 20  # between looks at pulls that wait for the disk
PULLS_MOST: Final = 1_000  # of one consumer; clients have one
NEVER_MS: Final = 1 << 62

MAY_STILL_COME: Final = frozenset(
    (gates.OPEN, gates.PAGING, gates.SOCKET_PAUSED, gates.SESSION_WINDOW, gates.REFUSING, gates.RATE)
)


@dataclass(slots=True, eq=False)
class Pulls:
    """waiting: consumers with pulls.  out: the connection's output of this turn.

    ``OpenConsumer.pulls`` has the time at which each gives up: NO_WAIT, WAIT_ALWAYS or monotonic.
    """

    out: list[bytes]
    terms: Terms
    waiting: dict[ConsumerId, OpenConsumer] = field(default_factory=dict)

    def add(self, found: OpenConsumer, timeout_ms: int, now_ms: int) -> None:
        consumer = found.consumer
        if consumer is None or not found.is_pulling() or len(found.pulls) >= PULLS_MOST:
            return
        found.pulls.append(now_ms + timeout_ms if timeout_ms > 0 else timeout_ms)
        self.waiting[found.consumer_id] = found
        consumer.grant(len(found.pulls))

    def forget(self, found: OpenConsumer) -> None:
        self.waiting.pop(found.consumer_id, None)

    def finish(self, now_ms: int) -> None:
        """Answer the pulls that find nothing: those that do not wait, and those whose time is over."""
        for found in list(self.waiting.values()):
            consumer = found.consumer
            if consumer is None or not found.pulls:
                self.forget(found)
                continue
            left = [one for one in found.pulls if not self._is_over(one, consumer, now_ms)]
            over = len(found.pulls) - len(left)
            if over:
                found.pulls = left
                consumer.grant(len(left))
                self.out.append(found.nothing(self.terms.version) * over)

    def next_ms(self, now_ms: int, otherwise_ms: int) -> int:
        """Return when to look again."""
        for found in self.waiting.values():
            for due_ms in found.pulls:
                if due_ms == NO_WAIT:
                    return min(otherwise_ms, TICK_MS)
                if due_ms > 0:
                    otherwise_ms = min(otherwise_ms, max(1, due_ms - now_ms))
        return otherwise_ms

    def is_due(self, now_ms: int) -> bool:
        """Say whether the end of this turn must look at them."""
        return bool(self.waiting) and any(
            one < 0 or 0 < one <= now_ms for found in self.waiting.values() for one in found.pulls
        )

    def _is_over(self, due_ms: int, consumer: Consumer, now_ms: int) -> bool:
        if due_ms == WAIT_ALWAYS:
            return False
        if due_ms > 0:
            return due_ms <= now_ms
        siblings = consumer.siblings
        if siblings is None:
            return consumer.gate() not in MAY_STILL_COME
        return siblings.beyond(0, MAY_STILL_COME) == len(siblings.members)
