"""How much one user may take of shared things: connections, destinations, durable subscriptions, schedules.

If logins are checked, a user is a login, from whatever address.  Otherwise each client address is a user, and its
connections are counted where they are accepted.  An IPv6 address counts as its network of 64 bits, in which a host can
pick any address.  The rules hold for every protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from typing import Final

from config.policies import UNLIMITED
from engine.consumers.client import Client
from engine.consumers.quota import DurableQuota, Quota, holder_of
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic

CONNECTIONS: Final = "limits.connections-per-user"
DESTINATIONS: Final = "limits.destinations-per-user"
SCHEDULES: Final = "limits.schedules-per-user"


@dataclass(frozen=True, slots=True)
class UserLimits:
    """Per user, or per address.  destinations: made since the start, including temporary ones.  schedules: likewise.

    unsettled_bytes: that its consumers hold (engine.consumers.unsettled_share).
    durable_wildcard_topics: with which one durable subscription to a wildcard may begin: they are opened in one turn.
    """

    connections: int = UNLIMITED
    destinations: int = UNLIMITED
    durable_subscriptions: int = UNLIMITED
    durable_wildcard_topics: int = UNLIMITED
    schedules: int = UNLIMITED
    unsettled_bytes: int = UNLIMITED


class Quotas(Observer):
    """made: the maker of a destination, by its number; destinations from before the start have no maker."""

    __slots__ = (
        "connections",
        "destinations",
        "durable_subscriptions",
        "schedules",
        "_made",
        "_entered",
    )

    def __init__(self, limits: UserLimits) -> None:
        self.connections = Quota(CONNECTIONS, "connections", limits.connections)
        self.destinations = Quota(DESTINATIONS, "destinations that it made", limits.destinations)
        self.durable_subscriptions = DurableQuota(limits.durable_subscriptions, limits.durable_wildcard_topics)
        self.schedules = Quota(SCHEDULES, "messages scheduled", limits.schedules)
        self._made: dict[int, str] = {}
        self._entered: dict[int, str] = {}

    def enter(self, client: Client, user: str, host: str) -> None:
        """Count a connection for its user, "" where logins are not checked.  Raises: LimitReached."""
        holder = holder_of(user) or f"address {network_of(host)}"
        if user:
            self.connections.require(holder)
            self.connections.add(holder)
            self._entered[client.client_number] = holder
        client.holder = holder

    def leave(self, client: Client) -> None:
        self.connections.give_back(self._entered.pop(client.client_number, ""))

    def made(self, client: Client, destination: Queue | Topic) -> None:
        """Count a destination that was made because a client named it."""
        if client.holder:
            self._made[destination.destination_id] = client.holder
            self.destinations.add(client.holder)

    def destination_removed(self, destination: Queue | Topic) -> None:
        self.destinations.give_back(self._made.pop(destination.destination_id, ""))

    def refused_counts(self) -> dict[str, int]:
        """Return how often each limit was enforced since the start."""
        quotas = (self.connections, self.destinations, self.durable_subscriptions, self.schedules)
        return {one.name: one.refused for one in quotas}


def network_of(address: str) -> str:
    """Return the unit that counts as one address: itself, or the network of an IPv6 host."""
    if ":" not in address:
        return address
    try:
        parsed = IPv6Address(address)
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    if parsed.is_loopback or parsed.is_link_local:
        return address
    return str(IPv6Network((int(parsed) >> 64 << 64, 64)))
