"""Links to a target of ours, a node or the coordinator: the peer sends on them and gets outcomes."""

from __future__ import annotations

from abc import abstractmethod

from engine.values.errors import PenstockError
from engine.values.message import PERSISTENT, Message
from protocols.amqp.v1_0.endpoints.links.link import Link, SessionEndpoint
from protocols.amqp.v1_0.endpoints.links.multi_transfers import MultiTransfer, MultiTransfers
from protocols.amqp.v1_0.wire.composites.composite import error_of
from protocols.amqp.v1_0.wire.composites.delivery_states import ACCEPTED, Rejected, State, TransactionalState
from protocols.amqp.v1_0.wire.composites.performatives import DELIVERY_TAG_MOST, Flow, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source
from protocols.amqp.v1_0.wire.errors import InvalidField, NotImplementedHere


class TargetLink(Link):
    """credit: messages that the peer may still send.

    is_waiting: one of its messages waits at a gate, so it gets no more credit.
    is_second: the peer settles deliveries first, except those in ``firsts``, whose transfer asked for the other mode.
    can_reject: the source allows the outcome rejected; otherwise a failure ends the link.
    partial: the delivery that has not had its last transfer.  multi_transfers: those of the connection.
    size_most: octets of a message.
    """

    __slots__ = ("credit", "is_waiting", "is_second", "firsts", "can_reject", "partial", "multi_transfers", "size_most")

    def __init__(
        self,
        session: SessionEndpoint,
        name: str,
        handle: int,
        peer_handle: int,
        source: Source | None,
        multi_transfers: MultiTransfers,
        size_most: int,
        is_second: bool = False,
    ) -> None:
        super().__init__(session, name, handle, peer_handle)
        self.multi_transfers = multi_transfers
        self.partial: MultiTransfer | None = None
        self.size_most = size_most
        self.credit = 0
        self.is_waiting = False
        self.is_second = is_second
        self.firsts: set[int] | None = set() if is_second else None
        outcomes = None if source is None else source.outcomes
        self.can_reject = outcomes is None or Rejected.NAME in outcomes

    def flow(self, flow: Flow) -> None:
        """Take the peer's delivery-count; echo asks for our credit."""
        if flow.echo:
            self.send_credit()

    @abstractmethod
    def send_credit(self) -> None:
        """Send the peer its credit."""

    def gather(self, transfer: Transfer, payload: bytes) -> MultiTransfer | None:
        """Collect the transfers of one delivery; return it once it is whole.

        Raises: InvalidField, MessageSizeExceeded, PartialTooMuch.
        """
        multi_transfers = self.multi_transfers
        partial = self.partial
        if partial is None:
            partial = self.partial = multi_transfers.begin(self, transfer, self.size_most)
        else:
            partial.check(transfer)
        if transfer.aborted:
            self.drop_partial()
            return None
        multi_transfers.add(partial, transfer, payload)
        if transfer.more:
            return None
        self.drop_partial()
        return partial

    def drop_partial(self) -> None:
        """Forget a delivery that was coming in several transfers."""
        self.partial = None
        self.multi_transfers.end(self)

    def end(self) -> None:
        self.close(False, False)

    def confirm(self, delivery_id: int, message: Message) -> None:
        """Accept a delivery whose message has been taken: now, or once this turn is durable.

        A persistent message always waits for that, because a composite destination and a virtual topic log copies of
        it.  A non-persistent one waits if it was logged anyway, as scheduled messages are.
        """
        session = self.session
        is_logged = message.flags & PERSISTENT != 0 or message.log_offset >= 0
        if self.is_second and self._settles_second(delivery_id):
            session.confirm_state(delivery_id, ACCEPTED, False, is_logged)
        elif is_logged:
            session.accepted_logged.append(delivery_id)
        else:
            session.accepted_now.append(delivery_id)

    def answer(self, delivery_id: int, is_settled: bool, state: State, is_logged: bool = False) -> None:
        """Send the outcome of a delivery at the end of this turn, unless the peer has settled it.

        is_logged: send it once this turn is durable.
        """
        if not is_settled:
            is_second = self.is_second and self._settles_second(delivery_id)
            self.session.confirm_state(delivery_id, state, not is_second, is_logged)

    def reject(
        self, delivery_id: int, is_settled: bool, error: PenstockError, txn_id: bytes = b"", is_logged: bool = False
    ) -> None:
        """Report a failed delivery: by its outcome, or by the end of the link if it cannot have one.

        is_logged: as in ``answer``.
        """
        if is_settled or not self.can_reject:
            if is_logged:
                self.session.connection.stand_for_all()
            self.detach(error)
            return
        rejected = Rejected(error_of(error))
        self.answer(delivery_id, False, TransactionalState(txn_id, rejected) if txn_id else rejected, is_logged)

    def waited(self) -> None:
        """Go on: the message that waited at a gate was sent or refused."""
        self.is_waiting = False
        self.grant()

    def room_found(self) -> None:
        """Go on: the address may have room for more credit."""

    def _settles_second(self, delivery_id: int) -> bool:
        """Say whether the peer settles a delivery first, as it does unless the transfer asked for the other mode."""
        firsts = self.firsts
        if firsts and delivery_id in firsts:
            firsts.discard(delivery_id)
            return False
        return True


def check_first(transfer: Transfer) -> int:
    """Return the delivery-id of a delivery's first transfer.  Raises: InvalidField."""
    delivery_tag = transfer.delivery_tag
    if transfer.delivery_id is None or delivery_tag is None:
        raise InvalidField("the first transfer of a delivery lacks its delivery-id or delivery-tag")
    if len(delivery_tag) > DELIVERY_TAG_MOST:
        raise InvalidField(f"a delivery-tag of {len(delivery_tag)} octets; allowed is up to {DELIVERY_TAG_MOST}")
    return transfer.delivery_id


def check_supported(transfer: Transfer) -> None:
    """Raises: NotImplementedHere."""
    if transfer.resume:
        raise NotImplementedHere("a delivery cannot be resumed: its state was not kept; send it again")
    if transfer.message_format:
        raise NotImplementedHere(f"message-format {transfer.message_format:#x}; allowed is 0")
