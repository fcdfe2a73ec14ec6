"""What a window asks of whoever pays for what it has in flight."""

from __future__ import annotations

from abc import abstractmethod

from engine.values.delivery import ConsumerBase


class StakeBase:
    """What a window has of its user's memory (engine.consumers.unsettled_share).

    units: messages that are paid for, at least those in flight once ``cover`` has been asked.
    counts_above: messages with more octets are told of one by one, going out and coming back.
    """

    __slots__ = ("units", "counts_above")

    def __init__(self) -> None:
        self.units = 0
        self.counts_above = -1

    @abstractmethod
    def cover(self, in_flight: int, most: int) -> None:
        """Pay for as many as are in flight, and for some more, ``most`` in all."""

    @abstractmethod
    def admits(self, in_flight: int) -> bool:
        """Say whether one message more may go out now."""

    @abstractmethod
    def wait(self, consumer: ConsumerBase) -> None:
        """Let a consumer that got none wait for its turn."""

    @abstractmethod
    def take(self, size_bytes: int) -> None:
        """Pay for what this message has more than others."""

    @abstractmethod
    def give_back(self, size_bytes: int, in_flight: int) -> None:
        """It has come back; so many are left."""

    @abstractmethod
    def hold(self, size_bytes: int, is_held: bool) -> None:
        """A transaction holds it now, or no more; while it does it has no place in the window."""

    @abstractmethod
    def describe(self) -> str:
        """Return in words what is left of all that the user has, which is too little."""
