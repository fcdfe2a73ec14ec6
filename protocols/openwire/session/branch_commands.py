"""TransactionInfo of distributed transactions (XA): the engine's branches, by the client's xids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.api import EngineApi
from engine.values.xid import Xid
from protocols.connection import ProtocolConnection
from protocols.input_share import COMMITTED_STEPS
from protocols.openwire.connection.responses import Responses
from protocols.openwire.errors import NotImplementedHere
from protocols.openwire.session.acknowledgements import ENLISTED_STEPS
from protocols.openwire.session.send_message import SendMessage
from protocols.openwire.session.transactions import Transactions
from protocols.openwire.wire.commands import DataArrayResponse, TransactionInfo
from protocols.openwire.wire.identities import XaTransactionId

# Types of a TransactionInfo; the others are in ``requests``.
PREPARE: Final = 1
COMMIT_TWO_PHASE: Final = 3
ROLLBACK: Final = 4
RECOVER: Final = 5
FORGET: Final = 6
END: Final = 7


@dataclass(slots=True, eq=False)
class BranchCommands:
    engine: EngineApi
    client: ProtocolConnection
    transactions: Transactions
    send: SendMessage
    responses: Responses

    def take(self, info: TransactionInfo, xid: Xid) -> None:
        """Take all but BEGIN and the commit of one phase.  Raises: RequestError, EngineError, ParkedTooMuch."""
        branches = self.engine.branches
        if xid in self.transactions.finished and info.type != FORGET:
            self._take_again(info, xid)
            return
        if info.type == PREPARE:
            self.transactions.replayed.discard(xid)
            self.send.prepare(info, xid)
            return  # it has its own response
        if info.type == END:
            if xid not in self.transactions.replayed:
                branches.active(self.client, xid)
        elif info.type == COMMIT_TWO_PHASE:
            branch = branches.require_prepared(self.client, xid)
            self.client.share.charge(COMMITTED_STEPS * branch.transaction.action_count)
            branches.commit(branch)
            self.responses.has_logged = True
        elif info.type == ROLLBACK:
            self._roll_back(xid)
        elif info.type == FORGET:
            branches.forget(self.client, xid)
            self.transactions.finished.discard(xid)
            self.responses.has_logged = True
        else:
            raise NotImplementedHere(f"a TransactionInfo has the type {info.type}; allowed are 0 to {END}")
        if info.response_required:
            self.responses.respond(info.command_id)

    def _take_again(self, info: TransactionInfo, xid: Xid) -> None:
        """Answer for a branch that has its outcome what its client has not heard.  Raises: EngineError."""
        self.responses.has_logged = True
        if info.type == PREPARE:
            self.send.answer_prepare(info, has_work=True)
            return
        if info.type != END:
            self.engine.branches.heuristics.require_none(self.client.user, xid)
            self.transactions.finished.discard(xid)
        if info.response_required:
            self.responses.respond(info.command_id)

    def recover(self, info: TransactionInfo) -> None:
        """List the branches of the client's user that are prepared, or that an operator has decided."""
        branches = self.engine.branches
        found = branches.xids(self.client) + branches.heuristics.xids(self.client.user)
        data: list[object] = [XaTransactionId(*xid) for xid in found]
        self.responses.add(DataArrayResponse(correlation_id=info.command_id, data=data))

    def _roll_back(self, xid: Xid) -> None:
        branches = self.engine.branches
        is_prepared = branches.is_prepared(self.client, xid)
        branch = branches.require_prepared(self.client, xid) if is_prepared else branches.active(self.client, xid)
        self.client.share.charge(ENLISTED_STEPS * branch.transaction.action_count)
        if is_prepared:
            branches.roll_back(branch)
            self.responses.has_logged = True
        else:
            self.engine.abort(branches.end(branch))
