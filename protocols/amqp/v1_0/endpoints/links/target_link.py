"""Links to a target of ours, a node or the coordinator: the peer sends on them and gets outcomes."""

from __future__ import annotations

from abc import abstractmethod

from engine.values.errors import PenstockError
from engine.values.message import PERSISTENT, Message
from protocols.amqp.v1_0.endpoints.links.link import Link, SessionEndpoint
from protocols.amqp.v1_0.wire.delivery_states import ACCEPTED, Rejected, State, TransactionalState
from protocols.amqp.v1_0.wire.errors import error_of
from protocols.amqp.v1_0.wire.performatives import Flow
from protocols.amqp.v1_0.wire.termini import Source


class TargetLink(Link):
    """credit: messages that the peer may still send.

    is_held: one of its messages waits at a gate, so it gets no more credit.
    is_second: the peer settles deliveries first, except those in ``firsts``, whose transfer asked for the other mode.
    can_reject: the source allows the outcome rejected; otherwise a failure ends the link.
    """

    __slots__ = ("credit", "is_held", "is_second", "firsts", "can_reject")

    def __init__(
        self,
        session: SessionEndpoint,
        name: str,
        handle: int,
        peer_handle: int,
        source: Source | None,
        is_second: bool = False,
    ) -> None:
        super().__init__(session, name, handle, peer_handle)
        self.credit = 0
        self.is_held = False
        self.is_second = is_second
        self.firsts: set[int] = set()
        outcomes = None if source is None else source.outcomes
        self.can_reject = outcomes is None or Rejected.NAME in outcomes

    def flow(self, flow: Flow) -> None:
        """Take the peer's delivery-count; echo asks for our credit."""
        if flow.echo:
            self.tell_credit()

    @abstractmethod
    def tell_credit(self) -> None:
        """Send the peer its credit."""

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

    def reject(self, delivery_id: int, is_settled: bool, error: PenstockError, txn_id: bytes = b"") -> None:
        """Report a failed delivery: by its outcome, or by the end of the link if it cannot have one."""
        if is_settled or not self.can_reject:
            self.detach(error)
            return
        rejected = Rejected(error_of(error))
        self.answer(delivery_id, False, TransactionalState(txn_id, rejected) if txn_id else rejected)

    def waited(self) -> None:
        """Go on: the message that waited at a gate was sent or refused."""
        self.is_held = False
        self.grant()

    def room_found(self) -> None:
        """Go on: the address may have room for more credit."""

    def _settles_second(self, delivery_id: int) -> bool:
        """Say whether the peer settles a delivery first, as it does unless the transfer asked for the other mode."""
        if delivery_id in self.firsts:
            self.firsts.discard(delivery_id)
            return False
        return True
