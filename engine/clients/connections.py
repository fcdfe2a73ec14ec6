"""Connections of clients, from connect to disconnect."""

from __future__ import annotations

from engine.clients.client_ids import ClientIds
from engine.clients.consumer_registry import Subscribing
from engine.consumers.client import Client
from engine.consumers.outlet import Outlet
from engine.limits.connection_memory import Holdings
from engine.limits.producer_gate import Flow
from engine.limits.user_quota import Quotas


class Connections:
    """by_number: the present connections."""

    __slots__ = ("by_number", "client_ids", "_subscribing", "_flow", "_quotas", "_holdings", "_next_number")

    def __init__(
        self,
        by_number: dict[int, Client],
        client_ids: ClientIds,
        subscribing: Subscribing,
        flow: Flow,
        quotas: Quotas,
        holdings: Holdings,
    ) -> None:
        self.by_number = by_number
        self.client_ids = client_ids
        self._subscribing = subscribing
        self._flow = flow
        self._quotas = quotas
        self._holdings = holdings
        self._next_number = 1

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
        self._flow.waits.forget(client)
        self.client_ids.leave(client)
        self._quotas.leave(client)
        self._holdings.count(client, 0)
        self._subscribing.departures.disconnect(client, is_lost)

    def output_drained(self, outlet: Outlet) -> None:
        """Let the consumers of a socket, or of a part of it, take turns again, as it accepts output again."""
        if not outlet.is_output_full or (isinstance(outlet, Client) and outlet.client_number not in self.by_number):
            return
        outlet.is_output_full = False
        self._subscribing.wakes.open(outlet.resting)
