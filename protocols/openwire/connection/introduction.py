"""ConnectionInfo: who the client is.  BrokerInfo: who we are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from protocols.connection import ProtocolConnection
from protocols.openwire.connection.peers import Peer
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.openwire.errors import NoClientId, RequestError
from protocols.openwire.wire.commands import BrokerInfo, ConnectionInfo
from protocols.openwire.wire.identities import BrokerId
from protocols.peer_socket import PeerSocket, host_of

ID_MOST_CHARACTERS: Final = 500  # of a connection; every consumer, producer and dispatch has its id


@dataclass(slots=True, eq=False)
class Introduction:
    """connection_id: the client's own, the same after it reconnects; "" before it has come.

    command_id, response_required: of the ConnectionInfo.  has_proved_login: a certificate has proved the login.
    is_failover: the client connects again and sends again what was not answered.  is_reconnect: this is such a
    connection.  is_manageable: it lets us close its consumers.
    """

    socket: PeerSocket
    settings: OpenWireSettings
    connection_id: str = ""
    client_id: str = ""
    login: str = ""
    passcode: str = ""
    command_id: int = 0
    response_required: bool = False
    has_proved_login: bool = False
    is_failover: bool = False
    is_reconnect: bool = False
    is_manageable: bool = False

    def take(self, info: ConnectionInfo) -> None:
        self.command_id = info.command_id
        self.response_required = info.response_required
        self.connection_id = "" if info.connection_id is None else info.connection_id.value
        self.client_id = info.client_id or ""
        self.login = info.user_name or ""
        self.passcode = info.password or ""
        self.is_failover = self.is_failover or info.fault_tolerant or info.failover_reconnect
        self.is_reconnect = info.failover_reconnect
        self.is_manageable = info.manageable
        identity = self.socket.identity()
        if identity and not self.login:
            self.login = identity
            self.has_proved_login = True

    def admit(self, connection: ProtocolConnection, peer: Peer) -> None:
        """Introduce the connection to its peers and to the engine.  Raises: RequestError, EngineError."""
        self.passcode = ""
        if not self.client_id:
            raise NoClientId("No clientID specified.")
        if not self.connection_id:
            raise RequestError("ConnectionInfo has no connectionId")
        for name, text in (("connectionId", self.connection_id), ("clientId", self.client_id)):
            if len(text) > ID_MOST_CHARACTERS:
                raise RequestError(f"{name} has {len(text)} characters, the limit is {ID_MOST_CHARACTERS}")
        settings = self.settings
        if settings.needs_login:  # an unchecked login proves nothing
            self.login = connection.take_login(self.login, settings.groups)
        settings.peers.enter(self.key(), peer)
        settings.connection_ids.enter(self.connection_id, connection.user, peer)
        connection.engine.introduce(connection, host_of(self.socket.peer()), self.client_id, True)

    def key(self) -> str:
        """Return what names the connection among all: other users cannot take it over."""
        return f"{self.login if self.settings.needs_login else ''}\n{self.connection_id}"

    def broker_info(self, store_id: str) -> BrokerInfo:
        server = self.settings.server
        return BrokerInfo(
            broker_id=BrokerId(f"ID:{store_id}"), broker_url=server, peer_broker_infos=[], broker_name=server
        )
