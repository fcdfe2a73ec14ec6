"""MessagePull: one message on demand, for consumers without a prefetch."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

from engine.consumers.consumer import Consumer
from engine.values import gates
from protocols.openwire.session.open_consumer import NO_PULL, OpenConsumer
from protocols.openwire.wire.identities import ConsumerId

NO_WAIT: Final = -1  # in a MessagePull: a message that is there, or nothing
WAIT_ALWAYS: Final = 0
TICK_MS: Final = 20  # between looks at pulls that wait for the disk
ANSWERED_MOST: Final = 200  # consumers in a turn
NEVER_MS: Final = 1 << 62
TIMES_SPARE: Final = 100  # times of pulls that are over, beside twice as many as there are consumers

MAY_STILL_COME: Final = frozenset(
    (gates.OPEN, gates.PAGING, gates.SOCKET_PAUSED, gates.SESSION_WINDOW, gates.REFUSING, gates.RATE)
)


@dataclass(slots=True, eq=False)
class Pulls:
    """waiting: consumers with pulls.  asking: those of them that do not wait.  out: the connection's output.

    ``OpenConsumer.pull_ms`` is the time at which it gives up: NO_WAIT, WAIT_ALWAYS or monotonic.  A new pull replaces
    the one before: a client that asks again has given that up, or has found a message that it delivers to itself.
    times: of the latter, the next one first, with the consumer.
    """

    out: list[bytes]
    waiting: dict[ConsumerId, OpenConsumer] = field(default_factory=dict)
    asking: dict[ConsumerId, OpenConsumer] = field(default_factory=dict)
    _times: list[tuple[int, ConsumerId]] = field(default_factory=list)

    def add(self, found: OpenConsumer, timeout_ms: int, now_ms: int) -> None:
        consumer = found.consumer
        if consumer is None or not found.is_pulling():
            return
        self.asking.pop(found.consumer_id, None)
        found.pull_ms = timeout_ms
        if timeout_ms > 0:
            found.pull_ms = min(NEVER_MS, now_ms + timeout_ms)
            self._note(found)
        elif timeout_ms < 0:
            found.pull_ms = NO_WAIT
            self.asking[found.consumer_id] = found
        self.waiting[found.consumer_id] = found
        consumer.grant(1)

    def forget(self, found: OpenConsumer) -> None:
        self.waiting.pop(found.consumer_id, None)
        self.asking.pop(found.consumer_id, None)

    def clear(self) -> None:
        self.waiting.clear()
        self.asking.clear()
        self._times.clear()

    def finish(self, now_ms: int) -> None:
        """Answer the pulls that find nothing: those that do not wait, and those whose time is over."""
        due = list(self.asking.values())[:ANSWERED_MOST]
        times = self._times
        while times and times[0][0] <= now_ms and len(due) < ANSWERED_MOST:
            found = self.waiting.get(heappop(times)[1])
            if found is not None:
                due.append(found)
        for one in due:
            self._answer(one, now_ms)

    def next_ms(self, now_ms: int, otherwise_ms: int) -> int:
        """Return when to look again."""
        if self.asking:
            otherwise_ms = min(otherwise_ms, TICK_MS)
        if self._times:
            otherwise_ms = min(otherwise_ms, max(1, self._times[0][0] - now_ms))
        return otherwise_ms

    def is_due(self, now_ms: int) -> bool:
        """Say whether the end of this turn must look at them."""
        return bool(self.asking) or (bool(self._times) and self._times[0][0] <= now_ms)

    # -- the steps

    def _note(self, found: OpenConsumer) -> None:
        """Keep the time of a pull, and drop those that are over when they are many."""
        heappush(self._times, (found.pull_ms, found.consumer_id))
        if len(self._times) > 2 * len(self.waiting) + TIMES_SPARE:
            waiting = self.waiting
            self._times = [(due, name) for due, name in self._times if name in waiting and waiting[name].pull_ms == due]
            heapify(self._times)

    def _answer(self, found: OpenConsumer, now_ms: int) -> None:
        consumer = found.consumer
        if consumer is None or found.pull_ms == NO_PULL:
            self.forget(found)
        elif self._is_over(found.pull_ms, consumer, now_ms):
            self.forget(found)
            found.pull_ms = NO_PULL
            consumer.grant(0)
            self.out.append(found.nothing())

    def _is_over(self, due_ms: int, consumer: Consumer, now_ms: int) -> bool:
        if due_ms == WAIT_ALWAYS:
            return False
        if due_ms > 0:
            return due_ms <= now_ms
        siblings = consumer.siblings
        if siblings is None:
            return consumer.gate() not in MAY_STILL_COME
        return siblings.beyond(0, MAY_STILL_COME) == len(siblings.members)
