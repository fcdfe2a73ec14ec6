"""How many sockets may be open: each counts from its accept to its close, whatever its protocol.

An uncounted socket could take the descriptor that the store needs for its next segment.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import Final

from config.model import ServerConfig
from config.policies import UNLIMITED
from engine.consumers.user_quota import network_of
from gateway.process.counters import GatewayCounters
from gateway.process.descriptors import RESERVED_DESCRIPTORS, connections_within, raise_limit
from gateway.process.log_lines import PeerLines
from gateway.settings.engine_settings import share

REFUSED_MAX: Final = 64  # sockets over the limit that still get an error; further ones are cut off at once

log: Final = logging.getLogger("penstock.listener")


class Place:
    """address: of the peer, or its network (``network_of``).  refusal: why the socket may not stay; "" if it may."""

    __slots__ = ("address", "refusal", "_admission")

    def __init__(self, admission: Admission, address: str, refusal: str) -> None:
        self.address = address
        self.refusal = refusal
        self._admission: Admission | None = admission

    def leave(self) -> None:
        """Give the place back; a second call has no effect."""
        admission, self._admission = self._admission, None
        if admission is not None:
            admission.left(self)


class Yielding(ABC):
    """A socket that may lose its place to a new one."""

    @abstractmethod
    def give_way(self) -> None:
        """Give the place back at once; the socket ends."""


class Admission:
    """most: sockets at a time.  address_most: of one address.  counters: count the refused ones.

    yielding: sockets that lose their place if there is none for a new one, the first one first.
    """

    def __init__(self, most: int, address_most: int, counters: GatewayCounters) -> None:
        self._most = most
        self._address_most = address_most
        self._counters = counters
        self.lines = PeerLines(counters)
        self.open_count = 0
        self._refused_count = 0
        self._by_address: dict[str, int] = {}
        self.yielding: dict[Yielding, None] = {}

    def admit(self, address: str) -> Place | None:
        """Return a place for a socket of this address; None: cut it off at once."""
        address = network_of(address)
        of_address = self._by_address.get(address, 0)
        if self.open_count >= self._most and of_address < self._address_most and self.yielding:
            self._counters.refused += 1
            next(iter(self.yielding)).give_way()
            of_address = self._by_address.get(address, 0)
        if self.open_count >= self._most:
            return self._refused(address, f"{self.open_count} connections are open, which is the limit")
        if of_address >= self._address_most:
            text = f"{of_address} connections of {address} are open, which is the limit for one address"
            return self._refused(address, text)
        self.open_count += 1
        self._by_address[address] = of_address + 1
        return Place(self, address, "")

    def left(self, place: Place) -> None:
        """Call ``Place.leave`` instead."""
        if place.refusal:
            self._refused_count -= 1
            return
        self.open_count -= 1
        count = self._by_address.pop(place.address) - 1
        if count:
            self._by_address[place.address] = count

    def cut(self, place: Place, why: str) -> None:
        """Note that a socket with a place was cut off to make room."""
        self._counters.refused += 1
        self.lines.warn(log, place.address, f"cut off, {why}")

    def _refused(self, address: str, refusal: str) -> Place | None:
        self._counters.refused += 1
        if self._refused_count >= REFUSED_MAX:
            return None
        self._refused_count += 1
        if self._refused_count == 1:  # a storm of refusals is one line; the metric counts them
            self.lines.warn(log, address, f"refused, {refusal}")
        return Place(self, address, refusal)


def admission_of(config: ServerConfig, counters: GatewayCounters) -> Admission:
    most = _connections_max(config)
    address_most = config.limits.connections_per_address
    return Admission(most, share(most) if address_most == UNLIMITED else address_most, counters)


def _connections_max(config: ServerConfig) -> int:
    wanted = config.stomp.limits.connections
    limit = raise_limit()
    allowed = connections_within(wanted, limit)
    if allowed < wanted:
        logging.getLogger("penstock").warning(
            "at most %d connections instead of %d: this process may open %d files, and %d are reserved (ulimit -n)",
            allowed,
            wanted,
            limit,
            RESERVED_DESCRIPTORS,
        )
    return allowed
