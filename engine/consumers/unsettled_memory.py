"""Limits the memory that unsettled deliveries of one user may take; of one address where logins are not checked.

Deliveries in flight cannot be spilled, nor read again before they come back.  So a user that settles nothing could take
all of the memory, and every other user's producers would wait.

A window pays for small messages in units, several ahead, so most of them cost nothing to count; larger ones are counted
by octets.  Near the limit of a user, units paid ahead are taken back, and each message is counted by itself until there
is room again.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Final

from engine.backlog.memory_budget import MESSAGE_OVERHEAD_BYTES
from engine.consumers.consumer import Consumer
from engine.consumers.prefetch_window import Window
from engine.consumers.turn_steps import Chore, Steps
from engine.consumers.window_limits import WindowMemoryBase
from engine.values import gates
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


class WindowMemory(WindowMemoryBase):
    """The part of a user's memory that one window uses.

    larger_bytes: of the messages in flight, octets beyond a unit.
    enlisted_bytes, enlisted_count: of messages enlisted in open transactions, which have no place in the window.
    consumer_count: consumers that share the window; 0 once they have gone.
    """

    __slots__ = ("window", "consumer_count", "larger_bytes", "enlisted_bytes", "enlisted_count", "_user")

    def __init__(self, user: UserMemory, window: Window) -> None:
        super().__init__()
        self.window = window
        self.consumer_count = 0
        self.larger_bytes = 0
        self.enlisted_bytes = 0
        self.enlisted_count = 0
        self._user = user
        self.counts_above = -1 if user.is_exact else SMALL_BYTES

    def bytes(self) -> int:
        """Return the octets in flight and in transactions."""
        in_flight = self.window.in_flight if self.consumer_count else 0
        return in_flight * UNIT_BYTES + self.larger_bytes + self.enlisted_bytes

    def cover(self, in_flight: int, most: int) -> None:
        if self.consumer_count == 0:
            return
        units = in_flight
        if not self._user.is_exact:
            units = max(in_flight, min(2 * self.units, in_flight + AHEAD_UNITS, most))
        more = units - self.units
        if more > 0:
            self.units = units
            self._user.take(more * UNIT_BYTES)

    def admits(self, in_flight: int) -> bool:
        user = self._user
        if not user.is_exact and self.counts_above < 0:
            self.counts_above = SMALL_BYTES
            self.window.arm()
        if not user.is_over:
            return True
        is_room_left = user.used_bytes * 100 < user.limit_bytes * MOST_PERCENT
        return is_room_left and in_flight == 0 and self.enlisted_count == 0

    def wait(self, consumer: ConsumerBase) -> None:
        user = self._user
        waiting = user.waiting if self.window.in_flight or self.enlisted_count else user.empty
        assert isinstance(consumer, Consumer), "only consumers wait for memory"
        waiting[consumer.consumer_id] = consumer

    def take(self, size_bytes: int) -> None:
        if size_bytes > SMALL_BYTES and self.consumer_count:
            self.larger_bytes += size_bytes - SMALL_BYTES
            self._user.take(size_bytes - SMALL_BYTES)

    def give_back(self, size_bytes: int, in_flight: int) -> None:
        if self.consumer_count == 0:
            return
        user = self._user
        freed_bytes = 0
        if size_bytes > SMALL_BYTES:
            freed_bytes = size_bytes - SMALL_BYTES
            self.larger_bytes -= freed_bytes
        if user.is_exact and self.units > in_flight:
            freed_bytes += (self.units - in_flight) * UNIT_BYTES
            self.units = in_flight
            self.window.arm()
        if freed_bytes:
            user.give_back(freed_bytes)

    def enlist(self, size_bytes: int, is_enlisted: bool) -> None:
        enlisted_bytes = max(size_bytes + MESSAGE_OVERHEAD_BYTES, UNIT_BYTES)
        if is_enlisted:
            self.enlisted_count += 1
            self.enlisted_bytes += enlisted_bytes
            self._user.take(enlisted_bytes)
            return
        self.enlisted_count -= 1
        self.enlisted_bytes -= enlisted_bytes
        self._user.give_back(enlisted_bytes)
        if self.consumer_count == 0 and self.enlisted_count == 0:
            self._user.remove(self)

    def count_exactly(self) -> None:
        """Pay for nothing ahead, and count every message individually."""
        self.units = self.window.in_flight
        self.counts_above = -1
        self.window.arm()

    def left(self, consumer_id: int) -> None:
        """A consumer has gone; after the last one only what transactions have enlisted is left."""
        self.consumer_count -= 1
        self._user.waiting.pop(consumer_id, None)
        self._user.empty.pop(consumer_id, None)
        if self.consumer_count == 0:
            freed_bytes = self.units * UNIT_BYTES + self.larger_bytes
            self.units = self.larger_bytes = 0
            self._user.give_back(freed_bytes)
            if self.enlisted_count == 0:
                self._user.remove(self)

    def describe(self) -> str:
        return self._user.describe()


class UserMemory:
    """One holder's usage over the windows of all its consumers, and the consumers that wait for it to fall.

    holder: in words, "" for none.  used_bytes: including what is paid ahead.
    is_exact: nothing is paid ahead, and each message is counted.
    is_over: the limit was reached, and ``used_bytes`` has not fallen to RESUME_PERCENT since.
    waiting: consumers that get no more until then.  empty: those that hold nothing, and may get one message.
    """

    __slots__ = ("holder", "limit_bytes", "used_bytes", "windows", "is_exact", "is_over", "waiting", "empty", "_all")

    def __init__(self, holder: str, unsettled: UnsettledMemory) -> None:
        self.holder = holder
        self.limit_bytes = unsettled.limit_bytes if unsettled.limit_bytes >= 0 else NOT_LIMITED
        self.used_bytes = 0
        self.windows: dict[WindowMemory, None] = {}
        self.is_exact = False
        self.is_over = False
        self.waiting: dict[int, Consumer] = {}
        self.empty: dict[int, Consumer] = {}
        self._all = unsettled

    def unsettled_bytes(self) -> int:
        """Return what its consumers and transactions hold, without what is paid ahead."""
        return sum([memory.bytes() for memory in self.windows])

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
            self._all.wake(self.waiting)
        if self.used_bytes * 100 < self.limit_bytes * RESUME_EMPTY_PERCENT:
            self._all.wake(self.empty)

    def remove(self, memory: WindowMemory) -> None:
        """Remove a window without usage; without this reference its window is freed at once."""
        del self.windows[memory]
        memory.window.limits.memory = None
        if not self.windows:
            del self._all.by_holder[self.holder]

    def describe(self) -> str:
        return (
            f"{self.holder} holds {self.used_bytes} octets unsettled, the limit is {self.limit_bytes} "
            f"({UNSETTLED_MEMORY}); resumes at {self.limit_bytes * RESUME_PERCENT // 100}"
        )

    def _fill(self) -> None:
        """The limit is reached: take back what is paid ahead, and check again."""
        if not self.is_exact:
            self.is_exact = True
            for memory in self.windows:
                memory.count_exactly()
            self.used_bytes = self.unsettled_bytes()
        if self.used_bytes >= self.limit_bytes:
            self.is_over = True
        elif self.used_bytes * 100 <= self.limit_bytes * RESUME_PERCENT:
            self.is_exact = False


@dataclass(slots=True, eq=False)
class UnsettledMemory:
    """The usage of all holders that have consumers.  limit_bytes: per holder, -1 for no limit."""

    limit_bytes: int
    _steps: Steps
    by_holder: dict[str, UserMemory] = field(default_factory=dict)

    def enter(self, holder: str, window: Window) -> None:
        """Count a window for one more consumer.  holder: as in ``Client``."""
        memory = window.limits.memory
        if memory is None:
            if not holder:
                return
            user = self.by_holder.get(holder)
            if user is None:
                user = self.by_holder[holder] = UserMemory(holder, self)
            memory = WindowMemory(user, window)
            user.windows[memory] = None
            window.limits.memory = memory
            window.arm()
        assert isinstance(memory, WindowMemory), "there is one kind of memory"
        memory.consumer_count += 1

    def leave(self, consumer: Consumer) -> None:
        """A consumer has closed."""
        memory = consumer.window.limits.memory
        if isinstance(memory, WindowMemory):
            memory.left(consumer.consumer_id)

    def wake(self, consumers: dict[int, Consumer]) -> None:
        """Let consumers try again, in the order in which they came."""
        if consumers:
            self._steps.begin(_Wakening(list(consumers.values())))
            self._steps.need_a_turn()
            consumers.clear()

    def largest(self) -> dict[str, int]:
        """Return the usage of the largest holders, by holder."""
        used = [(user.unsettled_bytes(), user.holder) for user in self.by_holder.values()]
        largest = heapq.nlargest(LARGEST_SHOWN, [pair for pair in used if pair[0]])
        return {holder: used_bytes for used_bytes, holder in largest}

    def describe_largest(self) -> str:
        """Return the largest holder in words, "" if nothing is held."""
        if not self.by_holder:
            return ""
        user = max(self.by_holder.values(), key=lambda one: one.used_bytes)
        return f"{user.holder} holds the most unsettled, {user.used_bytes} octets" if user.used_bytes else ""


@dataclass(slots=True, eq=False)
class _Wakening(Chore):
    """Lets consumers try again, some in each turn."""

    _consumers: list[Consumer]
    _next: int = 0

    def go_on(self, steps: Steps) -> bool:
        least = steps.left_to_others()
        while self._next < len(self._consumers) and steps.left > least:
            steps.left -= 1
            consumer = self._consumers[self._next]
            self._next += 1
            consumer.window.reopen(gates.MEMORY)
            consumer.queue.list_consumer(consumer)
        return self._next == len(self._consumers)
