"""The interface by which a window has its deliveries in flight paid for."""

from __future__ import annotations

from abc import abstractmethod

from engine.values.delivery import ConsumerBase


class StakeBase:
    """The part of a user's memory that one window uses (engine.consumers.unsettled_share).

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
    def hold(self, size_bytes: int, is_held: bool) -> None:
        """A transaction begins or ends to hold a message; meanwhile it has no place in the window."""

    @abstractmethod
    def describe(self) -> str:
        """Return in words what is left of the user's memory, which is too little."""
