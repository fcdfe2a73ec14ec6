"""How many sockets may be open: each counts from its accept to its close, whatever is said on it.

A socket that counts nowhere takes the descriptor that the store needs for its next segment.
"""

from __future__ import annotations

import logging
from typing import Final

from engine.limits.user_quota import network_of
from gateway.process.counters import GatewayCounters

# So that one address, or one user, cannot take the last place.
SHARE_PERCENT: Final = 90
REFUSED_MAX: Final = 64  # sockets over the limit that are being told so; those beyond are cut off unheard

log: Final = logging.getLogger("penstock.listener")


class Place:
    """address: of the peer, or its network (``network_of``).  refusal: why there is none; "" for one that may stay."""

    __slots__ = ("address", "refusal", "_admission")

    def __init__(self, admission: Admission, address: str, refusal: str) -> None:
        self.address = address
        self.refusal = refusal
        self._admission: Admission | None = admission

    def leave(self) -> None:
        """Give the place back; again is nothing."""
        admission, self._admission = self._admission, None
        if admission is not None:
            admission.left(self)


class Admission:
    """most: sockets at a time.  address_most: of one address.  counters: count who was refused."""

    def __init__(self, most: int, address_most: int, counters: GatewayCounters) -> None:
        self._most = most
        self._address_most = address_most
        self._counters = counters
        self._open_count = 0
        self._refused_count = 0
        self._by_address: dict[str, int] = {}

    @property
    def open_count(self) -> int:
        return self._open_count

    def admit(self, address: str) -> Place | None:
        """Return a place for a socket of this address; None: cut it off unheard."""
        address = network_of(address)
        of_address = self._by_address.get(address, 0)
        if self._open_count >= self._most:
            return self._refused(address, f"{self._open_count} connections are open, which is the limit")
        if of_address >= self._address_most:
            text = f"{of_address} connections of {address} are open, which is the limit for one address"
            return self._refused(address, text)
        self._open_count += 1
        self._by_address[address] = of_address + 1
        return Place(self, address, "")

    def left(self, place: Place) -> None:
        """Call ``Place.leave`` instead."""
        if place.refusal:
            self._refused_count -= 1
            return
        self._open_count -= 1
        count = self._by_address.pop(place.address) - 1
        if count:
            self._by_address[place.address] = count

    def _refused(self, address: str, refusal: str) -> Place | None:
        self._counters.refused += 1
        if self._refused_count >= REFUSED_MAX:
            return None
        self._refused_count += 1
        if self._refused_count == 1:  # a storm of them is one line, the metric counts
            log.warning("%s: refused, %s", address, refusal)
        return Place(self, address, refusal)


def share(most: int) -> int:
    """Return how many of ``most`` one address or user may have where nothing is configured."""
    return most - most * (100 - SHARE_PERCENT) // 100  # of few, one may have all: a limit of 3 means 3
