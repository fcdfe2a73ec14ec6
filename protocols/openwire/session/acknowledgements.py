"""MessageAck: the deliveries that it names, and what becomes of them.

A dispatch has the number of its hand-over as brokerSequenceId, and the client repeats it, so an acknowledgement finds
its deliveries in the consumer's ledger.  What is not there any more was returned when a connection was lost.  Such an
acknowledgement is ignored, but a transaction with one can only be rolled back: others may have its messages.
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
from protocols.openwire.errors import RequestError
from protocols.openwire.mapping.client_ack import AckReader, ClientAck
from protocols.openwire.session.hand_overs import HandOvers
from protocols.openwire.session.open_consumer import OpenConsumer
from protocols.openwire.session.transactions import Transactions
from protocols.openwire.wire.identities import ConsumerId

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
ENLISTED_STEPS: Final = 2  # for a delivery that a transaction takes, or gives back at a rollback
TO_DEAD_LETTERS: Final = "dead-letter"
PUT_BACK: Final = Refusal("requeue")  # the queue finds it expired


@dataclass(slots=True, eq=False)
class Acknowledgements:
    """consumers: of the connection."""

    engine: EngineApi
    client: ProtocolConnection
    transactions: Transactions
    responses: Responses
    consumers: dict[ConsumerId, OpenConsumer]
    hand_overs: HandOvers
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
            self._settle(ack, found.consumer)
        if ack.response_required:
            self.responses.respond(ack.command_id)

    def _settle(self, ack: ClientAck, consumer: Consumer) -> None:
        last = None if ack.last is None else consumer.ledger.get(self.hand_overs.tag(ack.last))
        if ack.ack_type == REDELIVERED:
            return
        if last is None:
            if not consumer.shown_by():
                self._miss(ack)
            return
        is_one = ack.first is None or ack.first == ack.last
        if ack.ack_type == DELIVERED or not is_one or last.state != IN_FLIGHT:
            self.client.share.charge(len(consumer.ledger) // SCANNED_A_STEP)
        if ack.ack_type == DELIVERED:
            consumer.extend(last)
            return
        deliveries = self._covered(ack, consumer, last)
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

    def _covered(self, ack: ClientAck, consumer: Consumer, last: Delivery) -> list[Delivery]:
        """Return the deliveries from the first to the last that are not answered yet, in order."""
        if ack.ack_type == INDIVIDUAL or ack.first == ack.last:
            return [last] if last.state == IN_FLIGHT else []
        least = 0 if ack.first is None else self.hand_overs.tag(ack.first)
        if last.state == IN_FLIGHT:
            return [one for one in consumer.covered(last) if one.tag >= least]
        return [one for one in consumer.ledger.values() if least <= one.tag <= last.tag and one.state == IN_FLIGHT]

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
