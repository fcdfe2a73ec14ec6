"""What limits a window besides the number of messages: octets, a rate, the memory of its user, and their kinds."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Final

from engine.ports.clock import Clock
from engine.values import gates
from engine.values.delivery import ConsumerBase
from engine.values.message import PERSISTENT, Message

PERIOD_MS: Final = 1_000
NOT_COUNTED: Final = 2**62  # larger than any message


class ByteCredit:
    """The octets that a window allows in flight: ``limit``, plus the rest of one message.

    credit: octets that may still be handed over; the last message may make it negative.
    returned: octets settled but not yet returned as credit; they are returned once there are ``return_at``.
    """

    __slots__ = ("limit", "credit", "returned", "return_at")

    def __init__(self, limit: int, is_half: bool) -> None:
        self.limit = limit
        self.credit = limit
        self.returned = 0
        self.return_at = limit // 2 if is_half else 0

    def in_flight(self) -> int:
        return self.limit - self.credit - self.returned


@dataclass(slots=True, eq=False)
class TokenBucket:
    """``rate`` messages per second, counted from the first one; what a second leaves unused is lost.

    Source: HornetQ consumer-max-rate and producer-max-rate.

    refill_ms: monotonic, when the next second begins.
    """

    rate: int
    tokens: int = 0
    refill_ms: int = 0

    def take(self, now_ms: int) -> bool:
        """Take one token; return False if none is left before ``refill_ms``."""
        if now_ms >= self.refill_ms:
            self.tokens = self.rate
            self.refill_ms = now_ms + PERIOD_MS
        if self.tokens == 0:
            return False
        self.tokens -= 1
        return True


class WindowMemoryBase:
    """The part of a user's memory that one window uses (engine.consumers.unsettled_memory).

    units: messages that are paid for; after a ``cover``, at least those in flight.
    counts_above: messages of more octets are counted individually, on their way out and back.
    """

    __slots__ = ("units", "counts_above")

    def __init__(self) -> None:
        self.units = 0
        self.counts_above = -1

    @abstractmethod
    def cover(self, in_flight: int, most: int) -> None:
        """Pay for the messages in flight and for some more, ``most`` in all."""

    @abstractmethod
    def admits(self, in_flight: int) -> bool:
        """Say whether one message more may be handed over now."""

    @abstractmethod
    def wait(self, consumer: ConsumerBase) -> None:
        """Let a consumer that got no message wait for memory."""

    @abstractmethod
    def take(self, size_bytes: int) -> None:
        """Pay for the octets of a message beyond a unit."""

    @abstractmethod
    def give_back(self, size_bytes: int, in_flight: int) -> None:
        """Refund them as the message has come back; ``in_flight`` are left."""

    @abstractmethod
    def enlist(self, size_bytes: int, is_enlisted: bool) -> None:
        """A transaction enlists a message, or is done with it; meanwhile it has no place in the window."""

    @abstractmethod
    def describe(self) -> str:
        """Return in words what is left of the user's memory, which is too little."""


class WindowLimits:
    """octets: the limit on octets in flight, None for none.  bucket: of the rate, None for none.

    memory: its part of the user's memory; None if nothing is ever in flight, or without a user.
    bytes_above, memory_above: messages of more octets count in ``octets``, or are passed to ``memory``.
    persistent, other: how many messages of the two kinds may be in flight, if their limits differ.
    """

    __slots__ = ("octets", "bucket", "memory", "bytes_above", "memory_above", "persistent", "other")

    def __init__(self, limit: int) -> None:
        self.persistent = limit
        self.other = limit
        self.octets: ByteCredit | None = None
        self.bucket: TokenBucket | None = None
        self.memory: WindowMemoryBase | None = None
        self.bytes_above = NOT_COUNTED
        self.memory_above = NOT_COUNTED

    def charge(self, message: Message, in_flight: int, is_settled: bool, clock: Clock) -> int:
        """Count a message that may be handed over and return OPEN; otherwise return the gate that holds it.

        is_settled: the message needs no acknowledgement, so only the rate counts.
        """
        size_bytes = message.size
        if not is_settled:
            if in_flight >= (self.persistent if message.flags & PERSISTENT else self.other):
                return gates.WINDOW_FULL
            octets = self.octets
            if octets is not None and octets.credit <= 0:
                return gates.BYTES_FULL
            if size_bytes <= self.memory_above:  # so it was passed here because of ``bytes_above``
                if octets is not None:
                    octets.credit -= size_bytes
            else:
                memory = self.memory
                if memory is None or not memory.admits(in_flight):
                    return gates.MEMORY
                memory.take(size_bytes)
                if octets is not None and size_bytes > self.bytes_above:
                    octets.credit -= size_bytes
        if self.bucket is not None and not self.bucket.take(clock.monotonic_ms()):
            if not is_settled:
                self._refund(size_bytes, in_flight)
            return gates.RATE
        return gates.OPEN

    def extend(self, more: int) -> None:
        self.persistent += more
        self.other += more

    def limit_for(self, message: Message) -> int:
        return self.persistent if message.flags & PERSISTENT else self.other

    def give_back(self, size_bytes: int, in_flight: int) -> None:
        """Return octets as credit, half of the window at a time.  in_flight: what is left."""
        if size_bytes > self.memory_above:
            if self.memory is not None:
                self.memory.give_back(size_bytes, in_flight)
            if size_bytes <= self.bytes_above:
                return
        octets = self.octets
        if octets is not None:
            returned = octets.returned + size_bytes
            if returned >= octets.return_at or in_flight == 0:
                octets.credit += returned
                returned = 0
            octets.returned = returned

    def retake(self, size_bytes: int) -> None:
        """Count a message again, even past the limits."""
        if self.octets is not None and size_bytes > self.bytes_above:
            self.octets.credit -= size_bytes
        if self.memory is not None:
            self.memory.take(size_bytes)

    def enlist(self, size_bytes: int, is_enlisted: bool) -> None:
        """A transaction enlists a message whose place it gives back, or is done with it."""
        if self.memory is not None:
            self.memory.enlist(size_bytes, is_enlisted)

    def release_enlisted(self, sizes: list[int]) -> None:
        """A transaction is done with messages that had given their places back."""
        if self.memory is not None:
            for size_bytes in sizes:
                self.memory.enlist(size_bytes, False)

    def holds(self, gate: int, in_flight: int) -> bool:
        """Say whether a window that ``gate`` shut stays shut."""
        if gate == gates.BYTES_FULL and self.octets is not None:
            return self.octets.credit <= 0
        if gate == gates.MEMORY and self.memory is not None:
            return not self.memory.admits(in_flight)
        return True

    def describe(self, gate: int) -> str:
        """Return in words why ``gate`` is shut and when it opens; "" for a gate that is not one of these limits."""
        octets = self.octets
        if gate == gates.BYTES_FULL and octets is not None:
            return (
                f"{octets.in_flight()} of {octets.limit} octets in flight (consumer-window-size), resumes when "
                f"{max(1, octets.return_at)} more are settled"
            )
        if gate == gates.MEMORY and self.memory is not None:
            return self.memory.describe()
        if gate == gates.RATE and self.bucket is not None:
            return f"{self.bucket.rate} messages a second (consumer-max-rate)"
        return ""

    def _refund(self, size_bytes: int, in_flight: int) -> None:
        """Undo the count of a message that is not handed over after all."""
        if self.octets is not None and size_bytes > self.bytes_above:
            self.octets.credit += size_bytes
        if self.memory is not None and size_bytes > self.memory_above:
            self.memory.give_back(size_bytes, in_flight)
