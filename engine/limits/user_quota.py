"""How much of what all share one user may take: connections, destinations, durable subscriptions, schedules.

Where logins are checked a user is a login, whatever address it comes from; elsewhere each client address is one, and
its connections are counted where they are accepted.  Of IPv6 it is the network of 64 bits: a host picks any address in
its own.  The rules are the engine's, for every protocol.
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
    """Of one user, or one address.  destinations: made since the start, temporary ones too.  schedules: the same.

    unsettled_bytes: that its consumers hold (engine.consumers.unsettled_share).
    durable_wildcard_topics: that one durable subscription to a wildcard may begin with: they are opened in one turn.
    """

    connections: int = UNLIMITED
    destinations: int = UNLIMITED
    durable_subscriptions: int = UNLIMITED
    durable_wildcard_topics: int = UNLIMITED
    schedules: int = UNLIMITED
    unsettled_bytes: int = UNLIMITED


class Quotas(Observer):
    """made: who made a destination, by its number; those that were there before the start are nobody's."""

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
        """Count a destination that has come by what a client named."""
        if client.holder:
            self._made[destination.destination_id] = client.holder
            self.destinations.add(client.holder)

    def destination_removed(self, destination: Queue | Topic) -> None:
        self.destinations.give_back(self._made.pop(destination.destination_id, ""))

    def refused_counts(self) -> dict[str, int]:
        """Return how often each limit has refused somebody since the start."""
        quotas = (self.connections, self.destinations, self.durable_subscriptions, self.schedules)
        return {one.name: one.refused for one in quotas}


def network_of(address: str) -> str:
    """Return what counts as one address: itself, or the network that a host of IPv6 has for itself."""
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
