"""What limits a window besides the number of messages: octets, a rate, the memory of its user."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Final

from engine.values.delivery import ConsumerBase

PERIOD_MS: Final = 1_000


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
