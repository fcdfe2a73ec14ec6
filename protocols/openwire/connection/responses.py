"""Responses of an OpenWire connection, in order: Response, ExceptionResponse, ConnectionError."""

from __future__ import annotations

from engine.api import EngineApi
from engine.consumers.consumer import Consumer
from protocols.openwire.wire.commands import ConnectionError as ConnectionErrorCommand
from protocols.openwire.wire.commands import ExceptionResponse, IntegerResponse, Structure
from protocols.openwire.wire.identities import ConnectionId, Throwable
from protocols.openwire.wire.writer import encode
from protocols.owed_confirmations import Deferred, OwedConfirmations

_RESPONSE = b"\0\0\0\x0a\x1e\0\0\0\0\0"  # up to correlationId


class DeferredConsumer(Deferred):
    """A consumer whose ConsumerInfo is answered before its first message."""

    __slots__ = ("consumer",)

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer

    def release(self) -> None:
        self.consumer.start()


class Responses(OwedConfirmations):
    """parts: of this turn, encoded.  turn_deferred: consumers that wait for one of them.

    last_offset: the log offset that the latest logged operation of this connection waits for.
    has_unlogged: an acknowledgement may not be logged yet; the next response confirms it too.
    """

    __slots__ = (
        "store",
        "settlements",
        "version",
        "parts",
        "turn_deferred",
        "last_offset",
        "has_logged",
        "has_unlogged",
    )

    def __init__(self, engine: EngineApi, out: list[bytes], version: int) -> None:
        super().__init__(out)
        self.store = engine.store
        self.settlements = engine.settlements
        self.version = version
        self.parts: list[bytes] = []
        self.turn_deferred: list[Deferred] = []
        self.last_offset = 0
        self.has_logged = False
        self.has_unlogged = False

    def respond(self, command_id: int) -> None:
        self.parts.append(_RESPONSE + command_id.to_bytes(4, "big", signed=True))

    def respond_number(self, command_id: int, number: int) -> None:
        self.add(IntegerResponse(correlation_id=command_id, result=number))

    def refuse(self, command_id: int, error: Throwable) -> None:
        self.add(ExceptionResponse(correlation_id=command_id, exception=error))

    def report(self, connection_id: ConnectionId | None, error: Throwable) -> None:
        """Tell the client of the failure of a command that has no response."""
        self.add(ConnectionErrorCommand(exception=error, connection_id=connection_id))

    def add(self, command: Structure) -> None:
        self.parts.append(encode(command, self.version))

    def start_after(self, command_id: int, consumer: Consumer) -> None:
        """Start ``consumer`` once the response to its ConsumerInfo is sent; that is now if nothing comes before it."""
        if self.is_settled(self.store.confirmed_offset()):
            self.out.append(_RESPONSE + command_id.to_bytes(4, "big", signed=True))
            consumer.start()
        else:
            self.respond(command_id)
            self.turn_deferred.append(DeferredConsumer(consumer))

    def drop(self) -> None:
        """Forget those of this turn."""
        self.parts.clear()
        self.turn_deferred.clear()

    def is_idle(self) -> bool:
        """Say whether nothing is left to be confirmed."""
        return not self.parts and not self.owed

    def is_settled(self, confirmed_offset: int) -> bool:
        """Say whether a response made now could leave at once."""
        if self.has_logged or self.has_unlogged:
            return False
        return self.is_idle() and self.last_offset <= confirmed_offset

    def end_turn(self, offset: int, confirmed_offset: int) -> None:
        """Stamp the responses of this turn; append those that may be sent now to ``out``."""
        if self.has_logged:
            self.has_logged = False
            self.last_offset = offset
        if not self.parts:
            return
        if self.has_unlogged:
            self.has_unlogged = False
            self.last_offset = self.settlements.flush()
        octets = b"".join(self.parts)
        self.parts.clear()
        deferred: list[Deferred] | None = None
        if self.turn_deferred:
            deferred = self.turn_deferred
            self.turn_deferred = []
        self.owe(self.last_offset, octets, deferred, confirmed_offset)
