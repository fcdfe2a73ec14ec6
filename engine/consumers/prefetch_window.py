"""How many messages a consumer may hold unsettled: its prefetch.  Link credit and pull are windows, too.

engine.clients.window_options makes each consumer's window from its options and the settings of its address.

Source: docs/reference/semantics.md, "Windows".  ActiveMQ's prefetch, topped up at half by the broker: a full window
opens again when at most half of it, rounded down, is in flight.  HornetQ's window in octets (consumer-window-size),
whose credits also come back in halves.
"""

from __future__ import annotations

from typing import Final

from engine.consumers.window_limits import ByteCredit, TokenBucket, WindowMemoryBase
from engine.values import gates
from engine.values.message import PERSISTENT, Message

PULL_LIMIT: Final = 1  # prefetch 0: one message on demand, the next after it is settled
# Messages are not counted in octets if a whole window of them takes less than this part of the octets allowed.
UNCOUNTED_SHARE: Final = 16
NOT_COUNTED: Final = 2**62  # larger than any message
EXTENSION_MAX: Final = 10_000  # messages: a client that never settles does not fill the memory


class Window:
    """Counts the messages in flight against a limit, and says whether more may be handed out now.

    limit: messages, at least 1.  resume_at: a full window opens again at this many in flight.
    stage: when this many are in flight, more must be paid for or the limit is reached; so most messages cost nothing.
    paid: messages that its memory pays for.
    memory: its part of the user's memory; None if nothing is ever in flight, or without a user.
    full_at: the number of messages that filled it.
    persistent_limit, other_limit: limits of the two kinds of messages, if they differ.
    extension: of the limits, by messages in flight that the client has processed and settles later (ActiveMQ
    prefetchExtension).
    gate: why it is full.  is_refusing: ``begin_refusing`` holds it; was_full: it was full before that.
    counted_above: messages of more octets are passed to ``admits`` and counted; in most windows these are few.
    bytes_above, memory_above: messages of more octets count as octets of this window, or are passed to its memory.
    octets: its limit on octets, None for none.
    """

    __slots__ = (
        "prefetch",
        "limit",
        "stage",
        "memory",
        "paid",
        "resume_at",
        "in_flight",
        "extension",
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
        "octets",
        "bucket",
    )

    def __init__(self, prefetch: int, is_half_top_up: bool) -> None:
        self.prefetch = prefetch
        self.limit = prefetch if prefetch > 0 else PULL_LIMIT
        self.stage = self.limit
        self.memory: WindowMemoryBase | None = None
        self.paid = NOT_COUNTED
        self.is_half = is_half_top_up
        self.extension = 0
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
        self.octets: ByteCredit | None = None
        self.bucket: TokenBucket | None = None

    # -- its limits

    def limit_bytes(self, max_bytes: int) -> None:
        """Allow at most ``max_bytes`` octets in flight, plus the rest of one message; -1 for no limit."""
        if max_bytes < 0:
            return
        self.octets = ByteCredit(max(1, max_bytes), self.is_half)  # 0: only one message at a time
        if self.bytes_above == NOT_COUNTED:
            self.bytes_above = self.counted_above = self.octets.limit // (self.limit * UNCOUNTED_SHARE)

    def limit_kinds(self, persistent_prefetch: int, other_prefetch: int) -> None:
        """Set separate limits for persistent messages and for others."""
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

    def limit_memory(self, memory: WindowMemoryBase) -> None:
        """Have messages paid for by a user's memory, before any is in flight."""
        self.memory = memory
        self.arm()

    def arm(self) -> None:
        """Ask the changed memory again once what it pays for is in flight."""
        memory = self.memory
        self.stage = self.limit
        if memory is not None:
            self.paid = memory.units
            self.stage = min(self.limit, memory.units)
            self.memory_above = memory.counts_above
            self.counted_above = min(self.bytes_above, memory.counts_above)

    def allowed(self) -> int:
        """Return how many messages may be in flight."""
        return self.limit

    # -- counting

    def admits(self, message: Message, is_settled: bool, now_ms: int) -> bool:
        """Say whether a message of more than ``counted_above`` octets may be handed over, and if so, count its octets.

        If not, the window is full.  is_settled: the message needs no acknowledgement, so it takes no place.
        """
        if not is_settled:
            limit = self.persistent_limit if message.flags & PERSISTENT else self.other_limit
            if self.in_flight >= limit:
                self._fill(gates.WINDOW_FULL, limit)
                return False
            octets = self.octets
            if octets is not None and octets.credit <= 0:
                self._fill(gates.BYTES_FULL, self.allowed())
                return False
            if message.size <= self.memory_above:  # so it was passed here because of ``bytes_above``
                if octets is not None:
                    octets.credit -= message.size
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
        if self.full_at != self.limit or self.gate != gates.WINDOW_FULL:  # rare: the last cause is usually the same
            self._fill(gates.WINDOW_FULL, self.limit)
        return True

    def give_back(self, size_bytes: int) -> bool:
        """Count one message as no longer in flight; return True if that opened a full window."""
        self.in_flight -= 1
        if self.extension:
            self._extend_by(-1)
        if size_bytes > self.counted_above:
            self._return_bytes(size_bytes)
        return self._is_opened()

    def _is_opened(self) -> bool:
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

    def extend(self, count: int) -> bool:
        """Let ``count`` more follow until they are settled; return True if that opened a full window."""
        more = min(count, EXTENSION_MAX) - self.extension
        if more <= 0:
            return False
        self._extend_by(more)
        return self._is_opened()

    def retake(self, size_bytes: int) -> None:
        """Count a message again that a transaction had given back, even past the limit."""
        if self.octets is not None and size_bytes > self.bytes_above:
            self.octets.credit -= size_bytes
        self.in_flight += 1
        if self.memory is not None:
            self.memory.take(size_bytes)
            self._pay()
        if self.in_flight >= self.allowed():
            self._fill(gates.WINDOW_FULL, self.allowed())

    def enlist(self, size_bytes: int, is_enlisted: bool) -> None:
        """A transaction enlists a message whose place it gives back, or is done with it."""
        if self.memory is not None:
            self.memory.enlist(size_bytes, is_enlisted)

    def release_enlisted(self, sizes: list[int]) -> None:
        """A transaction is done with messages that had given their places back."""
        if self.memory is not None:
            for size_bytes in sizes:
                self.memory.enlist(size_bytes, False)

    def begin_refusing(self) -> None:
        """Stop the window while refused messages are put back, some in each turn."""
        self.is_refusing = True
        self.was_full = self.is_full and self.gate == gates.WINDOW_FULL
        if self.gate != gates.CLOSED:
            self.gate = gates.REFUSING
        self.is_full = True

    def end_refusing(self) -> bool:
        """End the stop, as all refused messages are back; return True if the window is open now."""
        self.is_refusing = False
        if self.gate == gates.CLOSED:
            return False
        self.is_full = False
        if self.in_flight > (self.resume_at if self.was_full else self.allowed() - 1):
            self.is_full = True
            self.gate = gates.WINDOW_FULL
        elif self.octets is not None and self.octets.credit <= 0:
            self._fill(gates.BYTES_FULL, self.allowed())
        return not self.is_full

    def close(self) -> None:
        """Shut the window for good, whatever is given back."""
        self.is_full = True
        self.gate = gates.CLOSED

    def next_second(self) -> None:
        """The rate allows messages again."""
        self._reopen(gates.RATE)

    def eased(self) -> None:
        """Reopen: its user holds less."""
        self._reopen(gates.MEMORY)

    def room(self) -> int:
        """Return how many more messages the limit allows."""
        return max(0, self.allowed() - self.in_flight)

    def describe(self) -> str:
        """Return in words why a full window is full and when it opens."""
        octets = self.octets
        if self.gate == gates.BYTES_FULL and octets is not None:
            return (
                f"{octets.in_flight()} of {octets.limit} octets in flight (consumer-window-size), resumes when "
                f"{max(1, octets.return_at)} more are settled"
            )
        if self.gate == gates.MEMORY and self.memory is not None:
            return self.memory.describe()
        if self.gate == gates.REFUSING:
            return f"messages that its client refused are being put back, some in each turn, {self.in_flight} in flight"
        if self.gate == gates.RATE and self.bucket is not None:
            return f"{self.bucket.rate} messages a second (consumer-max-rate)"
        extended = f", {self.extension} of them processed" if self.extension else ""
        return f"{self.in_flight} of {self.full_at} in flight{extended}, resumes at {self.resume_at}"

    # -- the steps

    def _leave(self, count: int) -> None:
        """Subtract messages in flight without counted octets, except for the last one."""
        self.in_flight -= count
        if self.extension:
            self._extend_by(-min(count, self.extension))

    def _extend_by(self, more: int) -> None:
        self.extension += more
        self.limit += more
        self.persistent_limit += more
        self.other_limit += more
        self.full_at += more
        self.resume_at += more
        self.arm()

    def _pay(self) -> None:
        """Pay for what is in flight, and for some more."""
        if self.memory is not None:
            self.memory.cover(self.in_flight, self.allowed())
        self.arm()

    def _buy(self, size_bytes: int) -> bool:
        """Ask the memory for one message, and count it if it may be handed over."""
        memory = self.memory
        if memory is None or not memory.admits(self.in_flight):
            return False
        memory.take(size_bytes)
        if self.octets is not None and size_bytes > self.bytes_above:
            self.octets.credit -= size_bytes
        return True

    def _sell(self, size_bytes: int) -> None:
        if self.memory is not None:
            self.memory.give_back(size_bytes, self.in_flight)

    def _refund(self, size_bytes: int) -> None:
        """Undo the count of a message that is not handed over after all."""
        if self.octets is not None and size_bytes > self.bytes_above:
            self.octets.credit += size_bytes
        if size_bytes > self.memory_above:
            self._sell(size_bytes)

    def _return_bytes(self, size_bytes: int) -> None:
        """Return octets as credit, half of the window at a time."""
        if size_bytes > self.memory_above:
            self._sell(size_bytes)
            if size_bytes <= self.bytes_above:
                return
        octets = self.octets
        if octets is not None:
            returned = octets.returned + size_bytes
            if returned >= octets.return_at or self.in_flight == 0:
                octets.credit += returned
                returned = 0
            octets.returned = returned

    def _resume_at(self, limit: int) -> int:
        return (limit + self.extension) // 2 if self.is_half else limit - 1

    def _fill(self, gate: int, limit: int) -> None:
        self.is_full = True
        self.full_at = limit
        self.resume_at = self._resume_at(limit)
        if self.is_refusing:
            self.was_full = self.was_full or gate == gates.WINDOW_FULL
        else:
            self.gate = gate

    def _opens(self) -> bool:
        """Try to open a window that was full for another reason than the number of messages."""
        if self.gate == gates.BYTES_FULL and self.octets is not None:
            self.is_full = self.octets.credit <= 0
        elif self.gate == gates.MEMORY and self.memory is not None:
            self.is_full = not self.memory.admits(self.in_flight)
        return not self.is_full

    def _reopen(self, gate: int) -> None:
        """Open a window that this gate holds, unless too much is in flight now."""
        if self.is_full and self.gate == gate:
            self.is_full = False
            if self.in_flight >= self.allowed():
                self._fill(gates.WINDOW_FULL, self.allowed())
