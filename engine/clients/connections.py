"""Connections of clients, from connect to disconnect, and their JMS client ids.

engine.consumers.departures closes what a connection leaves behind: its consumers and its temporary destinations.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.clients.consumer_registry import Subscribing
from engine.consumers.client import Client, Outlet
from engine.consumers.user_quota import Quotas
from engine.limits.connection_memory import Holdings
from engine.limits.producer_gates import ProducerGates
from engine.values.errors import ClientIdInUse


@dataclass(slots=True, eq=False)
class ClientIds:
    """Which connections have which client id, over all protocols, and which of them must be the only one.

    Source: Jakarta Messaging 3.1, section 6.1.2; AMQP's sole-connection-for-container; ActiveMQ always refuses the
    second.
    """

    _holders: dict[tuple[str, str], dict[int, bool]] = field(default_factory=dict)
    _ids: dict[int, tuple[str, str]] = field(default_factory=dict)

    def take(self, client: Client, client_id: str, is_sole: bool) -> None:
        """Give ``client`` an id, "" for none.

        is_sole: no other connection may have the id at the same time.  Raises: ClientIdInUse.
        """
        if not client_id:
            return
        key = (client.user, client_id)  # a user whose login was checked keeps no other one out
        holders = self._holders.setdefault(key, {})
        if holders and (is_sole or any(holders.values())):
            raise ClientIdInUse(f"client id {client_id[:200]!r} is in use by another connection")
        holders[client.client_number] = is_sole
        self._ids[client.client_number] = key

    def leave(self, client: Client) -> None:
        key = self._ids.pop(client.client_number, None)
        if key is None:
            return
        holders = self._holders[key]
        del holders[client.client_number]
        if not holders:
            del self._holders[key]


@dataclass(slots=True, eq=False)
class Connections:
    """by_number: the present connections."""

    by_number: dict[int, Client]
    client_ids: ClientIds
    _subscribing: Subscribing
    _producer_gates: ProducerGates
    _quotas: Quotas
    _holdings: Holdings
    _next_number: int = 1

    def connect(self, client: Client) -> None:
        client.client_number = self._next_number
        self._next_number += 1
        self.by_number[client.client_number] = client

    def introduce(self, client: Client, host: str, client_id: str, is_sole: bool) -> None:
        """Register a client whose peer has identified itself.  Raises: LimitReached, ClientIdInUse."""
        self._quotas.enter(client, client.user, host)
        self.client_ids.take(client, client_id, is_sole)

    def disconnect(self, client: Client, is_lost: bool) -> None:
        """Close all consumers of ``client``, large numbers over several turns; its transactions must have been aborted
        before.
        """
        if self.by_number.pop(client.client_number, None) is None:
            return
        self._producer_gates.waits.forget(client)
        self.client_ids.leave(client)
        self._quotas.leave(client)
        self._holdings.count(client, 0)
        self._subscribing.departures.disconnect(client, is_lost)

    def output_drained(self, outlet: Outlet) -> None:
        """Let the consumers of a socket, or of a part of it, take turns again, as it accepts output again."""
        if not outlet.is_output_full or (isinstance(outlet, Client) and outlet.client_number not in self.by_number):
            return
        outlet.is_output_full = False
        self._subscribing.wakes.open(outlet)
