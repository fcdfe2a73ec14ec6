"""The connections of the running gateway, looked at in steps, so that the engine continues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from engine.broker import Broker
from engine.consumers.client import Client
from engine.limits.gate_words import describe
from gateway.web.rest.rest_client import RestClient
from protocols.connection import ProtocolConnection

AT_ONCE: Final = 128  # in one step
HTTP: Final = "http"


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """One connection of a client.  protocol: stomp, amqp, openwire or http.

    held_bytes: its memory, with output that it has not read.  waits_for: the gate of its messages, "" for none.
    """

    connection_id: int
    protocol: str
    address: str
    client_id: str
    login: str
    consumers: int
    held_bytes: int
    waits_for: str
    waited_ms: int


class LiveConnections:
    def __init__(self, broker: Broker) -> None:
        self._clients = broker.clients
        self._gates = broker.producer_gates

    def steps(self) -> Iterator[list[ConnectionRow]]:
        """Yield some more at each step; those that come or go meanwhile may be missing or included."""
        clients = list(self._clients.values())
        for start in range(0, len(clients), AT_ONCE):
            yield [
                self._row(one)
                for one in clients[start : start + AT_ONCE]
                if isinstance(one, ProtocolConnection | RestClient)
            ]

    def _row(self, client: Client) -> ConnectionRow:
        who = client.describe()
        number = client.client_number
        waits = self._gates.waits.parked.get(number)
        return ConnectionRow(
            number,
            client.protocol_name() if isinstance(client, ProtocolConnection) else HTTP,
            who.get("address", ""),
            who.get("client_id", ""),
            who.get("login", ""),
            len(client.consumers),
            client.all_held_bytes(),
            "; ".join([describe(self._gates, wait) for wait in waits.values()]) if waits else "",
            self._gates.waits.waited_ms(number) if waits else 0,
        )
