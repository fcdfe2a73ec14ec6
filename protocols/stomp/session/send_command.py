"""SEND, and COMMIT with what its transaction sends: into the engine, or parked at a gate that is shut."""

from __future__ import annotations

from engine.broker import Broker
from engine.ports.client import Client
from engine.sources.composite import Destination, held_part
from engine.values import gates
from engine.values.errors import EngineError
from engine.values.message import STOMP as STOMP_ENCODING
from engine.values.message import Message
from protocols.connection import Link
from protocols.stomp.codec.frames import Frame
from protocols.stomp.errors import ParkedTooMuch
from protocols.stomp.mapping.destination_resolver import DestinationResolver
from protocols.stomp.mapping.dialects import Dialect
from protocols.stomp.mapping.send_target import SendTarget, send_target
from protocols.stomp.session.parked_frames import ParkedFrames
from protocols.stomp.session.receipts import Receipts
from protocols.stomp.session.transactions import Transactions
from protocols.stomp.session.unsettled import Unsettled


class SendCommand:
    """default_persistent: what a SEND is that does not say."""

    __slots__ = (
        "broker",
        "client",
        "link",
        "default_persistent",
        "dialect",
        "naming",
        "parking",
        "transactions",
        "subscriptions",
        "confirmations",
    )

    def __init__(
        self,
        broker: Broker,
        client: Client,
        link: Link,
        default_persistent: bool,
        dialect: Dialect,
        naming: DestinationResolver,
        parking: ParkedFrames,
        transactions: Transactions,
        subscriptions: Unsettled,
        confirmations: Receipts,
    ) -> None:
        self.broker = broker
        self.client = client
        self.link = link
        self.default_persistent = default_persistent
        self.dialect = dialect
        self.naming = naming
        self.parking = parking
        self.transactions = transactions
        self.subscriptions = subscriptions
        self.confirmations = confirmations

    def send(self, frame: Frame) -> None:
        """Take a SEND.  Raises: InvalidHeader, EngineError, ParkedTooMuch."""
        head = frame.head
        target = head.mapped
        if not isinstance(target, SendTarget):
            name = head.headers.get("transaction")
            if name is not None:
                self.transactions.named(name)
            target = send_target(head, self.naming, self.default_persistent, self.dialect, frame.body)
        message = Message(
            target.destination_id,
            STOMP_ENCODING,
            target.flags,
            target.priority,
            target.tag_hash,
            target.group_hash,
            target.expires_ms,
            b"",
            target.block,
            frame.body,
        )
        destination = target.destination
        if target.transaction is not None:
            self.broker.send_in(self.transactions.named(target.transaction), destination, message)
        elif self.parking.parked and self.parking.holds(destination):
            self._park(frame.kept(), destination, gates.OPEN)
            return
        else:
            paced = target.paced
            if paced is not None and self.broker.flow.rate_refusal(self.client, paced) != gates.OPEN:
                self._park(frame.kept(), paced, gates.RATE)
                return
            gate = self.broker.send(destination, message)
            if gate != gates.OPEN:
                self._park(frame.kept(), destination, gate)
                return
            if target.is_persistent:
                self.confirmations.has_logged = True
        receipt = frame.receipt
        if receipt is not None:
            self.confirmations.receipts.append(receipt)

    def commit(self, frame: Frame) -> None:
        """Take a COMMIT.  Raises: InvalidHeader, EngineError, ParkedTooMuch."""
        transaction = self.transactions.take(frame)
        addresses = self.parking.addresses
        try:
            gate, destination = self.broker.commit_refusal(transaction)
        except EngineError:
            self.broker.abort(transaction)
            raise
        if gate == gates.OPEN and addresses:
            for sent_to, _ in transaction.sends:
                if sent_to.uri() in addresses:
                    destination = sent_to
                    break
        if destination is not None:
            self.transactions.committing[frame] = transaction
            self._park(frame, destination, gate)
            self.parking.addresses.update(sent_to.uri() for sent_to, _ in transaction.sends)
            return
        self.subscriptions.forget(transaction.held())
        self.broker.commit(transaction)
        self.confirmations.has_logged = True
        self.confirmations.confirm(frame)

    def _park(self, frame: Frame, destination: Destination, gate: int) -> None:
        """Let a frame wait for its gate, and stop reading a connection that sends on regardless."""
        parking = self.parking
        committing = self.transactions.committing.get(frame)
        parking.add(frame, destination, 0 if committing is None else committing.size_bytes)
        self.client.is_holding = True
        if gate != gates.OPEN:
            self.broker.flow.park(self.client, gate, held_part(destination))
        if self.subscriptions.by_key or self.subscriptions.by_ack:
            if parking.parked_bytes > parking.park_max_bytes:
                raise ParkedTooMuch(
                    f"{parking.parked_bytes} octets of messages wait for {destination.uri()}, which takes nothing now; "
                    f"the limit for a connection that also receives is {parking.park_max_bytes}"
                )
        elif parking.parked_bytes >= parking.park_bytes and not parking.is_reading_paused:
            parking.is_reading_paused = True
            self.link.pause_reading()
