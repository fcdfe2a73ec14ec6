"""How much a consumer may hold: base + extension - in flight.  Prefetch, link credit and pull are this one thing.

Source: docs/reference/semantics.md, "Windows".  ActiveMQ's prefetch, with the half top-up in the broker: a window that
has filled opens again when at most half of it, rounded down, is in flight.  HornetQ's window in octets,
consumer-window-size, with its credits, which come back in halves, too.
"""

from __future__ import annotations

from typing import Final

from engine.consumers.stake import StakeBase
from engine.consumers.token_bucket import TokenBucket
from engine.values import gates
from engine.values.message import PERSISTENT, Message

PULL_LIMIT: Final = 1  # prefetch 0: one message on demand, the next after it is settled
# Messages so small that a whole window of them takes less than this part of the octets allowed are not counted.
UNCOUNTED_SHARE: Final = 16
NOT_COUNTED: Final = 2**62  # larger than any message


class Window:
    """A count of messages in flight with a limit, and whether more may be handed out now.

    limit: messages, at least 1.  resume_at: a full window opens again at this many in flight.
    stage: at so many in flight more are to be paid for, or the limit is reached: so most messages cost nothing.
    paid: messages that its stake pays for.
    stake: of its user's memory; None where nothing is ever in flight, or nobody in particular has it.
    full_at: what filled it, messages.
    persistent_limit, other_limit: the same for the two kinds of messages, where they differ.
    gate: why it is full.  is_refusing: ``hold_refused`` holds it; was_full: it is to open as a full one does.
    counted_above: a message with more octets is asked for by ``admits`` and counted; most windows ask for few.
    bytes_above, memory_above: such messages count as octets of this window; its stake is asked about such ones.
    max_bytes: -1 for no limit.  credit: octets that may still go out; the last message may make it negative.
    returned: octets settled that have not come back as credit yet; they come once there are ``return_at``.
    """

    __slots__ = (
        "prefetch",
        "limit",
        "stage",
        "stake",
        "paid",
        "resume_at",
        "in_flight",
        "is_full",
        "is_half",
        "full_at",
        "persistent_limit",
        "other_limit",
        "gate",
        "is_refusing",
        "was_full",
        "counted_above",
        "bytes_above",
        "memory_above",
        "max_bytes",
        "credit",
        "returned",
        "return_at",
        "bucket",
    )

    def __init__(self, prefetch: int, is_half_top_up: bool) -> None:
        self.prefetch = prefetch
        self.limit = prefetch if prefetch > 0 else PULL_LIMIT
        self.stage = self.limit
        self.stake: StakeBase | None = None
        self.paid = NOT_COUNTED
        self.is_half = is_half_top_up
        self.resume_at = self._resume_at(self.limit)
        self.in_flight = 0
        self.is_full = False
        self.full_at = self.limit
        self.persistent_limit = self.limit
        self.other_limit = self.limit
        self.gate = gates.WINDOW_FULL
        self.is_refusing = False
        self.was_full = False
        self.counted_above = NOT_COUNTED
        self.bytes_above = NOT_COUNTED
        self.memory_above = NOT_COUNTED
        self.max_bytes = -1
        self.credit = 0
        self.returned = 0
        self.return_at = 0
        self.bucket: TokenBucket | None = None

    # -- what it is limited by

    def limit_bytes(self, max_bytes: int) -> None:
        """Let at most ``max_bytes`` octets be in flight, and the rest of one message; -1 for no limit."""
        if max_bytes < 0:
            return
        self.max_bytes = max(1, max_bytes)  # 0: none ahead of the one in hand
        self.credit = self.max_bytes
        self.return_at = self.max_bytes // 2 if self.is_half else 0
        if self.bytes_above == NOT_COUNTED:
            self.bytes_above = self.counted_above = self.max_bytes // (self.limit * UNCOUNTED_SHARE)

    def limit_kinds(self, persistent_prefetch: int, other_prefetch: int) -> None:
        """Have limits of their own for persistent messages and for others."""
        if persistent_prefetch == other_prefetch:
            return
        self.persistent_limit = persistent_prefetch or PULL_LIMIT
        self.other_limit = other_prefetch or PULL_LIMIT
        self.bytes_above = self.counted_above = -1

    def limit_rate(self, rate: int) -> None:
        """Hand out at most ``rate`` messages a second; -1 for no limit."""
        if rate > 0:
            self.bucket = TokenBucket(rate)
            self.bytes_above = self.counted_above = -1

    def limit_memory(self, stake: StakeBase) -> None:
        """Have what is in flight paid for by a user, before anything is."""
        self.stake = stake
        self.arm()

    def arm(self) -> None:
        """The stake has changed: ask it again once what it pays for has gone out."""
        stake = self.stake
        self.stage = self.limit
        if stake is not None:
            self.paid = stake.units
            self.stage = min(self.limit, stake.units)
            self.memory_above = stake.counts_above
            self.counted_above = min(self.bytes_above, stake.counts_above)

    def allowed(self) -> int:
        """Return how many may be in flight."""
        return self.limit

    # -- counting

    def admits(self, message: Message, is_settled: bool, now_ms: int) -> bool:
        """Say whether a message of more than ``counted_above`` octets may go out, and count its octets if it may.

        If not, the window is full.  is_settled: nobody will acknowledge it, so that it takes no place.
        """
        if not is_settled:
            limit = self.persistent_limit if message.flags & PERSISTENT else self.other_limit
            if self.in_flight >= limit:
                self._fill(gates.WINDOW_FULL, limit)
                return False
            if self.max_bytes >= 0 and self.credit <= 0:
                self._fill(gates.BYTES_FULL, self.allowed())
                return False
            if message.size <= self.memory_above:  # then it is above ``bytes_above``: there is no third reason to ask
                self.credit -= message.size
            elif not self._buy(message.size):
                self._fill(gates.MEMORY, self.allowed())
                return False
        if self.bucket is not None and not self.bucket.take(now_ms):
            if not is_settled:
                self._refund(message.size)
            self._fill(gates.RATE, self.allowed())
            return False
        return True

    def take(self) -> bool:
        """Count one message as in flight; return True if that filled the window."""
        self.in_flight += 1
        if self.in_flight < self.stage:
            return False
        if self.stage < self.limit:
            self._pay()
            if self.in_flight < self.limit:
                return False
        self.is_full = True
        if self.full_at != self.limit or self.gate != gates.WINDOW_FULL:  # seldom: what filled it last still stands
            self._fill(gates.WINDOW_FULL, self.limit)
        return True

    def give_back(self, size_bytes: int) -> bool:
        """Count one message as no longer in flight; return True if that opened a full window."""
        self.in_flight -= 1
        if size_bytes > self.counted_above:
            self._return_bytes(size_bytes)
        if not self.is_full:
            return False
        if self.gate == gates.WINDOW_FULL:
            self.is_full = self.in_flight > self.resume_at
            return not self.is_full
        return self._opens()

    def give_back_all(self, sizes: list[int]) -> bool:
        """Count messages, at least one, as no longer in flight; return True if that opened a full window."""
        if max(sizes) <= self.counted_above:
            self._leave(len(sizes) - 1)
            return self.give_back(0)
        was_full = self.is_full
        for size_bytes in sizes:
            self.give_back(size_bytes)
        return was_full and not self.is_full

    def retake(self, size_bytes: int) -> None:
        """Count a message again that had been given back inside a transaction, even past the limit."""
        if size_bytes > self.bytes_above:
            self.credit -= size_bytes
        self.in_flight += 1
        if self.stake is not None:
            self.stake.take(size_bytes)
            self._pay()
        if self.in_flight >= self.allowed():
            self._fill(gates.WINDOW_FULL, self.allowed())

    def hold(self, size_bytes: int, is_held: bool) -> None:
        """A transaction takes a message that gives its place back, or is done with it."""
        if self.stake is not None:
            self.stake.hold(size_bytes, is_held)

    def release_held(self, sizes: list[int]) -> None:
        """A transaction is done with messages that had given their places back."""
        if self.stake is not None:
            for size_bytes in sizes:
                self.stake.hold(size_bytes, False)

    def hold_refused(self) -> None:
        """Let nothing follow while what was refused is put back, a part of it each turn."""
        self.is_refusing = True
        self.was_full = self.is_full and self.gate == gates.WINDOW_FULL
        if self.gate != gates.CLOSED:
            self.gate = gates.REFUSING
        self.is_full = True

    def refused(self) -> bool:
        """All that was refused is back; return True if the window is open now."""
        self.is_refusing = False
        if self.gate == gates.CLOSED:
            return False
        self.is_full = False
        if self.in_flight > (self.resume_at if self.was_full else self.allowed() - 1):
            self.is_full = True
            self.gate = gates.WINDOW_FULL
        elif self.max_bytes >= 0 and self.credit <= 0:
            self._fill(gates.BYTES_FULL, self.allowed())
        return not self.is_full

    def close(self) -> None:
        """Let nothing follow any more, whatever is given back."""
        self.is_full = True
        self.gate = gates.CLOSED

    def next_second(self) -> None:
        """The rate allows messages again."""
        self._reopen(gates.RATE)

    def eased(self) -> None:
        """Its user holds less: let it ask again."""
        self._reopen(gates.MEMORY)

    def room(self) -> int:
        """Return how many messages more the limit allows."""
        return max(0, self.allowed() - self.in_flight)

    def bytes_in_flight(self) -> int:
        """Return the octets counted as in flight, 0 where none are."""
        return self.max_bytes - self.credit - self.returned if self.max_bytes >= 0 else 0

    def describe(self) -> str:
        """Return in words why a full window is full, and when it opens."""
        if self.gate == gates.BYTES_FULL:
            return (
                f"{self.bytes_in_flight()} of {self.max_bytes} octets in flight (consumer-window-size), resumes when "
                f"{max(1, self.return_at)} more are settled"
            )
        if self.gate == gates.MEMORY and self.stake is not None:
            return self.stake.describe()
        if self.gate == gates.REFUSING:
            return f"what its client has refused is put back, some a turn, {self.in_flight} in flight"
        if self.gate == gates.RATE and self.bucket is not None:
            return f"{self.bucket.rate} messages a second (consumer-max-rate)"
        return f"{self.in_flight} of {self.full_at} in flight, resumes at {self.resume_at}"

    # -- the steps

    def _leave(self, count: int) -> None:
        """Count messages whose octets are not counted as no longer in flight, but for the last one."""
        self.in_flight -= count

    def _pay(self) -> None:
        """Have what is in flight paid for, and some more."""
        if self.stake is not None:
            self.stake.cover(self.in_flight, self.allowed())
        self.arm()

    def _buy(self, size_bytes: int) -> bool:
        """Ask the stake about one message, and count it if it may go out."""
        stake = self.stake
        if stake is None or not stake.admits(self.in_flight):
            return False
        stake.take(size_bytes)
        if size_bytes > self.bytes_above:
            self.credit -= size_bytes
        return True

    def _sell(self, size_bytes: int) -> None:
        if self.stake is not None:
            self.stake.give_back(size_bytes, self.in_flight)

    def _refund(self, size_bytes: int) -> None:
        """A message that was counted does not go out."""
        if size_bytes > self.bytes_above:
            self.credit += size_bytes
        if size_bytes > self.memory_above:
            self._sell(size_bytes)

    def _return_bytes(self, size_bytes: int) -> None:
        """Give octets back as credit, half of the window at a time."""
        if size_bytes > self.memory_above:
            self._sell(size_bytes)
            if size_bytes <= self.bytes_above:
                return
        self.returned += size_bytes
        if self.returned >= self.return_at or self.in_flight == 0:
            self.credit += self.returned
            self.returned = 0

    def _resume_at(self, limit: int) -> int:
        return limit // 2 if self.is_half else limit - 1

    def _fill(self, gate: int, limit: int) -> None:
        self.is_full = True
        self.full_at = limit
        self.resume_at = self._resume_at(limit)
        if self.is_refusing:
            self.was_full = self.was_full or gate == gates.WINDOW_FULL
        else:
            self.gate = gate

    def _opens(self) -> bool:
        """Open a window that something else than messages filled, if that is over."""
        if self.gate == gates.BYTES_FULL:
            self.is_full = self.credit <= 0
        elif self.gate == gates.MEMORY and self.stake is not None:
            self.is_full = not self.stake.admits(self.in_flight)
        return not self.is_full

    def _reopen(self, gate: int) -> None:
        """Open a window that this gate holds; perhaps so much is in flight now that it stays full."""
        if self.is_full and self.gate == gate:
            self.is_full = False
            if self.in_flight >= self.allowed():
                self._fill(gates.WINDOW_FULL, self.allowed())
