"""Which connections have which JMS client id, and which of them must be the only one.

Source: Jakarta Messaging 3.1, section 6.1.2; AMQP's sole-connection-for-container; ActiveMQ always refuses the second.
"""

from __future__ import annotations

from engine.consumers.client import Client
from engine.values.errors import ClientIdInUse


class ClientIds:
    """The client ids of all protocols: one id names the same durable subscriptions in each."""

    __slots__ = ("_holders", "_ids")

    def __init__(self) -> None:
        self._holders: dict[tuple[str, str], dict[int, bool]] = {}  # client id -> client number -> is sole
        self._ids: dict[int, tuple[str, str]] = {}

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
