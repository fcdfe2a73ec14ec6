"""Responses of an OpenWire connection, in order: Response, ExceptionResponse, ConnectionError."""

from __future__ import annotations

from engine.api import EngineApi
from protocols.openwire.wire.commands import ConnectionError as ConnectionErrorCommand
from protocols.openwire.wire.commands import ExceptionResponse, IntegerResponse, Structure
from protocols.openwire.wire.identities import ConnectionId, Throwable
from protocols.openwire.wire.writer import encode
from protocols.session.turn_confirmations import TurnConfirmations

_RESPONSE = b"\0\0\0\x0a\x1e\0\0\0\0\0"  # up to correlationId


class Responses(TurnConfirmations):
    """version: of the connection.  parts: encoded commands."""

    __slots__ = ("version",)

    def __init__(self, engine: EngineApi, out: list[bytes], version: int) -> None:
        super().__init__(engine, out)
        self.version = version

    def respond(self, command_id: int) -> None:
        self.parts.append(response(command_id))

    def respond_number(self, command_id: int, number: int) -> None:
        self.add(IntegerResponse(correlation_id=command_id, result=number))

    def refuse(self, command_id: int, error: Throwable) -> None:
        self.add(ExceptionResponse(correlation_id=command_id, exception=error))

    def report(self, connection_id: ConnectionId | None, error: Throwable) -> None:
        """Tell the client of the failure of a command that has no response."""
        self.add(ConnectionErrorCommand(exception=error, connection_id=connection_id))

    def add(self, command: Structure) -> None:
        self.parts.append(encode(command, self.version))

    def octets_of(self, parts: list[bytes]) -> bytes:
        return b"".join(parts)


def response(command_id: int) -> bytes:
    """Return a Response that has nothing but the id of the command that it answers."""
    return _RESPONSE + command_id.to_bytes(4, "big", signed=True)
