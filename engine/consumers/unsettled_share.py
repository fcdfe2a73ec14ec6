"""Limits the memory that unsettled deliveries of one user may take; of one address where logins are not checked.

Deliveries in flight cannot be spilled, nor read again before they come back.  So a user that settles nothing could take
all of the memory, and every other user's producers would wait.

A window pays for small messages in units, several ahead, so most of them cost nothing to count; larger ones are counted
by octets.  Once a share is nearly used up, units paid ahead are taken back, and each message is counted by itself until
there is room again.
"""

from __future__ import annotations

import heapq
from typing import Final

from engine.backlog.memory import MESSAGE_OVERHEAD_BYTES
from engine.consumers.consumer import Consumer
from engine.consumers.stake import StakeBase
from engine.consumers.turn_steps import Chore, Steps
from engine.consumers.window import Window
from engine.values.delivery import ConsumerBase

UNSETTLED_MEMORY: Final = "limits.unsettled-memory-per-user"
UNIT_BYTES: Final = 2_048  # cost of a small message, with its overhead
SMALL_BYTES: Final = UNIT_BYTES - MESSAGE_OVERHEAD_BYTES
AHEAD_UNITS: Final = 32  # the most that a window pays for ahead
RESUME_PERCENT: Final = 90  # of the limit; consumers that hold messages wait until usage is down to this
MOST_PERCENT: Final = 125  # of the limit; consumers that hold nothing get a message up to this
RESUME_EMPTY_PERCENT: Final = 112  # of the limit; those wait, too, until usage is down to this
NOT_LIMITED: Final = 2**62  # more octets than there can be
LARGEST_SHOWN: Final = 10


class WindowStake(StakeBase):
    """The part of a share that one window uses.

    larger_bytes: of the messages in flight, octets beyond a unit.
    held_bytes, held_count: of messages held by open transactions, which have no place in the window.
    consumer_count: consumers that share the window; 0 once they have gone.
    """

    __slots__ = ("window", "consumer_count", "larger_bytes", "held_bytes", "held_count", "_share")

    def __init__(self, share: UnsettledShare, window: Window) -> None:
        super().__init__()
        self.window = window
        self.consumer_count = 0
        self.larger_bytes = 0
        self.held_bytes = 0
        self.held_count = 0
        self._share = share
        self.counts_above = -1 if share.is_exact else SMALL_BYTES

    def bytes(self) -> int:
        """Return the octets in flight and in transactions."""
        in_flight = self.window.in_flight if self.consumer_count else 0
        return in_flight * UNIT_BYTES + self.larger_bytes + self.held_bytes

    def cover(self, in_flight: int, most: int) -> None:
        if self.consumer_count == 0:
            return
        units = in_flight
        if not self._share.is_exact:
            units = max(in_flight, min(2 * self.units, in_flight + AHEAD_UNITS, most))
        more = units - self.units
        if more > 0:
            self.units = units
            self._share.take(more * UNIT_BYTES)

    def admits(self, in_flight: int) -> bool:
        share = self._share
        if not share.is_exact and self.counts_above < 0:
            self.counts_above = SMALL_BYTES
            self.window.arm()
        if not share.is_over:
            return True
        return in_flight == 0 and self.held_count == 0 and not share.is_past(MOST_PERCENT)

    def wait(self, consumer: ConsumerBase) -> None:
        share = self._share
        waiting = share.waiting if self.window.in_flight or self.held_count else share.empty
        assert isinstance(consumer, Consumer), "only consumers wait for memory"
        waiting[consumer.consumer_id] = consumer

    def take(self, size_bytes: int) -> None:
        if size_bytes > SMALL_BYTES and self.consumer_count:
            self.larger_bytes += size_bytes - SMALL_BYTES
            self._share.take(size_bytes - SMALL_BYTES)

    def give_back(self, size_bytes: int, in_flight: int) -> None:
        if self.consumer_count == 0:
            return
        share = self._share
        freed_bytes = 0
        if size_bytes > SMALL_BYTES:
            freed_bytes = size_bytes - SMALL_BYTES
            self.larger_bytes -= freed_bytes
        if share.is_exact and self.units > in_flight:
            freed_bytes += (self.units - in_flight) * UNIT_BYTES
            self.units = in_flight
            self.window.arm()
        if freed_bytes:
            share.give_back(freed_bytes)

    def hold(self, size_bytes: int, is_held: bool) -> None:
        held_bytes = max(size_bytes + MESSAGE_OVERHEAD_BYTES, UNIT_BYTES)
        if is_held:
            self.held_count += 1
            self.held_bytes += held_bytes
            self._share.take(held_bytes)
            return
        self.held_count -= 1
        self.held_bytes -= held_bytes
        self._share.give_back(held_bytes)
        if self.consumer_count == 0 and self.held_count == 0:
            self._share.remove(self)

    def count_exactly(self) -> None:
        """Pay for nothing ahead, and count every message individually."""
        self.units = self.window.in_flight
        self.counts_above = -1
        self.window.arm()

    def joined(self) -> None:
        """One more consumer has this window."""
        self.consumer_count += 1

    def left(self, consumer_id: int) -> None:
        """A consumer has gone; after the last one only what transactions hold is left."""
        self.consumer_count -= 1
        self._share.waiting.pop(consumer_id, None)
        self._share.empty.pop(consumer_id, None)
        if self.consumer_count == 0:
            freed_bytes = self.units * UNIT_BYTES + self.larger_bytes
            self.units = self.larger_bytes = 0
            self._share.give_back(freed_bytes)
            if self.held_count == 0:
                self._share.remove(self)

    def describe(self) -> str:
        return self._share.describe()


class UnsettledShare:
    """One holder's usage over the windows of all its consumers, and the consumers that wait for it to fall.

    holder: in words, "" for none.  used_bytes: including what is paid ahead.
    is_exact: nothing is paid ahead, and each message is counted.
    is_over: the limit was reached, and ``used_bytes`` has not fallen to RESUME_PERCENT since.
    waiting: consumers that get no more until then.  empty: those that hold nothing, and may get one message.
    """

    __slots__ = ("holder", "limit_bytes", "used_bytes", "stakes", "is_exact", "is_over", "waiting", "empty", "_shares")

    def __init__(self, holder: str, shares: UnsettledShares) -> None:
        self.holder = holder
        self.limit_bytes = shares.limit_bytes if shares.limit_bytes >= 0 else NOT_LIMITED
        self.used_bytes = 0
        self.stakes: dict[WindowStake, None] = {}
        self.is_exact = False
        self.is_over = False
        self.waiting: dict[int, Consumer] = {}
        self.empty: dict[int, Consumer] = {}
        self._shares = shares

    def unsettled_bytes(self) -> int:
        """Return what its consumers and transactions hold, without what is paid ahead."""
        return sum([stake.bytes() for stake in self.stakes])

    def is_past(self, percent: int) -> bool:
        """Say whether at least ``percent`` of the limit is used."""
        return self.used_bytes * 100 >= self.limit_bytes * percent

    def take(self, size_bytes: int) -> None:
        """Add to the usage."""
        self.used_bytes += size_bytes
        if self.used_bytes >= self.limit_bytes and not self.is_over:
            self._fill()

    def give_back(self, size_bytes: int) -> None:
        """Subtract from the usage, and wake consumers that may continue."""
        self.used_bytes -= size_bytes
        if not self.is_exact:
            return
        if self.used_bytes * 100 <= self.limit_bytes * RESUME_PERCENT:
            self.is_exact = self.is_over = False
            self._shares.wake(self.waiting)
        if self.used_bytes * 100 < self.limit_bytes * RESUME_EMPTY_PERCENT:
            self._shares.wake(self.empty)

    def remove(self, stake: WindowStake) -> None:
        """Remove a stake without usage; without this reference its window is freed at once."""
        del self.stakes[stake]
        stake.window.stake = None
        if not self.stakes:
            del self._shares.by_holder[self.holder]

    def describe(self) -> str:
        return (
            f"{self.holder} holds {self.used_bytes} octets unsettled, the limit is {self.limit_bytes} "
            f"({UNSETTLED_MEMORY}); resumes at {self.limit_bytes * RESUME_PERCENT // 100}"
        )

    def _fill(self) -> None:
        """The limit is reached: take back what is paid ahead, and check again."""
        if not self.is_exact:
            self.is_exact = True
            for stake in self.stakes:
                stake.count_exactly()
            self.used_bytes = self.unsettled_bytes()
        if self.used_bytes >= self.limit_bytes:
            self.is_over = True
        elif self.used_bytes * 100 <= self.limit_bytes * RESUME_PERCENT:
            self.is_exact = False


class UnsettledShares:
    """The shares of all holders that have consumers.  limit_bytes: per holder, -1 for no limit."""

    __slots__ = ("limit_bytes", "by_holder", "_steps")

    def __init__(self, limit_bytes: int, steps: Steps) -> None:
        self.limit_bytes = limit_bytes
        self.by_holder: dict[str, UnsettledShare] = {}
        self._steps = steps

    def enter(self, holder: str, window: Window) -> None:
        """Count a window for one more consumer.  holder: as in ``Client``."""
        stake = window.stake
        if stake is None:
            if not holder:
                return
            share = self.by_holder.get(holder)
            if share is None:
                share = self.by_holder[holder] = UnsettledShare(holder, self)
            stake = WindowStake(share, window)
            share.stakes[stake] = None
            window.limit_memory(stake)
        assert isinstance(stake, WindowStake), "there is one kind of stake"
        stake.joined()

    def leave(self, consumer: Consumer) -> None:
        """A consumer has closed."""
        stake = consumer.window.stake
        if isinstance(stake, WindowStake):
            stake.left(consumer.consumer_id)

    def wake(self, consumers: dict[int, Consumer]) -> None:
        """Let consumers try again, in the order in which they came."""
        if consumers:
            self._steps.begin(_Wakening(list(consumers.values())))
            self._steps.need_a_turn()
            consumers.clear()

    def largest(self) -> dict[str, int]:
        """Return the usage of the largest holders, by holder."""
        used = [(share.unsettled_bytes(), share.holder) for share in self.by_holder.values()]
        largest = heapq.nlargest(LARGEST_SHOWN, [pair for pair in used if pair[0]])
        return {holder: used_bytes for used_bytes, holder in largest}

    def describe_largest(self) -> str:
        """Return the largest holder in words, "" if nothing is held."""
        if not self.by_holder:
            return ""
        share = max(self.by_holder.values(), key=_used_bytes)
        return f"{share.holder} holds the most unsettled, {share.used_bytes} octets" if share.used_bytes else ""


class _Wakening(Chore):
    """Lets consumers try again, some in each turn."""

    __slots__ = ("_consumers", "_next")

    def __init__(self, consumers: list[Consumer]) -> None:
        self._consumers = consumers
        self._next = 0

    def go_on(self, steps: Steps) -> bool:
        least = steps.left_to_others()
        while self._next < len(self._consumers) and steps.left > least:
            steps.left -= 1
            consumer = self._consumers[self._next]
            self._next += 1
            consumer.window.eased()
            consumer.queue.list_consumer(consumer)
        return self._next == len(self._consumers)


def _used_bytes(share: UnsettledShare) -> int:
    return share.used_bytes
