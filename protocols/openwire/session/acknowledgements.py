"""MessageAck: the deliveries that it names, and what becomes of them.

A dispatch has the number of its hand-over as brokerSequenceId, and the client repeats it, so an acknowledgement finds
its deliveries in the consumer's ledger.  A client that connects again also acknowledges copies that it got before.
Their numbers are not in the ledger, so their messages are found by producer and sequence.  A message that the consumer
does not have is with others.  Its acknowledgement is ignored, and a transaction with one can only be rolled back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.api import EngineApi
from engine.consumers.consumer import Consumer
from engine.values.delivery import IN_FLIGHT, Delivery, Refusal
from engine.values.errors import EngineError, TransactionError
from protocols.connection import ProtocolConnection
from protocols.openwire.connection.responses import Responses
from protocols.openwire.errors import RequestError, StaleCopies
from protocols.openwire.mapping.client_ack import WHOLE_STEPS, AckReader, ClientAck, first_id, last_id
from protocols.openwire.mapping.identity import Identity
from protocols.openwire.session.hand_overs import HandOvers
from protocols.openwire.session.open_consumer import OpenConsumer
from protocols.openwire.session.transactions import Transactions
from protocols.openwire.wire.identities import ConsumerId, MessageId

DELIVERED: Final = 0  # processed, settled later: more may follow
POISON: Final = 1  # given up by the client's redelivery policy
STANDARD: Final = 2
REDELIVERED: Final = 3  # the client delivers it to itself again
INDIVIDUAL: Final = 4
UNMATCHED: Final = 5
EXPIRED: Final = 6  # found expired by the client
TYPES: Final = {
    DELIVERED: "delivered",
    POISON: "poison",
    STANDARD: "standard",
    REDELIVERED: "redelivered",
    INDIVIDUAL: "individual",
    UNMATCHED: "unmatched",
    EXPIRED: "expired",
}
SCANNED_A_STEP: Final = 6  # deliveries of a consumer that one step of a turn looks at
SEARCHED_A_STEP: Final = 2  # messages that one step of a turn compares with a name
ENLISTED_STEPS: Final = 2  # for a delivery that a transaction takes, or gives back at a rollback
TO_DEAD_LETTERS: Final = "dead-letter"
PUT_BACK: Final = Refusal("requeue")  # the queue finds it expired


@dataclass(slots=True, eq=False)
class Acknowledgements:
    """consumers: of the connection.  store_id: part of the identities of messages of other protocols."""

    engine: EngineApi
    client: ProtocolConnection
    transactions: Transactions
    responses: Responses
    consumers: dict[ConsumerId, OpenConsumer]
    hand_overs: HandOvers
    store_id: str
    _reader: AckReader = field(default_factory=AckReader)

    def take(self, command: bytes, version: int) -> None:
        """Raises: FrameError, RequestError, EngineError."""
        ack = self._reader.read(command, version)
        self.client.share.charge(self._reader.steps)
        self.transactions.is_replaying = False
        if ack.ack_type not in TYPES:
            raise RequestError(f"a MessageAck has the type {ack.ack_type}; allowed are {min(TYPES)} to {max(TYPES)}")
        name = ack.names.consumer_id
        found = self.consumers.get(name) if name is not None else None
        if found is None:
            self._miss(ack)
        elif found.consumer is not None:
            self._settle(ack, found.consumer, command, version)
        if ack.response_required:
            self.responses.respond(ack.command_id)

    def _settle(self, ack: ClientAck, consumer: Consumer, command: bytes, version: int) -> None:
        """Raises: EngineError, StaleCopies."""
        if ack.ack_type == REDELIVERED:
            return
        last = None if ack.last is None else consumer.ledger.get(self.hand_overs.tag(ack.last))
        is_copy = last is None
        if last is None:
            last = self._search(consumer, last_id(command, version))
        if last is None:
            if not consumer.shown_by():
                self._miss(ack)
            return
        is_one = ack.first == ack.last or ack.ack_type == INDIVIDUAL
        if ack.ack_type == DELIVERED or not is_one or last.state != IN_FLIGHT:
            self.client.share.charge(len(consumer.ledger) // SCANNED_A_STEP)
        if ack.ack_type == DELIVERED:
            consumer.extend(last)
            return
        if is_one:
            deliveries = [last] if last.state == IN_FLIGHT else []
        else:
            deliveries = self._range(ack, consumer, last, is_copy, command, version)
        if not deliveries:
            return
        self.responses.has_unlogged = True
        if ack.names.transaction_id is not None and ack.ack_type != POISON:
            self._enlist(ack, deliveries)
        elif consumer.shown_by():  # a browser, or a queue that keeps its messages: answers only move the window
            self.engine.acknowledge_all(deliveries)
        elif ack.ack_type == POISON:
            self._give_up(ack, deliveries)
        elif ack.ack_type == EXPIRED:
            self._expire(deliveries)
        elif len(deliveries) == 1 and not ack.response_required:
            self.engine.acknowledge_unconfirmed(deliveries[0])
        else:
            self.engine.acknowledge_all(deliveries)

    def _miss(self, ack: ClientAck) -> None:
        """Take an acknowledgement of what is not there any more.  Raises: TransactionError."""
        name = ack.names.transaction_id
        if name is None or ack.ack_type not in (STANDARD, INDIVIDUAL) or self.transactions.is_replayed(name):
            return
        reason = "it acknowledges messages that its consumer does not have any more"
        self.transactions.spoil(name, reason)
        raise TransactionError(f"the transaction can only be rolled back: {reason}")

    def _enlist(self, ack: ClientAck, deliveries: list[Delivery]) -> None:
        """Settle in a transaction; the client waits for no response, so a failure spoils it.  Raises: EngineError."""
        self.client.share.charge(ENLISTED_STEPS * len(deliveries))
        try:
            self.transactions.named(ack.names.transaction_id).transaction.add_accepted(deliveries)
        except EngineError as error:
            self.transactions.spoil(ack.names.transaction_id, str(error))
            raise

    def _search(self, consumer: Consumer, message_id: MessageId | None) -> Delivery | None:
        """Find the delivery of a message that the client knows by an earlier hand-over."""
        if message_id is None:
            return None
        self.client.share.charge(WHOLE_STEPS + len(consumer.ledger) // SEARCHED_A_STEP)
        identity = Identity(message_id)
        return next((one for one in consumer.ledger.values() if identity.is_of(one.message, self.store_id)), None)

    def _range(
        self, ack: ClientAck, consumer: Consumer, last: Delivery, is_copy: bool, command: bytes, version: int
    ) -> list[Delivery]:
        """Return the deliveries from the first to the last that are not answered yet.  is_copy: the last one is.

        Raises: StaleCopies, TransactionError.
        """
        least = 0 if ack.first is None else self.hand_overs.tag(ack.first)
        is_missing = False
        if least and least not in consumer.ledger:
            first = self._search(consumer, first_id(command, version))
            is_copy = True
            is_missing = first is None
            least = first.tag if first is not None else max(0, least)
        deliveries = _covered(consumer, least, last)
        is_whole = len(deliveries) >= ack.count and not is_copy
        if is_whole or consumer.shown_by() or not (is_copy or ack.names.transaction_id):
            return deliveries
        self.client.share.charge(len(consumer.ledger) // SCANNED_A_STEP)
        # Those that a transaction took before count: a client that resumes a branch names all of its messages again.
        count = sum(least <= tag <= last.tag for tag in consumer.ledger)
        if ack.names.transaction_id is not None:
            self._check(ack, min(count, ack.count - 1) if is_missing else count, is_copy)
        elif count + is_missing > ack.count:  # messages lie between the copies that the client has not seen
            return [last] if last.state == IN_FLIGHT else []
        return deliveries

    def _check(self, ack: ClientAck, count: int, is_copy: bool) -> None:
        """Allow only a rollback if the client has other messages, or has them in another order.

        is_copy: an end of the range is a copy of a lost connection.  Its message was sent again, so the client would
        show it twice, also after a rollback.
        Raises: StaleCopies, TransactionError.
        """
        name = ack.names.transaction_id
        assert name is not None, "others are not checked"
        if count == ack.count or (count > ack.count and not is_copy) or self.transactions.is_replayed(name):
            return
        reason = f"it acknowledges {ack.count} messages, of which its consumer has {count} in this order"
        self.transactions.spoil(name, reason)
        if is_copy:
            raise StaleCopies(f"the connection ends, so that its client drops old copies of messages: {reason}")
        raise TransactionError(f"the transaction can only be rolled back: {reason}")

    def _give_up(self, ack: ClientAck, deliveries: list[Delivery]) -> None:
        cause = ack.cause
        text = "" if cause is None else f"{cause.class_name}: {cause.message}"
        self.engine.refuse_all(deliveries, Refusal(TO_DEAD_LETTERS, text=text))

    def _expire(self, deliveries: list[Delivery]) -> None:
        now_ms = self.engine.context.wall_ms
        expired = [one for one in deliveries if 0 < one.message.expires_ms <= now_ms]
        if expired:
            self.engine.refuse_all(expired, PUT_BACK)
        others = [one for one in deliveries if not 0 < one.message.expires_ms <= now_ms]
        if others:  # the client's clock is ahead of ours: it will not take them, whoever is right
            self.engine.acknowledge_all(others)


def _covered(consumer: Consumer, least: int, last: Delivery) -> list[Delivery]:
    """Return the deliveries from a tag to the last one that are not answered yet, in order."""
    if last.state == IN_FLIGHT:
        return [one for one in consumer.covered(last) if one.tag >= least]
    return [one for one in consumer.ledger.values() if least <= one.tag <= last.tag and one.state == IN_FLIGHT]
