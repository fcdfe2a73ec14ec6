"""Messages that wait at a gate: sent to an address that takes nothing now.

Their links are granted no more credit; what was granted is still taken, so what waits is bounded by the credit, and by
octets: beyond ``park_bytes`` a connection that only sends is no longer read, beyond ``park_max_bytes`` the link ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.message import Message
from engine.queue import Queue
from engine.topic import Topic

if TYPE_CHECKING:
    from protocols.amqp.v1_0.link import IncomingLink

PARKED_OVERHEAD_BYTES: Final = 512


class Parked:
    __slots__ = ("link", "delivery_id", "is_settled", "destination", "message")

    def __init__(
        self, link: IncomingLink, delivery_id: int, is_settled: bool, destination: Queue | Topic, message: Message
    ) -> None:
        self.link = link
        self.delivery_id = delivery_id
        self.is_settled = is_settled
        self.destination = destination
        self.message = message


class Parking:
    """parked: in the order they came.  addresses: what they wait for, so that none overtakes another."""

    __slots__ = ("parked", "parked_bytes", "addresses", "is_reading_paused")

    def __init__(self) -> None:
        self.parked: list[Parked] = []
        self.parked_bytes = 0
        self.addresses: dict[str, int] = {}
        self.is_reading_paused = False

    def holds(self, destination: Queue | Topic) -> bool:
        """Say whether messages to ``destination`` wait, behind which others must."""
        return bool(self.addresses) and destination.uri() in self.addresses

    def add(self, one: Parked) -> None:
        self.parked.append(one)
        self.parked_bytes += one.message.size + PARKED_OVERHEAD_BYTES
        self.addresses[one.destination.uri()] = 1

    def take_all(self) -> list[Parked]:
        """Return all in order; those that must still wait are parked again by the caller."""
        parked = self.parked
        self.parked = []
        self.parked_bytes = 0
        self.addresses = {}
        return parked

    def forget(self, link: IncomingLink) -> int:
        """Drop what waits of a link that has gone; return how many that were."""
        if not self.parked:
            return 0
        parked = self.take_all()
        for one in parked:
            if one.link is not link:
                self.add(one)
        return len(parked) - len(self.parked)
