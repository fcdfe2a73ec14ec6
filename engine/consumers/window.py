"""How much a consumer may hold: base + extension - in flight.  Prefetch, link credit and pull are this one thing.

Source: docs/reference/semantics.md, "Windows".  ActiveMQ's prefetch, with the half top-up in the broker: a window that
has filled opens again when at most half of it, rounded down, is in flight.  HornetQ's window in octets,
consumer-window-size, with its credits, which come back in halves, too.
"""

from __future__ import annotations

from typing import Final

from config.policies import AddressSettings, clamp_prefetch
from engine.consumers.token_bucket import TokenBucket
from engine.values import gates
from engine.values.errors import InvalidOption
from engine.values.message import PERSISTENT, Message
from engine.values.options import SubscribeOptions

PULL_LIMIT: Final = 1  # prefetch 0: one message on demand, the next after it is settled
# Messages so small that a whole window of them takes less than this part of the octets allowed are not counted.
UNCOUNTED_SHARE: Final = 16
USUAL_CREDIT: Final = 1_000  # messages that AMQP clients are used to grant at a time
NOT_COUNTED: Final = 2**62  # larger than any message


class Window:
    """A count of messages in flight with a limit, and whether more may be handed out now.

    limit: messages, at least 1.  resume_at: a full window opens again at this many in flight.
    full_at: what filled it, messages.
    persistent_limit, other_limit: the same for the two kinds of messages, where they differ.
    gate: why it is full.  is_refusing: ``hold_refused`` holds it; was_full: it is to open as a full one does.
    counted_above: a message with more octets is asked for by ``admits`` and counted; most windows ask for few.
    max_bytes: -1 for no limit.  credit: octets that may still go out; the last message may make it negative.
    returned: octets settled that have not come back as credit yet; they come once there are ``return_at``.
    """

    __slots__ = (
        "prefetch",
        "limit",
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
        "max_bytes",
        "credit",
        "returned",
        "return_at",
        "bucket",
    )

    def __init__(self, prefetch: int, is_half_top_up: bool) -> None:
        self.prefetch = prefetch
        self.limit = prefetch if prefetch > 0 else PULL_LIMIT
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
        if self.counted_above == NOT_COUNTED:
            self.counted_above = self.max_bytes // (self.limit * UNCOUNTED_SHARE)

    def limit_kinds(self, persistent_prefetch: int, other_prefetch: int) -> None:
        """Have limits of their own for persistent messages and for others."""
        if persistent_prefetch == other_prefetch:
            return
        self.persistent_limit = persistent_prefetch or PULL_LIMIT
        self.other_limit = other_prefetch or PULL_LIMIT
        self.counted_above = -1

    def limit_rate(self, rate: int) -> None:
        """Hand out at most ``rate`` messages a second; -1 for no limit."""
        if rate > 0:
            self.bucket = TokenBucket(rate)
            self.counted_above = -1

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
                self._fill(gates.BYTES_FULL, self.limit)
                return False
        if self.bucket is not None and not self.bucket.take(now_ms):
            self._fill(gates.RATE, self.limit)
            return False
        if not is_settled:
            self.credit -= message.size
        return True

    def take(self) -> bool:
        """Count one message as in flight; return True if that filled the window."""
        self.in_flight += 1
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
        self.in_flight += 1
        if size_bytes > self.counted_above:
            self.credit -= size_bytes
        if self.in_flight >= self.limit:
            self._fill(gates.WINDOW_FULL, self.limit)

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
        if self.in_flight > (self.resume_at if self.was_full else self.limit - 1):
            self.is_full = True
            self.gate = gates.WINDOW_FULL
        elif self.max_bytes >= 0 and self.credit <= 0:
            self._fill(gates.BYTES_FULL, self.limit)
        return not self.is_full

    def close(self) -> None:
        """Let nothing follow any more, whatever is given back."""
        self.is_full = True
        self.gate = gates.CLOSED

    def next_second(self) -> None:
        """The rate allows messages again."""
        if self.is_full and self.gate == gates.RATE:
            self.is_full = False
            if self.in_flight >= self.limit:
                self._fill(gates.WINDOW_FULL, self.limit)

    def room(self) -> int:
        """Return how many messages more the limit allows."""
        return max(0, self.limit - self.in_flight)

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
        if self.gate == gates.REFUSING:
            return f"what its client has refused is put back, some a turn, {self.in_flight} in flight"
        if self.gate == gates.RATE and self.bucket is not None:
            return f"{self.bucket.rate} messages a second (consumer-max-rate)"
        return f"{self.in_flight} of {self.full_at} in flight, resumes at {self.resume_at}"

    # -- the steps

    def _leave(self, count: int) -> None:
        """Count messages whose octets are not counted as no longer in flight, but for the last one."""
        self.in_flight -= count

    def _return_bytes(self, size_bytes: int) -> None:
        """Give octets back as credit, half of the window at a time."""
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
        return not self.is_full


class CreditWindow(Window):
    """A window without a base: all of it is what the client has granted (AMQP link credit), honoured as granted.

    ``limit`` is what is in flight and what may follow, so that settling a message gives no room for another one.
    Octets and rate limit it as any other.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(USUAL_CREDIT, False)
        self.limit = 0
        self.persistent_limit = NOT_COUNTED
        self.other_limit = NOT_COUNTED
        self.is_full = True

    def limit_bytes(self, max_bytes: int) -> None:
        self.limit = USUAL_CREDIT  # what small messages are is decided before anything is granted
        super().limit_bytes(max_bytes)
        self.limit = self.in_flight

    def grant(self, credit: int) -> bool:
        """Let ``credit`` messages follow, whatever was granted before; return True if that opened a full window."""
        self.limit = self.in_flight + credit
        if self.is_refusing:
            return False
        if credit == 0:
            self._fill(gates.WINDOW_FULL, self.limit)
            return False
        was_full = self.is_full
        if self.gate == gates.WINDOW_FULL:
            self.is_full = False
        return was_full and not self.is_full

    def refused(self) -> bool:
        self.was_full = False  # credit has no half
        return super().refused()

    def take(self) -> bool:
        self.in_flight += 1
        if self.in_flight < self.limit:
            return False
        self._fill(gates.WINDOW_FULL, self.limit)
        return True

    def give_back(self, size_bytes: int) -> bool:
        self.limit -= 1
        self.in_flight -= 1
        if size_bytes > self.counted_above:
            self._return_bytes(size_bytes)
        # Without credit it stays full: settling a message gives room for none.
        return self.is_full and self.gate != gates.WINDOW_FULL and self._opens()

    def _leave(self, count: int) -> None:
        self.limit -= count
        self.in_flight -= count

    def retake(self, size_bytes: int) -> None:
        self.limit += 1
        super().retake(size_bytes)

    def describe(self) -> str:
        if self.gate == gates.WINDOW_FULL:
            return f"no credit left, {self.in_flight} in flight, resumes when the client grants more"
        return super().describe()

    def _opens(self) -> bool:
        if self.in_flight >= self.limit:
            self._fill(gates.WINDOW_FULL, self.limit)
            return False
        return super()._opens()


def window_for(settings: AddressSettings, options: SubscribeOptions, is_topic: bool, is_settled: bool) -> Window:
    """Return the window of a new consumer: what it asks for, else what its address says.

    is_settled: acknowledged automatically; nothing is ever in flight, and only the rate holds it.
    Raises: InvalidOption for a prefetch below 0, or 0 with automatic acknowledgement, where nothing could ever
    ask for the next message.
    """
    policy = settings.prefetch
    prefetch = options.prefetch
    if options.is_credited:
        return _limited(CreditWindow(), settings, options, is_settled)
    if prefetch is not None and prefetch < 0:
        raise InvalidOption(f"prefetchSize is {prefetch}; allowed is 0 (one at a time, on demand) and above")
    is_half = policy.top_up == "half"
    if prefetch is not None:
        window = Window(clamp_prefetch(prefetch), is_half)
    else:
        prefetch = clamp_prefetch(policy.default_for(is_topic, options.is_durable, options.is_browser))
        if is_topic or options.is_browser:
            window = Window(prefetch, is_half)
        else:
            other = clamp_prefetch(policy.non_persistent_queue_prefetch)
            window = Window(max(prefetch, other), is_half)
            if not is_settled:
                window.limit_kinds(prefetch, other)
    if prefetch == 0 and is_settled:
        raise InvalidOption(
            "prefetchSize 0 is pull: the next message comes after the last was acknowledged, and ack mode auto "
            "acknowledges nothing; use ack client or client-individual, or a prefetchSize of 1 and above"
        )
    return _limited(window, settings, options, is_settled)


def _limited(window: Window, settings: AddressSettings, options: SubscribeOptions, is_settled: bool) -> Window:
    """Limit a window's octets and rate."""
    flow = settings.flow
    window.limit_rate(flow.consumer_max_rate_per_second if options.rate is None else options.rate)
    if not is_settled:
        window.limit_bytes(flow.consumer_window_size_bytes if options.window_bytes is None else options.window_bytes)
    return window
