"""How much one user may take of shared things: connections, destinations, durable subscriptions, schedules.

If logins are checked, a user is a login, from whatever address.  Otherwise each client address is a user, and its
connections are counted where they are accepted.  An IPv6 address counts as its network of 64 bits, in which a host can
pick any address.  The rules hold for every protocol.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv6Address, IPv6Network
from typing import Final

from config.policies import UNLIMITED
from engine.consumers.client import Client
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values.errors import LimitReached

USER_MAX_CHARACTERS: Final = 255  # nobody with a longer name can log in


@dataclass(slots=True, eq=False)
class Quota:
    """Each holder's number of one thing.

    name: of the limit.  things: what is counted, in words.  most: per holder, UNLIMITED for no limit.
    refused: how often the limit was enforced.
    """

    name: str
    things: str
    most: int
    refused: int = 0
    _counts: dict[str, int] = field(default_factory=dict)

    def count(self, holder: str) -> int:
        return self._counts.get(holder, 0)

    def has_room(self, holder: str, more: int = 1) -> bool:
        """Say whether the limit allows more; holder "" has no limit."""
        return not holder or self.most < 0 or self._counts.get(holder, 0) + more <= self.most

    def require(self, holder: str, more: int = 1) -> None:
        """Raises: LimitReached if the limit would be exceeded."""
        if not self.has_room(holder, more):
            count = self._counts.get(holder, 0)
            self.refused += 1
            asked = "which is the limit" if count >= self.most else f"{more} more would exceed the limit"
            raise LimitReached(f"{holder} has {count} {self.things}, {asked} ({self.name}: {self.most})")

    def add(self, holder: str) -> None:
        """Count one more, whatever the limit."""
        if holder:
            self._counts[holder] = self._counts.get(holder, 0) + 1

    def give_back(self, holder: str, count: int = 1) -> None:
        if not holder or not count:
            return
        left = self._counts[holder] - count
        if left:
            self._counts[holder] = left
        else:
            del self._counts[holder]


def holder_of(user: str) -> str:
    """Return the holder of a user's things, in words; "" without a user."""
    return f"user {user[:USER_MAX_CHARACTERS]!r}" if user else ""


def holder_at(user: str, host: str) -> str:
    """Return the holder of what comes from ``host``: the user, the host's address where logins are not checked."""
    return holder_of(user) or f"address {network_of(host)}"


CONNECTIONS: Final = "limits.connections-per-user"
SUBSCRIPTIONS: Final = "limits.subscriptions-per-user"
DURABLE_SUBSCRIPTIONS: Final = "limits.durable-subscriptions-per-user"
DURABLE_WILDCARDS: Final = "limits.durable-wildcards-per-user"
DURABLE_WILDCARD_TOPICS: Final = "limits.durable-wildcard-topics-per-user"
DESTINATIONS: Final = "limits.destinations-per-user"
SCHEDULES: Final = "limits.schedules-per-user"


@dataclass(frozen=True, slots=True)
class UserLimits:
    """Per user, or per address.  destinations: made since the start, including temporary ones.  schedules: likewise.

    subscriptions: in memory, to topics and wildcards.
    unsettled_bytes: that its consumers hold (engine.consumers.unsettled_memory).
    pending_bytes: that wait in memory in its subscriptions (engine.limits.pending_memory).
    late_bytes: that it has committed to topics and that is not published yet (engine.sources.topics.late_memory).
    durable_wildcards: durable subscriptions to wildcards.
    durable_wildcard_topics: that all of these together take from.
    messages_per_second, bytes_per_second: that it may send (engine.limits.user_rates); 0 for no limit.
    """

    connections: int = UNLIMITED
    destinations: int = UNLIMITED
    subscriptions: int = UNLIMITED
    durable_subscriptions: int = UNLIMITED
    durable_wildcards: int = UNLIMITED
    durable_wildcard_topics: int = UNLIMITED
    schedules: int = UNLIMITED
    unsettled_bytes: int = UNLIMITED
    pending_bytes: int = UNLIMITED
    late_bytes: int = UNLIMITED
    messages_per_second: int = 0
    bytes_per_second: int = 0

    def has_rates(self) -> bool:
        return bool(self.messages_per_second or self.bytes_per_second)


class Quotas(Observer):
    """made: the maker of a destination, by its number; destinations from before the start have no maker."""

    __slots__ = (
        "connections",
        "destinations",
        "subscriptions",
        "durable_subscriptions",
        "durable_wildcards",
        "durable_wildcard_topics",
        "schedules",
        "_made",
        "_entered",
    )

    def __init__(self, limits: UserLimits) -> None:
        self.connections = Quota(CONNECTIONS, "connections", limits.connections)
        self.destinations = Quota(DESTINATIONS, "destinations that it made", limits.destinations)
        self.subscriptions = Quota(SUBSCRIPTIONS, "subscriptions of topics that are not durable", limits.subscriptions)
        self.durable_subscriptions = Quota(DURABLE_SUBSCRIPTIONS, "durable subscriptions", limits.durable_subscriptions)
        self.durable_wildcards = Quota(
            DURABLE_WILDCARDS, "durable subscriptions to wildcards", limits.durable_wildcards
        )
        self.durable_wildcard_topics = Quota(
            DURABLE_WILDCARD_TOPICS, "topics of durable wildcards", limits.durable_wildcard_topics
        )
        self.schedules = Quota(SCHEDULES, "messages scheduled", limits.schedules)
        self._made: dict[int, str] = {}
        self._entered: dict[int, str] = {}

    def enter(self, client: Client, user: str, host: str) -> None:
        """Count a connection for its user, "" where logins are not checked.  Raises: LimitReached."""
        holder = holder_at(user, host)
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
        quotas = (
            self.connections,
            self.destinations,
            self.subscriptions,
            self.durable_subscriptions,
            self.durable_wildcards,
            self.durable_wildcard_topics,
            self.schedules,
        )
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
