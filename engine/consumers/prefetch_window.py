"""How many messages a consumer may hold unsettled: its prefetch.  Link credit and pull are windows, too.

engine.clients.window_options makes each consumer's window from its options and the settings of its address.

Source: docs/reference/semantics.md, "Windows".  ActiveMQ's prefetch, topped up at half by the broker: a full window
opens again when at most half of it, rounded down, is in flight.  HornetQ's window in octets (consumer-window-size),
whose credits also come back in halves.
"""

from __future__ import annotations

from typing import Final

from engine.consumers.window_limits import NOT_COUNTED, ByteCredit, TokenBucket, WindowLimits
from engine.ports.clock import Clock
from engine.values import gates
from engine.values.message import Message

PULL_LIMIT: Final = 1  # prefetch 0: one message on demand, the next after it is settled
# Messages are not counted in octets if a whole window of them takes less than this part of the octets allowed.
UNCOUNTED_SHARE: Final = 16
EXTENSION_MAX: Final = 10_000  # messages: a client that never settles does not fill the memory


class Window:
    """Counts the messages in flight against a limit, and says whether more may be handed out now.

    limit: messages, at least 1.  resume_at: a full window opens again at this many in flight.
    stage: when this many are in flight, more must be paid for or the limit is reached; so most messages cost nothing.
    full_at: the number of messages that filled it.
    extension: of the limits, by messages in flight that the client has processed and settles later (ActiveMQ
    prefetchExtension).
    gate: why it is full.  is_refusing: ``begin_refusing`` holds it; was_full: it was full before that.
    limits: what else limits it: octets, a rate, memory, and the two kinds of messages.
    counted_above: messages of more octets are passed to ``admits`` and counted; in most windows these are few.
    """

    __slots__ = (
        "prefetch",
        "limit",
        "stage",
        "resume_at",
        "in_flight",
        "extension",
        "is_full",
        "is_half",
        "full_at",
        "gate",
        "is_refusing",
        "was_full",
        "counted_above",
        "limits",
    )

    def __init__(self, prefetch: int, is_half_top_up: bool) -> None:
        self.prefetch = prefetch
        self.limit = prefetch if prefetch > 0 else PULL_LIMIT
        self.stage = self.limit
        self.is_half = is_half_top_up
        self.extension = 0
        self.resume_at = _resume_at(self.limit, 0, is_half_top_up)
        self.in_flight = 0
        self.is_full = False
        self.full_at = self.limit
        self.gate = gates.WINDOW_FULL
        self.is_refusing = False
        self.was_full = False
        self.counted_above = NOT_COUNTED
        self.limits = WindowLimits(self.limit)

    # -- its limits

    def limit_bytes(self, max_bytes: int) -> None:
        """Allow at most ``max_bytes`` octets in flight, plus the rest of one message; -1 for no limit."""
        if max_bytes < 0:
            return
        limits = self.limits
        limits.octets = ByteCredit(max(1, max_bytes), self.is_half)  # 0: only one message at a time
        if limits.bytes_above == NOT_COUNTED:
            limits.bytes_above = self.counted_above = limits.octets.limit // (self.limit * UNCOUNTED_SHARE)

    def limit_kinds(self, persistent_prefetch: int, other_prefetch: int) -> None:
        """Set separate limits for persistent messages and for others."""
        if persistent_prefetch == other_prefetch:
            return
        self.limits.persistent = persistent_prefetch or PULL_LIMIT
        self.limits.other = other_prefetch or PULL_LIMIT
        self.limits.bytes_above = self.counted_above = -1

    def limit_rate(self, rate: int) -> None:
        """Hand out at most ``rate`` messages a second; -1 for no limit."""
        if rate > 0:
            self.limits.bucket = TokenBucket(rate)
            self.limits.bytes_above = self.counted_above = -1

    def arm(self) -> None:
        """Ask the changed memory again once what it pays for is in flight."""
        limits = self.limits
        memory = limits.memory
        self.stage = self.limit
        if memory is not None:
            self.stage = min(self.limit, memory.units)
            limits.memory_above = memory.counts_above
            self.counted_above = min(limits.bytes_above, memory.counts_above)

    def allowed(self) -> int:
        """Return how many messages may be in flight."""
        return self.limit

    # -- counting

    def admits(self, message: Message, is_settled: bool, clock: Clock) -> bool:
        """Say whether a message of more than ``counted_above`` octets may be handed over, and if so, count its octets.

        If not, the window is full.  is_settled: the message needs no acknowledgement, so it takes no place.
        """
        gate = self.limits.charge(message, self.in_flight, is_settled, clock)
        if gate == gates.OPEN:
            return True
        self._fill(gate, self.limits.limit_for(message) if gate == gates.WINDOW_FULL else self.allowed())
        return False

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
            self.limits.give_back(size_bytes, self.in_flight)
        return self.is_full and self._is_opened()

    def _is_opened(self) -> bool:
        """Open a full window if what filled it is over; return True if so."""
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
        return self.is_full and self._is_opened()

    def retake(self, size_bytes: int) -> None:
        """Count a message again that a transaction had given back, even past the limit."""
        self.in_flight += 1
        if size_bytes > self.counted_above:
            self.limits.retake(size_bytes)
        if self.limits.memory is not None:
            self._pay()
        if self.in_flight >= self.allowed():
            self._fill(gates.WINDOW_FULL, self.allowed())

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
        elif self.limits.octets is not None and self.limits.octets.credit <= 0:
            self._fill(gates.BYTES_FULL, self.allowed())
        return not self.is_full

    def close(self) -> None:
        """Shut the window for good, whatever is given back."""
        self.is_full = True
        self.gate = gates.CLOSED

    def reopen(self, gate: int) -> None:
        """Open a window that this gate holds, unless too much is in flight now."""
        if self.is_full and self.gate == gate:
            self.is_full = False
            if self.in_flight >= self.allowed():
                self._fill(gates.WINDOW_FULL, self.allowed())

    def room(self) -> int:
        """Return how many more messages the limit allows."""
        return max(0, self.allowed() - self.in_flight)

    def resumes(self) -> str:
        """Return when a full window opens again, in words."""
        return f"a full one resumes at {self.resume_at:,}"

    def describe(self) -> str:
        """Return in words why a full window is full and when it opens."""
        if self.gate == gates.REFUSING:
            return f"messages that its client refused are being put back, some in each turn, {self.in_flight} in flight"
        held = self.limits.describe(self.gate)
        if held:
            return held
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
        self.limits.extend(more)
        self.full_at += more
        self.resume_at += more
        self.arm()

    def _pay(self) -> None:
        """Pay for what is in flight, and for some more."""
        memory = self.limits.memory
        if memory is not None:
            memory.cover(self.in_flight, self.allowed())
        self.arm()

    def _fill(self, gate: int, limit: int) -> None:
        self.is_full = True
        self.full_at = limit
        self.resume_at = _resume_at(limit, self.extension, self.is_half)
        if self.is_refusing:
            self.was_full = self.was_full or gate == gates.WINDOW_FULL
        else:
            self.gate = gate

    def _opens(self) -> bool:
        """Try to open a window that was full for another reason than the number of messages."""
        self.is_full = self.limits.holds(self.gate, self.in_flight)
        return not self.is_full


def _resume_at(limit: int, extension: int, is_half: bool) -> int:
    return (limit + extension) // 2 if is_half else limit - 1
