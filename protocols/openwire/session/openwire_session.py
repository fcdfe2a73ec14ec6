"""One OpenWire connection: commands in, operations on the engine, octets out.  Versions 9 to 12.

Source: docs/reference/openwire.md.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from config.model import ConnectionDefaults
from engine.consumers.consumer import Consumer
from engine.values.errors import EngineError
from protocols.errors import TimedOut
from protocols.openwire.session.command_input import CommandInput
from protocols.openwire.session.open_consumer import OpenConsumer
from protocols.openwire.session.send_message import BlockedMessage
from protocols.openwire.wire.commands import ConnectionControl, ConsumerControl, KeepAliveInfo
from protocols.openwire.wire.commands import ConnectionError as ConnectionErrorCommand
from protocols.openwire.wire.identities import Throwable
from protocols.openwire.wire.writer import encode
from protocols.session.states import LEAVING, NEGOTIATING

CONSUMERS_SHOWN: Final = 20  # in words
CONSUMER_BYTES: Final = 1_500  # memory of a consumer's objects, and about that of a producer's


@mypyc_attr(allow_interpreted_subclasses=True)
class OpenWireSession(CommandInput):
    """A connection for the gateway, the engine and its peers.

    ``CommandInput`` reads commands, ``MessageOutput`` writes messages.
    """

    __slots__ = ()

    # -- the gateway's side

    def end_turn(self, offset: int, confirmed_offset: int) -> bytes:
        if self.pulls.waiting and self.pulls.is_due(self.now_ms):
            self.pulls.finish(self.now_ms)
        return super().end_turn(offset, confirmed_offset)

    def tick(self, now_ms: int) -> int:
        next_ms = super().tick(now_ms)
        if not self.pulls.waiting:
            return next_ms
        if self.pulls.is_due(now_ms):
            self.outbox.touch()
        return self.pulls.next_ms(now_ms, next_ms)

    def time_out(self, fault: str) -> None:
        self.fail(TimedOut(fault))

    def keep_alive(self) -> bytes:
        return b"" if self.state == NEGOTIATING else encode(KeepAliveInfo(), self.terms.version)

    def protocol_name(self) -> str:
        return "openwire"

    def fault_words(self, text: str) -> bytes:
        if self.state == NEGOTIATING:
            return b""
        exception = Throwable(f"{self.terms.package}.JMSException", text)
        return encode(ConnectionErrorCommand(exception=exception), self.terms.version)

    def dissolve(self) -> None:
        super().dissolve()
        del self.transactions, self.temporaries, self.receivers, self.producers
        del self.send, self.acknowledgements, self.requests

    def shut_down(self) -> None:
        if self.state < LEAVING:
            words = b"" if self.state == NEGOTIATING else encode(ConnectionControl(close=True), self.terms.version)
            self.end(words, is_lost=False)

    def endpoint_bytes(self) -> int:
        return (len(self.receivers.open) + len(self.producers.open)) * CONSUMER_BYTES

    # -- the engine's side

    def refuse_late(self, late: BlockedMessage | None, error: EngineError) -> None:
        if late is not None:
            self.answer(self.send.give_up(late, error), late.info.command_id, late.info.response_required)

    def end_consumer(self, consumer: Consumer, error: EngineError) -> bool:
        found = consumer.adapter
        assert isinstance(found, OpenConsumer), "a consumer of this session has an OpenConsumer"
        if not self.introduction.is_manageable:
            return False
        self.receivers.remove(found.consumer_id)
        control = ConsumerControl(destination=found.info.destination, close=True, consumer_id=found.consumer_id)
        self.outbox.parts.append(encode(control, self.terms.version))
        self.outbox.touch()
        return True

    def rights_changed(self) -> None:
        self.send.forget_targets()

    def describe(self) -> dict[str, str]:
        introduction = self.introduction
        return {
            "address": self.socket.peer(),
            "client_id": introduction.client_id,
            "login": introduction.login,
        }

    def asked_for(self) -> list[str]:
        terms = self.terms
        silence = f"silence of {terms.inactivity_ms} ms" if terms.inactivity_ms else "silence for ever"
        words = [f"{terms.provider or 'a client without a name'}, OpenWire {terms.version}, {silence} is allowed"]
        if self.introduction.is_failover:
            words.append("failover: it sends again what was not answered")
        words += [found.words() for found in list(self.receivers.open.values())[:CONSUMERS_SHOWN]]
        more = len(self.receivers.open) - CONSUMERS_SHOWN
        return [*words, f"and {more} more consumers"] if more > 0 else words

    def connection_defaults(self) -> ConnectionDefaults:
        return self.settings.defaults

    # -- the steps

    def transaction_bytes(self) -> int:
        return self.transactions.size_bytes()

    def has_transactions(self) -> bool:
        return self.transactions.is_any()
