"""The commands of an OpenWire client: the effect of each on the engine and the connection."""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from engine.api import EngineApi
from engine.values.errors import EngineError, PenstockError
from protocols.connection import end_reading
from protocols.errors import LoginRefused, TimedOut
from protocols.input_share import REFUSED_STEPS
from protocols.openwire.connection.introduction import Introduction
from protocols.openwire.connection.negotiation import INFO_BYTES_MAX, agree, own_info
from protocols.openwire.connection.responses import Responses
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.openwire.errors import MessageTooLarge, RequestError, StaleCopies, UnexpectedCommand
from protocols.openwire.mapping.exceptions import throwable_for
from protocols.openwire.session.acknowledgements import Acknowledgements
from protocols.openwire.session.advisory_output import AdvisoryOutput
from protocols.openwire.session.branch_commands import BranchCommands
from protocols.openwire.session.consumers import Consumers
from protocols.openwire.session.message_output import MessageOutput
from protocols.openwire.session.producers import Producers
from protocols.openwire.session.pulls import Pulls
from protocols.openwire.session.requests import Requests
from protocols.openwire.session.send_message import BlockedMessage, SendMessage
from protocols.openwire.session.temporaries import Temporaries
from protocols.openwire.session.transactions import Transactions
from protocols.openwire.wire import commands
from protocols.openwire.wire.commands import WireFormatInfo
from protocols.openwire.wire.frame_decoder import COMMAND_BYTES_MAX, HEADER_BYTES, FrameDecoder
from protocols.openwire.wire.identities import ConnectionId
from protocols.openwire.wire.layouts import VERSION
from protocols.openwire.wire.messages import MESSAGE_CLASSES
from protocols.openwire.wire.reader import decode
from protocols.openwire.wire.writer import encode
from protocols.peer_socket import PeerSocket
from protocols.session.states import (
    ADMIT,
    CHECK,
    CONNECTING,
    LEAVE,
    LEAVING,
    NEGOTIATED,
    NEGOTIATING,
    OPEN,
    is_open,
)

COMMAND_STEPS: Final = 15  # of a turn


@mypyc_attr(allow_interpreted_subclasses=True)
class CommandInput(MessageOutput):
    """introduction: ConnectionInfo, once it has come.  requests: takes the rarer commands."""

    __deletable__ = (
        "transactions",
        "temporaries",
        "receivers",
        "producers",
        "send",
        "acknowledgements",
        "requests",
    )
    __slots__ = (
        "decoder",
        "responses",
        "transactions",
        "temporaries",
        "pulls",
        "receivers",
        "producers",
        "send",
        "acknowledgements",
        "introduction",
        "requests",
    )

    def __init__(self, engine: EngineApi, socket: PeerSocket, settings: OpenWireSettings, now_ms: int) -> None:
        decoder = FrameDecoder(min(INFO_BYTES_MAX, settings.frame_bytes), COMMAND_BYTES_MAX)
        super().__init__(engine, socket, settings, decoder, now_ms)
        terms = self.terms
        self.decoder = decoder
        self.confirmations = self.responses = Responses(engine, self.outbox.parts, VERSION)
        self.transactions = Transactions(engine, self, settings.transaction_limits)
        advisories = AdvisoryOutput(engine, self, terms, f"ID:{self.store_id}")
        self.temporaries = Temporaries(engine, self, settings.peers, settings.connection_ids, advisories, self.watching)
        self.pulls = Pulls(self.outbox.parts)
        self.receivers = Consumers(
            engine, self, settings, self.temporaries, self.pulls, self.responses, self.hand_overs
        )
        self.producers = Producers(engine, self, self.responses, settings.producers)
        self.introduction = Introduction(socket, settings)
        self.send = SendMessage(
            engine, self, terms, self.introduction, self.blocked, self.transactions, self.producers, self.responses
        )
        self.acknowledgements = Acknowledgements(
            engine, self, self.transactions, self.responses, self.receivers.open, self.hand_overs, self.store_id
        )
        self.requests = Requests(
            engine,
            self.introduction,
            self.receivers,
            self.producers,
            self.temporaries,
            self.transactions,
            BranchCommands(engine, self, self.transactions, self.send, self.responses),
            self.pulls,
            self.send,
            self.responses,
        )
        engine.connect(self)
        self.outbox.parts.append(encode(own_info(settings)))
        self.outbox.touch()

    # -- commands

    def read_frames(self) -> None:
        self.context.sender = self.client_number  # set here: commands also wait for a password or room
        decoder = self.decoder
        while not self.share.is_paused and self.state < LEAVING:
            frame = b""
            try:
                found = decoder.next_frame()
                if found is None:
                    break
                frame = found
                self._take(frame)
            except PenstockError as error:
                self.refuse(error, frame)
                self.share.charge(REFUSED_STEPS)
        end_reading(self, self.times, decoder.partial_number())

    def try_again(self, one: BlockedMessage) -> None:
        if isinstance(one.info, commands.RemoveInfo):
            self.requests.take(one.info, self.now_ms)
        else:
            self.send.again(one)

    def refuse_blocked(self, one: BlockedMessage, error: PenstockError) -> None:
        self.answer(error, one.info.command_id, one.info.response_required)

    def _take(self, frame: bytes) -> None:
        """Raises: ProtocolError, EngineError."""
        if not is_open(self.state):
            self.share.charge(COMMAND_STEPS)
            self._take_first(decode(frame, self.terms.version))
            return
        if frame[0] in MESSAGE_CLASSES:
            self.send.take(frame)
            return
        if frame[0] == commands.MessageAck.CODE:
            self.acknowledgements.take(frame, self.terms.version)
        else:
            self.share.charge(COMMAND_STEPS)
            self._take_rare(decode(frame, self.terms.version))

    def _take_first(self, command: commands.Structure) -> None:
        """Take a command before the connection is open.  Raises: ProtocolError, EngineError."""
        if self.state == NEGOTIATING:
            if not isinstance(command, WireFormatInfo):
                raise UnexpectedCommand(f"the first command is {command.NAME}; allowed is WireFormatInfo")
            agree(command, self.settings, self.terms)
            self.responses.version = self.terms.version
            self.move(NEGOTIATED)
            self.outbox.parts.append(encode(self.introduction.broker_info(self.store_id), self.terms.version))
            self.socket.tick_soon()
        elif isinstance(command, commands.ConnectionInfo):
            self.introduction.take(command)
            if self.introduction.has_proved_login or not self.settings.needs_login:
                self.open()
            else:
                self.move(CHECK)
                self.is_holding = True  # the commands behind it wait
                self.socket.pause_reading()
                self.socket.authenticate(self.introduction.login, self.introduction.passcode)
        elif not self._take_harmless(command):
            raise UnexpectedCommand(f"{command.NAME} comes before ConnectionInfo")

    def open(self) -> None:
        try:
            self.introduction.admit(self, self.temporaries)
        except PenstockError as error:
            self.refuse_connection(error)
            return
        connection_id = self.introduction.connection_id
        self.receivers.connection_id = self.producers.connection_id = connection_id
        self.receivers.client_id = self.introduction.client_id
        self.transactions.is_replaying = self.introduction.is_reconnect
        self.decoder.frame_max = self.settings.frame_bytes
        self.move(ADMIT)
        self._respond(self.introduction.command_id, self.introduction.response_required)
        self.socket.tick_soon()

    def refuse_connection(self, error: PenstockError) -> None:
        """Answer ConnectionInfo with an exception, and end."""
        self.socket.warn(f"{error.condition}: {error}")
        words = commands.ExceptionResponse(
            correlation_id=self.introduction.command_id, exception=throwable_for(error, self.terms.package)
        )
        self.end(encode(words, self.terms.version), is_lost=True)

    def _take_harmless(self, command: commands.Structure) -> bool:
        """Take a command that may come at any time; return False for another one."""
        if isinstance(command, commands.KeepAliveInfo):
            if command.response_required:
                self.outbox.parts.append(encode(commands.KeepAliveInfo(), self.terms.version))
        elif isinstance(command, commands.ShutdownInfo):
            self.move(LEAVE)
            self.leave(self.late_words(), is_lost=False)
        elif isinstance(command, commands.ConnectionControl):
            self.introduction.is_failover = self.introduction.is_failover or command.fault_tolerant
            self._respond(command.command_id, command.response_required)
        elif not isinstance(command, commands.Response):
            return False
        return True

    def _take_rare(self, command: commands.Structure) -> None:
        """Raises: ProtocolError, EngineError."""
        if isinstance(command, commands.MessagePull):
            self.socket.tick_soon()
        if not self._take_harmless(command):
            self.requests.take(command, self.now_ms)

    def _respond(self, command_id: int, is_required: bool) -> None:
        if is_required:
            self.responses.respond(command_id)

    # -- the steps

    def is_taking(self) -> bool:
        return self.state in (NEGOTIATING, CONNECTING, OPEN)

    def refuse(self, error: PenstockError, frame: bytes) -> None:
        """Answer a command with an exception.  The connection ends, unless only the request was wrong."""
        if isinstance(error, MessageTooLarge):
            frame = error.head
            if frame[HEADER_BYTES - 1] == 0:  # it may be in a transaction, and which one is not read
                self.transactions.spoil_all(str(error))
        if not is_open(self.state) or len(frame) < HEADER_BYTES:
            self.fail(error)
        else:
            self.answer(error, int.from_bytes(frame[1:5], "big", signed=True), frame[5] != 0)

    def answer(self, error: PenstockError, command_id: int, is_required: bool) -> None:
        if not isinstance(error, EngineError | RequestError) or error.scope != "request":
            self.fail(error)
            return
        exception = throwable_for(error, self.terms.package)
        if is_required:
            self.responses.refuse(command_id, exception)
        else:
            self.responses.report(ConnectionId(self.introduction.connection_id), exception)

    def fail(self, error: PenstockError) -> None:
        self.socket.warn(f"{error.condition}: {error}")
        words = b""
        if self.state != NEGOTIATING and not isinstance(error, StaleCopies):
            exception = throwable_for(error, self.terms.package)
            words = encode(commands.ConnectionError(exception=exception), self.terms.version)
        self.end(words, is_lost=True)

    def login_failed(self) -> None:
        self.refuse_connection(LoginRefused("User name or password is invalid."))

    def late_words(self) -> bytes:
        late = throwable_for(TimedOut("the end of this connection waited too long for the store"), self.terms.package)
        return encode(commands.ConnectionError(exception=late), self.terms.version)

    def let_go(self, is_lost: bool) -> None:
        self.blocked.drop()
        self.transactions.abort_all()
        self.producers.remove_all()
        self.engine.disconnect(self, is_lost)
        self.temporaries.clear()
        self.settings.peers.leave(self.introduction.key(), self.client_number, self.temporaries)
        self.settings.connection_ids.leave(self.introduction.connection_id, self.temporaries)
        self.receivers.forget_all()
        self.pulls.clear()
        self.decoder.drop()
