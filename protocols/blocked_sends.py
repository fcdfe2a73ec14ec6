"""Messages that wait, in order, because their addresses accept nothing now; the same in every protocol."""

from __future__ import annotations

from typing import Generic, TypeVar

from mypy_extensions import mypyc_attr

from engine.api import EngineApi
from engine.consumers.client import Client
from engine.limits.parked_producers import PAUSE, REFUSE, BlockLimit
from engine.sources.composite import Destination, Target, paced_part, reached
from engine.sources.identified import Identified
from engine.values import gates
from engine.values.destination import QUEUE, TOPIC
from engine.values.message import Message
from protocols.connection import ProtocolConnection


@mypyc_attr(allow_interpreted_subclasses=True)
class BlockedSend:
    """addresses: those that it waits for.  size_bytes: its memory meanwhile."""

    __slots__ = ("addresses", "size_bytes")

    def __init__(self, addresses: list[str], size_bytes: int) -> None:
        self.addresses = addresses
        self.size_bytes = size_bytes


def kept_bytes(destination: Destination | None) -> int:
    """Return the memory of what only a waiting message's destination keeps: the text of a duplicate id."""
    return destination.memory_bytes() if isinstance(destination, Identified) else 0


def send_paced(engine: EngineApi, client: Client, paced: Target, destination: Destination, message: Message) -> int:
    """Send like ``EngineApi.send`` a message that counts for the rate at which ``client`` may send to ``paced``.

    paced: what ``paced_part`` returns for ``destination``.  A message that is refused counts for nothing.
    """
    waits = engine.producer_gates.waits
    if waits.rate_refusal(client, paced) != gates.OPEN:
        return gates.RATE
    gate = engine.send(destination, message)
    if gate != gates.OPEN:
        waits.not_sent(client, paced)
    return gate


Waiting = TypeVar("Waiting", bound=BlockedSend)


class BlockedSends(Generic[Waiting]):
    """waiting: in the order of arrival.  addresses: those that they wait for, so that nothing overtakes them."""

    __slots__ = ("producer_gates", "destinations", "connection", "limit", "waiting", "size_bytes", "addresses")

    def __init__(self, connection: ProtocolConnection, limit: BlockLimit) -> None:
        self.producer_gates = connection.engine.producer_gates
        self.destinations = connection.engine.destinations
        self.connection = connection
        self.limit = limit
        self.waiting: list[Waiting] = []
        self.size_bytes = 0
        self.addresses: set[str] = set()

    def holds(self, destination: Destination) -> bool:
        """Say whether a message to ``destination`` would overtake a waiting one."""
        return bool(self.addresses) and any(address in self.addresses for address in addresses_of(destination))

    def park(self, one: Waiting, destination: Destination, gate: int) -> bool:
        """Let ``one`` wait at the gate of ``destination``; return False if too much waits then.

        gate: OPEN if it only waits behind others.
        """
        verdict = self.limit.verdict(self.connection, self.size_bytes, one.size_bytes)
        if verdict == REFUSE:
            return False
        self.add(one)
        if gate != gates.OPEN:
            self.producer_gates.waits.park(self.connection, gate, self._held_part(destination, gate))
        if verdict == PAUSE:
            self.connection.pause_reading()
        return True

    def add(self, one: Waiting) -> None:
        """Let ``one`` wait behind all others."""
        self.waiting.append(one)
        self.size_bytes += one.size_bytes
        self.addresses.update(one.addresses)
        self.connection.is_holding = True

    def take_all(self) -> list[Waiting]:
        """Return all in order; those that must still wait are parked again by the caller."""
        waiting = self.waiting
        self.waiting = []
        self.size_bytes = 0
        self.addresses = set()
        return waiting

    def drop(self) -> None:
        """The connection leaves: report what waited, and forget it."""
        if self.waiting:
            self.connection.socket.frames_dropped(len(self.waiting))
        self.take_all()

    def late_for(self, uri: str) -> Waiting | None:
        """Return the first that waits for an address, or the first of all; None if nothing waits."""
        waiting = self.waiting
        return next((one for one in waiting if uri in one.addresses), waiting[0] if waiting else None)

    def _held_part(self, destination: Destination, gate: int) -> Target:
        """Return the address whose gate is shut, among those that a message to ``destination`` reaches.

        A destination that was deleted since was made again by its name, and the new one is full.
        """
        if gate == gates.RATE:
            paced = paced_part(destination)
            assert paced is not None, "only a part with a rate refuses for it"
            return paced
        if gate != gates.ADDRESS_FULL:
            return self._there_now(reached(destination)[0])
        found = [self._there_now(one) for one in reached(destination)]
        shut = (one for one in found if one.account is not None and one.account.is_shut)
        return next(shut, found[0])

    def _there_now(self, one: Target) -> Target:
        if not one.is_closed:
            return one
        is_there = one.kind in (QUEUE, TOPIC) and not self.destinations.is_new(one.kind, one.name)
        return self.destinations.target(one.kind, one.name) if is_there else one

    def is_low(self) -> bool:
        """Say whether so little waits that a paused connection is read again."""
        return self.size_bytes < self.limit.pause_bytes


def addresses_of(destination: Destination) -> list[str]:
    return [target.uri() for target in reached(destination)]
