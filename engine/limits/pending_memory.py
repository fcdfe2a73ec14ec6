"""Limits what waits in memory for one user, in subscriptions of topics and in browsers, while memory is nearly full.

Most of it goes to temporary files in time.  What does not, such as a few messages in each of thousands of
subscriptions, would shut the gate of every producer until its user takes it or leaves.  So while RESUME_PERCENT of the
room is used, a user with more than its share gives way: what can go to temporary files goes there; of the rest its
largest subscriptions lose their oldest messages, and its largest browsers end.

Each subscription counts its part of a message: the octets of the message by the number of its holders.
Source: ActiveMQ pendingMessageLimitStrategy, which limits each subscription by itself.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final, TypeVar

from engine.backlog.lane import Lane
from engine.backlog.memory_budget import MemoryBudget, part_of
from engine.backlog.spilled_blocks import BLOCK_OVERHEAD_BYTES
from engine.backlog.spiller import Spiller
from engine.consumers.turn_steps import Chore, Steps
from engine.sources.entry_readers import EntryReaders
from engine.sources.feed import DurableCursor, MemorySubscription
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.snapshot import Snapshot
from engine.sources.topics.named_subscription import NamedSubscription
from engine.values.broker_stats import PendingStats
from engine.values.delivery import EXPIRE, Delivery, advance
from engine.values.errors import SlowConsumer
from engine.values.message import Message

Seen = TypeVar("Seen")

PENDING_MEMORY: Final = "limits.pending-memory-per-user"
LEFT_PERCENT: Final = 90  # of the limit; a user that gives way keeps this much
GROWTH_PART: Final = 64  # the next check is due once a part of the budget is used that is one of so many
SAMPLES_MAX: Final = 64  # messages of a lane that are weighed; they stand for the others
WEIGHING_STEPS: Final = 5
DISCARDED_AT_ONCE: Final = 256
BLOCK_STEPS: Final = 200  # to write one out
LARGEST_SHOWN: Final = 10


@dataclass(slots=True, eq=False)
class Loss:
    """why: in words, of the last time.  dropped, ended: messages and browsers since the last line in the log."""

    why: str = ""
    dropped: int = 0
    ended: int = 0


@dataclass(slots=True, eq=False)
class PendingMemory:
    """The share of each user, or of each address where logins are not checked.

    limit_bytes: -1 for no limit.  waiting: by holder, the octets found at the last check.
    dropped: by holder, the messages dropped since the start.
    notices: by holder, what it lost and why, until it is logged.
    """

    limit_bytes: int
    _memory: MemoryBudget
    _spiller: Spiller | None
    _steps: Steps
    _observers: list[Observer]
    waiting: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    notices: dict[str, Loss] = field(default_factory=dict)
    _next_bytes: int = 0
    _relief: Relief | None = None

    def check(self, readers: EntryReaders) -> None:
        """Begin to relieve the memory if it is nearly full and has grown since the last time."""
        memory = self._memory
        if self.limit_bytes < 0 or self._relief is not None:
            return
        if memory.is_eased():
            self._next_bytes = 0
        elif memory.used_bytes >= self._next_bytes:
            self._relief = Relief(self, list(readers.queues.values()))
            memory.is_relieved = True
            self._steps.begin(self._relief)

    def checked(self) -> None:
        """A check has ended.  The next one comes with growth, and once more when the gate shuts."""
        memory = self._memory
        self._relief = None
        memory.is_relieved = False
        room_bytes = memory.room_bytes()
        self._next_bytes = memory.used_bytes + memory.limit_bytes // GROWTH_PART
        if memory.used_bytes < room_bytes:
            self._next_bytes = min(self._next_bytes, room_bytes)

    def stats(self) -> PendingStats:
        # Nothing is weighed while there is room, so what the last check found may have gone long ago.
        waiting = {} if self._memory.is_eased() else self.waiting
        return PendingStats(
            self.limit_bytes,
            dict(heapq.nlargest(LARGEST_SHOWN, waiting.items(), key=_second)),
            dict(heapq.nlargest(LARGEST_SHOWN, self.dropped.items(), key=_second)),
        )

    def describe_largest(self) -> str:
        """Return the holder for which most waits in words, "" if nothing does or before the first check."""
        holder, size_bytes = max(self.waiting.items(), key=_second, default=("", 0))
        return f"{size_bytes} octets wait in memory for {holder}, the most of all" if size_bytes else ""

    def describe_failure(self) -> str:
        """Return in words why memory is not relieved by temporary files, "" if the disk takes them."""
        reason = "" if self._spiller is None else self._spiller.reason
        return f"no temporary file can be written: {reason}" if reason else ""

    def remark(self, holder: str) -> str:
        """Return in words what a user has lost, "" for nothing."""
        count = self.dropped.get(holder, 0)
        return f"{count} messages that waited for {holder} were dropped ({PENDING_MEMORY})" if count else ""

    def take_notices(self) -> list[str]:
        """Return what users have lost since the last call, in words."""
        losses = [
            f"{one.why}; {one.dropped} messages were dropped, {one.ended} browsers ended"
            for one in self.notices.values()
        ]
        self.notices.clear()
        return losses

    def lost(self, holder: str, why: str, dropped_count: int, ended_count: int) -> None:
        """Note what a user has lost."""
        if dropped_count:
            self.dropped[holder] = self.dropped.get(holder, 0) + dropped_count
        loss = self.notices.setdefault(holder, Loss())
        loss.why = why
        loss.dropped += dropped_count
        loss.ended += ended_count

    # -- steps of a relief

    def write_out(self, queue: Queue) -> Iterator[int]:
        """Move what waits in a subscription to temporary files, as far as that is possible; yield steps."""
        if self._spiller is not None and queue.spiller is not None:
            for lane in queue.used_lanes:
                while self._spiller.write_out(lane):
                    yield BLOCK_STEPS

    def is_failing(self) -> bool:
        """Say whether the disk refuses temporary files; then producers wait, as it is nobody's fault."""
        return bool(self.describe_failure())

    def discard(self, queue: Queue, wanted_bytes: float) -> Iterator[int]:
        """Drop the oldest messages of a subscription, those of the lowest priority first; yield steps."""
        for lane in reversed(queue.used_lanes):
            while wanted_bytes > 0 and (found := _oldest(queue, lane)):
                for delivery in found:
                    wanted_bytes -= part_of(delivery.message)
                    self._drop(queue, delivery)
                yield 1 + len(found) // 2
            while wanted_bytes > 0 and self._spiller is not None and lane.spill is not None:
                count = queue.depth
                freed_bytes = self._spiller.blocks.discard_first(lane)
                if not freed_bytes:
                    break
                wanted_bytes -= freed_bytes
                yield 1 + count - queue.depth

    def _drop(self, queue: Queue, delivery: Delivery) -> None:
        delivery.state = advance(delivery.state, EXPIRE)
        queue.depth -= 1
        queue.dropped_count += 1
        for observer in self._observers:
            observer.discarded(queue, delivery.message)
        self._memory.release(delivery.message)


class Relief(Chore):
    """One check of all subscriptions and browsers, and what follows from it."""

    __slots__ = ("_pending", "_queues", "_work")

    def __init__(self, pending: PendingMemory, queues: list[Queue]) -> None:
        self._pending = pending
        self._queues = queues
        self._work = self._steps()

    def go_on(self, steps: Steps) -> bool:
        least = steps.left_to_others()
        for count in self._work:
            steps.left -= count
            if steps.left <= least:
                return False
        self._pending.checked()
        return True

    def _steps(self) -> Iterator[int]:
        pending = self._pending
        weights: dict[str, dict[Queue, float]] = {}
        for queue in self._queues:
            holder = holder_of_queue(queue)
            if holder:
                weights.setdefault(holder, {})[queue] = weight = _weigh(queue)
                yield WEIGHING_STEPS if weight else 1
        pending.waiting = {holder: int(sum(found.values())) for holder, found in weights.items()}
        for holder, found in weights.items():
            if pending.waiting[holder] > pending.limit_bytes:
                yield from self._relieve(holder, found)

    def _relieve(self, holder: str, found: dict[Queue, float]) -> Iterator[int]:
        """Let one user give way."""
        pending = self._pending
        for queue in found:
            is_written = False
            if not queue.is_closed:
                for steps in pending.write_out(queue):
                    is_written = True
                    yield steps
            if is_written:
                found[queue] = _weigh(queue)
            yield WEIGHING_STEPS if is_written else 1
        waiting_bytes = sum(found.values())
        pending.waiting[holder] = int(waiting_bytes)
        if waiting_bytes <= pending.limit_bytes or pending.is_failing():
            return
        level = _level(sorted(found.values(), reverse=True), pending.limit_bytes * LEFT_PERCENT // 100)
        text = (
            f"{int(waiting_bytes)} octets wait in memory for {holder}, in {len(found)} subscriptions and browsers; "
            f"the limit is {pending.limit_bytes} ({PENDING_MEMORY})"
        )
        dropped_count = ended_count = 0
        for queue, weight in found.items():
            if queue.is_closed or weight <= level:
                continue
            if queue.feed.is_browser:
                ended_count += _end(queue, text)
                continue
            count = queue.dropped_count
            yield from pending.discard(queue, weight - level)
            dropped_count += queue.dropped_count - count
        pending.waiting[holder] = int(sum(min(weight, level) for weight in found.values()))
        pending.lost(holder, text, dropped_count, ended_count)


def holder_of_queue(queue: Queue) -> str:
    """Return for whom the messages of a subscription or a browser wait, "" for nobody or anything else."""
    feed = queue.feed
    if isinstance(feed, MemorySubscription):
        return feed.holder
    if isinstance(feed, DurableCursor) and isinstance(feed.subscription, NamedSubscription):
        return feed.subscription.holder
    if not isinstance(feed, Snapshot):
        return ""
    consumer = next(iter(queue.consumers.values()), None)
    return "" if consumer is None else consumer.client.holder


def _weigh(queue: Queue) -> float:
    """Return the octets of the memory budget that are a queue's part; most messages are estimated."""
    weight = 0.0
    for lane in queue.used_lanes:
        for row in (lane.returned, lane.ready, lane.volatile):
            if row:
                weight += _weigh_messages(queue, (one.message for one in _some(row)), len(row))
        if lane.spill is not None:
            gathered = lane.spill.gathered.messages
            weight += len(lane.spill.blocks) * BLOCK_OVERHEAD_BYTES
            weight += _weigh_messages(queue, _some(gathered), len(gathered))
    return weight


def _some(row: Collection[Seen]) -> Iterator[Seen]:
    return islice(row, 0, None, len(row) // SAMPLES_MAX + 1)


def _weigh_messages(queue: Queue, sample: Iterable[Message], count: int) -> float:
    """sample: some of ``count`` messages, evenly."""
    parts = [part_of(message) if queue.is_in_memory(message) else 0.0 for message in sample]
    return sum(parts) * count / len(parts) if parts else 0.0


def _level(weights: list[float], left_bytes: float) -> float:
    """Return what each may keep at most, so that ``left_bytes`` are left of all ``weights``, largest first."""
    rest = sum(weights)
    for count, weight in enumerate(weights, 1):
        rest -= weight
        smaller = weights[count] if count < len(weights) else 0.0
        if rest + count * smaller <= left_bytes:
            return (left_bytes - rest) / count
    return 0.0


def _oldest(queue: Queue, lane: Lane) -> list[Delivery]:
    """Remove and return some of the oldest messages that wait in a lane and that only memory has."""
    lane.drop_taken()  # needed if a selection took deliveries out of order
    found: list[Delivery] = []
    if not queue.is_logged:
        while len(found) < DISCARDED_AT_ONCE and (delivery := lane.next_ready()) is not None:
            found.append(delivery)
        return found
    waiting = chain(lane.returned, lane.ready)
    found = list(islice((one for one in waiting if queue.is_in_memory(one.message)), DISCARDED_AT_ONCE))
    for delivery in found:
        lane.remove(delivery)
    while len(found) < DISCARDED_AT_ONCE and lane.volatile:
        found.append(lane.volatile.popleft())
    return found


def _end(view: Queue, why: str) -> int:
    """End the consumer of a browser; return whether there was one."""
    consumer = next(iter(view.consumers.values()), None)
    if consumer is None or consumer.departing() is not None:
        return 0
    consumer.client.expel(consumer.lead(), SlowConsumer(f"the browser of {view.uri()} is too slow: {why}"), False)
    return 1


def _second(pair: tuple[str, int]) -> int:
    return pair[1]
