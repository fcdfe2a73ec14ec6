"""The rarer commands of an open connection: consumers, producers, transactions, destinations, pulls, and their ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.api import EngineApi
from engine.values.xid import Xid
from protocols.openwire.connection.introduction import Introduction
from protocols.openwire.connection.responses import Responses
from protocols.openwire.errors import NotImplementedHere, RequestError
from protocols.openwire.session.acknowledgements import ENLISTED_STEPS
from protocols.openwire.session.branch_commands import END, RECOVER, ROLLBACK, BranchCommands
from protocols.openwire.session.consumers import Consumers
from protocols.openwire.session.producers import Producers
from protocols.openwire.session.pulls import Pulls
from protocols.openwire.session.send_message import SendMessage
from protocols.openwire.session.temporaries import Temporaries, is_temporary
from protocols.openwire.session.transactions import Transactions
from protocols.openwire.wire import commands
from protocols.openwire.wire.commands import Command
from protocols.openwire.wire.identities import ConnectionId, ConsumerId, ProducerId, SessionId, XaTransactionId

# Types of a TransactionInfo.
BEGIN: Final = 0
COMMIT_ONE_PHASE: Final = 2


@dataclass(slots=True, eq=False)
class Requests:
    engine: EngineApi
    introduction: Introduction
    receivers: Consumers
    producers: Producers
    temporaries: Temporaries
    transactions: Transactions
    branches: BranchCommands
    pulls: Pulls
    send: SendMessage
    responses: Responses

    def take(self, command: commands.Structure, now_ms: int) -> None:
        """now_ms: monotonic.  Raises: RequestError, EngineError, ParkedTooMuch."""
        if isinstance(command, commands.ConsumerInfo):
            self.receivers.add(command)
            return  # it has its own response
        if isinstance(command, commands.TransactionInfo):
            self._take_transaction(command)
            return
        if isinstance(command, commands.ProducerInfo):
            self.producers.add(command)
        elif isinstance(command, commands.RemoveInfo):
            if isinstance(command.object_id, ConnectionId) and self.send.must_wait(command):
                return  # its response also stands for what the client has sent before
            self._remove(command.object_id, command.last_delivered_sequence_id)
        elif isinstance(command, commands.DestinationInfo):
            self._take_destination(command)
        elif isinstance(command, commands.RemoveSubscriptionInfo):
            self.receivers.unsubscribe(command)
        elif isinstance(command, commands.MessagePull):
            self.transactions.is_replaying = False
            self._pull(command, now_ms)
        elif isinstance(command, commands.ConsumerControl):
            self.transactions.is_replaying = False
            self.receivers.control(command)
        elif isinstance(command, commands.SessionInfo):
            self._check_session(command)
        elif not isinstance(command, commands.FlushCommand):
            raise NotImplementedHere(f"{command.NAME} is not offered here")
        assert isinstance(command, Command), "only WireFormatInfo has no id, and comes once"
        self._respond(command.command_id, command.response_required)

    def _take_transaction(self, info: commands.TransactionInfo) -> None:
        """Raises: RequestError, EngineError."""
        if info.type == BEGIN:
            self.transactions.begin(info.transaction_id, self._replay(info))
            if self.transactions.is_replaying and isinstance(info.transaction_id, XaTransactionId):
                self.transactions.note_again(Xid(*info.transaction_id), info.command_id)
        elif info.type == COMMIT_ONE_PHASE:
            self.send.commit(info)
            return  # it has its own response
        elif info.type == RECOVER:
            self.branches.recover(info)
            return
        elif isinstance(info.transaction_id, XaTransactionId):
            if info.type == END and self.transactions.sent_again and self.receivers.is_any():
                self.transactions.check_again(Xid(*info.transaction_id), info.command_id)
            self.branches.take(info, Xid(*info.transaction_id))
            return
        elif info.type == ROLLBACK:
            transaction = self.transactions.take(info.transaction_id).transaction
            self.receivers.client.share.charge(ENLISTED_STEPS * len(transaction.accepted))
            self.engine.abort(transaction)
        else:
            self.transactions.named(info.transaction_id)
            raise NotImplementedHere(f"a TransactionInfo of type {info.type} is for distributed transactions")
        self._respond(info.command_id, info.response_required)

    def _replay(self, info: commands.TransactionInfo) -> str:
        """Return what is the same when a failover client begins a transaction again: it keeps its commands' ids."""
        introduction = self.introduction
        return f"{introduction.connection_id}\n{info.command_id}" if introduction.is_failover else ""

    def _take_destination(self, info: commands.DestinationInfo) -> None:
        """Raises: RequestError, EngineError."""
        destination = info.destination
        if destination is None:
            raise RequestError("DestinationInfo has no destination")
        if not is_temporary(destination):
            raise NotImplementedHere(f"a client cannot add or remove {destination}; its first use makes it")
        if info.operation_type:
            self.temporaries.remove(destination)
        else:
            self.temporaries.add(destination, self.introduction.connection_id)

    def _check_session(self, info: commands.SessionInfo) -> None:
        """A session has nothing of its own here.  Raises: RequestError."""
        if info.session_id is None:
            raise RequestError("SessionInfo has no sessionId")
        if info.session_id.connection_id != self.introduction.connection_id:
            raise RequestError("a session belongs to another connection")

    def _pull(self, pull: commands.MessagePull, now_ms: int) -> None:
        found = self.receivers.open.get(pull.consumer_id) if pull.consumer_id is not None else None
        if found is not None:
            self.pulls.add(found, pull.timeout, now_ms)

    def _remove(self, name: object, last_delivered: int) -> None:
        """Raises: NotImplementedHere."""
        if isinstance(name, ConsumerId):
            self.receivers.remove(name, last_delivered)
        elif isinstance(name, ProducerId):
            self.producers.remove(name)
        elif isinstance(name, SessionId | ConnectionId) and not self._is_own(name):
            pass  # of another connection; an unknown one has ended already
        elif isinstance(name, SessionId):
            self.receivers.remove_session(name.value, last_delivered)
            self.producers.remove_session(name.value)
        elif isinstance(name, ConnectionId):
            self.transactions.abort_all()
            self.receivers.remove_all(last_delivered)
            self.producers.remove_all()
        else:
            raise NotImplementedHere("RemoveInfo names neither a connection, session, consumer nor producer")

    def _is_own(self, name: SessionId | ConnectionId) -> bool:
        value = name.value if isinstance(name, ConnectionId) else name.connection_id
        return value == self.introduction.connection_id

    def _respond(self, command_id: int, is_required: bool) -> None:
        if is_required:
            self.responses.respond(command_id)
