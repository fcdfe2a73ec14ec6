"""Messages of the client, and commits: into the engine, or into the wait at a shut gate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.api import EngineApi
from engine.features.scheduler.cron import SEARCH_STEPS
from engine.features.scheduler.delayed_send import delayed, is_logged_anyway
from engine.features.scheduler.plan import CRON_PROPERTY
from engine.open_transaction import Transaction
from engine.sources.composite import Destination, paced_part, reached
from engine.sources.identified import identified, sent_again
from engine.sources.queue import is_management
from engine.values import gates
from engine.values.errors import EngineError, PenstockError, TransactionError
from engine.values.message import Message
from engine.values.xid import Xid
from protocols.blocked_sends import BlockedSend, addresses_of, kept_bytes, send_paced
from protocols.connection import ProtocolConnection
from protocols.input_share import COMMITTED_STEPS
from protocols.openwire.connection.introduction import Introduction
from protocols.openwire.connection.negotiation import Terms
from protocols.openwire.connection.responses import Responses
from protocols.openwire.mapping.client_message import ClientMessage, MessageReader
from protocols.openwire.mapping.destinations import target_of
from protocols.openwire.mapping.incoming_message import (
    Asked,
    asked_in,
    asks_more,
    engine_message,
    with_original_destination,
)
from protocols.openwire.session.producers import NAMED_STEPS, Producers
from protocols.openwire.session.transactions import Transactions, rolled_back
from protocols.openwire.wire.commands import RemoveInfo, TransactionInfo
from protocols.openwire.wire.identities import Destination as WireDestination
from protocols.openwire.wire.identities import XaTransactionId
from protocols.openwire.wire.property_map import Tally
from protocols.session.blocked_frames import BlockedFrames, addresses_sent_to

COPY_STEPS: Final = 7  # of a turn, for one of several destinations of a message
ASKING_STEPS: Final = 6  # for a property that is decoded, and written again, for a schedule or a duplicate id
OVERHEAD_BYTES: Final = 1_024  # memory of a waiting message's objects, rounded up
KNOWN_MOST: Final = 1_000  # destinations that are kept
KNOWN_NAME_MOST: Final = 300  # characters of the name of one that is kept
# Results of PREPARE.
XA_OK: Final = 0
XA_RDONLY: Final = 3  # nothing was done: there is nothing to commit


class BlockedMessage(BlockedSend):
    """A message for an address that takes nothing now, a commit, or the end of the connection behind them.

    info: the command that is answered.  transaction: of a commit, otherwise None, also for a PREPARE.
    """

    __slots__ = ("info", "destination", "message", "transaction")

    def __init__(
        self,
        info: ClientMessage | TransactionInfo | RemoveInfo,
        destination: Destination | None,
        message: Message | None,
        transaction: Transaction | None,
        addresses: list[str],
        size_bytes: int,
    ) -> None:
        super().__init__(addresses, size_bytes)
        self.info = info
        self.destination = destination
        self.message = message
        self.transaction = transaction


@dataclass(slots=True, eq=False)
class SendMessage:
    """known: targets of destinations that were sent to, while they are open."""

    engine: EngineApi
    client: ProtocolConnection
    terms: Terms
    introduction: Introduction
    blocked: BlockedFrames[BlockedMessage]
    transactions: Transactions
    producers: Producers
    responses: Responses
    _reader: MessageReader = field(default_factory=MessageReader)
    _known: dict[WireDestination, Destination] = field(default_factory=dict)

    def take(self, command: bytes) -> None:
        """Take a message, as it was on the wire.  Raises: FrameError, RequestError, EngineError, ParkedTooMuch."""
        engine = self.engine
        info = self._reader.read(command, self.terms.version)
        names = info.names
        try:
            self.client.share.charge(self._reader.steps)
            self.producers.check(names.producer_id)
            properties = info.properties
            asked: Asked | None = None
            destination = self._target(names.destination)
            if properties is not None and asks_more(properties):
                searched = SEARCH_STEPS if CRON_PROPERTY in properties else 0
                names_schedule = all(is_management(part.name) for part in reached(destination))
                tally = Tally()
                try:
                    asked = asked_in(info, engine.scheduler.limits, engine.context.wall_ms, names_schedule, tally)
                finally:
                    self.client.share.charge(searched + ASKING_STEPS * tally.values)
            if asked is not None and asked.plan is not None:
                destination = delayed(destination, asked.plan)
            destination = self._once(destination, info, None if asked is None else asked.duplicate_id)
            sent = info if asked is None else asked.message
            if "," in names.destination.name:
                sent = with_original_destination(sent)
            message = engine_message(sent, destination.destination_id)
            if destination.is_indirect:
                self.client.share.charge(COPY_STEPS * len(reached(destination)))
            if names.transaction_id is not None:
                if self.transactions.sent_again:
                    self.transactions.count_again(names.transaction_id)
                if not self.transactions.is_replayed(names.transaction_id):
                    engine.send_in(self.transactions.named(names.transaction_id).transaction, destination, message)
                self.accepted(info)
            elif self.blocked.addresses and self.blocked.holds(destination):
                self._park(info, destination, message, gates.OPEN)
            else:
                self.send(info, destination, message)
        except EngineError as error:
            if not info.response_required:
                self.transactions.spoil(names.transaction_id, str(error))
                self._give_back(info)
            raise

    def send(self, info: ClientMessage, destination: Destination, message: Message) -> None:
        """Raises: EngineError, ParkedTooMuch."""
        paced = paced_part(destination)
        if paced is None:
            gate = self.engine.send(destination, message)
        else:
            gate = send_paced(self.engine, self.client, paced, destination, message)
        if gate != gates.OPEN:
            self._park(info, destination, message, gate)
            return
        if info.persistent or is_logged_anyway(destination):
            self.responses.has_logged = True
        self.accepted(info)

    def accepted(self, info: ClientMessage) -> None:
        """Confirm a message that the engine has taken."""
        if info.response_required:
            self.responses.respond(info.command_id)
        else:
            self._give_back(info)

    def commit(self, info: TransactionInfo) -> None:
        """Raises: RequestError, EngineError, ParkedTooMuch."""
        one = self.transactions.take(info.transaction_id)
        if one.spoiled:
            self.engine.abort(one.transaction)
            raise rolled_back(info.transaction_id, one.spoiled)
        self.commit_transaction(info, one.transaction)

    def commit_transaction(self, info: TransactionInfo, transaction: Transaction) -> None:
        """Apply a transaction, or let it wait.  Raises: RolledBack, ParkedTooMuch."""
        try:
            gate, behind = self.engine.commit_refusal(transaction, self.blocked.addresses)
        except EngineError as error:
            self.engine.abort(transaction)
            raise rolled_back(info.transaction_id, str(error)) from None
        if behind is None:
            self.client.share.charge(COMMITTED_STEPS * transaction.action_count)
            self.engine.commit(transaction)
            self.responses.has_logged = True
            if info.response_required:
                self.responses.respond(info.command_id)
            return
        self.transactions.committing.append(transaction)
        self._wait_to_end(info, transaction, transaction, behind, gate)

    def prepare(self, info: TransactionInfo, xid: Xid) -> None:
        """Prepare a branch, or let it wait: from then on its commit cannot fail.

        Raises: EngineError, RolledBack, ParkedTooMuch.
        """
        branches = self.engine.branches
        if branches.is_prepared(self.client, xid):  # its client has connected again, and got no answer
            self.answer_prepare(info, has_work=True)
            return
        branch = branches.active(self.client, xid)
        transaction = branch.transaction
        try:
            if branch.spoiled:
                raise TransactionError(branch.spoiled)
            gate, behind = self.engine.commit_refusal(transaction, self.blocked.addresses)
            if behind is not None:
                self._wait_to_end(info, transaction, None, behind, gate)
                return
            self.client.share.charge(COMMITTED_STEPS * transaction.action_count)
            has_work = branches.prepare(branch)
        except EngineError as error:
            self.engine.abort(branches.end(branch))
            raise rolled_back(info.transaction_id, str(error)) from None
        self.answer_prepare(info, has_work)

    def give_up(self, one: BlockedMessage, error: EngineError) -> PenstockError:
        """Return the answer to what has waited too long at a gate; a transaction is rolled back."""
        info = one.info
        if not isinstance(info, TransactionInfo):
            return error
        if one.transaction is not None:
            self.transactions.committing.remove(one.transaction)
            self.engine.abort(one.transaction)
        else:
            try:
                self.engine.abort(self.transactions.take(info.transaction_id).transaction)
            except EngineError as gone:  # another connection has decided about the branch
                return gone
        return rolled_back(info.transaction_id, str(error))

    def must_wait(self, info: RemoveInfo) -> bool:
        """Let the end of the connection wait behind messages at a gate; return whether it must."""
        if self.blocked.waiting:
            self.blocked.add(BlockedMessage(info, None, None, None, [], 0))
        return bool(self.blocked.waiting)

    def again(self, one: BlockedMessage) -> None:
        """Try what waited at a gate.  Raises: RequestError, EngineError, ParkedTooMuch."""
        info = one.info
        if isinstance(info, TransactionInfo):
            if one.transaction is None:
                assert isinstance(info.transaction_id, XaTransactionId), "only a branch is prepared"
                self.prepare(info, Xid(*info.transaction_id))
                return
            self.transactions.committing.remove(one.transaction)
            self.commit_transaction(info, one.transaction)
            return
        assert isinstance(info, ClientMessage) and one.message is not None, "other waiting commands are messages"
        assert one.destination is not None, "a message has a destination"
        if self.blocked.addresses and self.blocked.holds(one.destination):
            self._park(info, one.destination, one.message, gates.OPEN)
        else:
            self.send(info, one.destination, one.message)

    # -- the steps

    def _wait_to_end(
        self,
        info: TransactionInfo,
        transaction: Transaction,
        committing: Transaction | None,
        behind: Destination,
        gate: int,
    ) -> None:
        """Let a commit or, without ``committing``, a PREPARE wait.  Raises: ParkedTooMuch."""
        size_bytes = OVERHEAD_BYTES + transaction.memory_bytes()
        one = BlockedMessage(info, behind, None, committing, addresses_sent_to(transaction, behind), size_bytes)
        self.blocked.wait(one, behind, gate)

    def answer_prepare(self, info: TransactionInfo, has_work: bool) -> None:
        self.responses.has_logged = True
        if info.response_required:
            self.responses.respond_number(info.command_id, XA_OK if has_work else XA_RDONLY)

    def _give_back(self, info: ClientMessage) -> None:
        """Give back the window that a message without a response has taken."""
        self.producers.give_back(info.names.producer_id, len(info.body) + len(info.properties or b""))

    def _once(self, destination: Destination, info: ClientMessage, duplicate_id: str | None) -> Destination:
        """Return the destination of a message that may come again, which is then accepted once.

        duplicate_id: the one that the message names.  A failover client sends again what was not answered before it
        lost its connection.  Raises: InvalidOption.
        """
        if duplicate_id is not None:
            return identified(destination, duplicate_id)
        if self.introduction.is_failover and info.response_required and info.names.transaction_id is None:
            producer = info.names.producer_id  # checked; the id may name anybody, and its text anything
            return sent_again(destination, " ".join(map(str, (info.sequence, producer, self.client.user))))
        return destination

    def _target(self, destination: WireDestination) -> Destination:
        """Raises: EngineError."""
        found = self._known.get(destination)
        if found is not None:
            if found.is_indirect is False or not any(part.is_closed for part in reached(found)):
                return found
        steps = self.engine.steps
        before = steps.left
        found = target_of(self.engine, self.client, destination)
        made = before - steps.left  # destinations; the engine counts its part, and here it counts for the share
        self.client.share.charge(made + NAMED_STEPS * (destination.name.count(",") + 1))
        if len(destination.name) <= KNOWN_NAME_MOST:
            if len(self._known) >= KNOWN_MOST:
                self._known.clear()
            self._known[destination] = found
        return found

    def forget_targets(self) -> None:
        """Permissions have changed: look at each destination again."""
        self._known.clear()

    def _park(self, info: ClientMessage, destination: Destination, message: Message, gate: int) -> None:
        size_bytes = OVERHEAD_BYTES + message.size + kept_bytes(destination)
        one = BlockedMessage(info, destination, message, None, addresses_of(destination), size_bytes)
        self.blocked.wait(one, destination, gate)
