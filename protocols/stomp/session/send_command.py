"""SEND, and COMMIT with what its transaction sends: into the engine, or parked at a gate that is shut."""

from __future__ import annotations

from engine.broker import Broker
from engine.sources.composite import Destination, held_part
from engine.values import gates
from engine.values.errors import EngineError
from engine.values.message import STOMP as STOMP_ENCODING
from engine.values.message import Message
from protocols.connection import ProtocolConnection
from protocols.stomp.codec.frames import Frame
from protocols.stomp.errors import ParkedTooMuch
from protocols.stomp.mapping.destination_resolver import DestinationResolver
from protocols.stomp.mapping.send_target import SendTarget, send_target
from protocols.stomp.session.parked_frames import ParkedFrames
from protocols.stomp.session.receipts import Receipts
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.transactions import Transactions
from protocols.stomp.session.unsettled import Unsettled


class SendCommand:
    __slots__ = (
        "broker",
        "client",
        "settings",
        "resolver",
        "parked",
        "transactions",
        "unsettled",
        "receipts",
    )

    def __init__(
        self,
        broker: Broker,
        client: ProtocolConnection,
        settings: SessionSettings,
        resolver: DestinationResolver,
        parked: ParkedFrames,
        transactions: Transactions,
        unsettled: Unsettled,
        receipts: Receipts,
    ) -> None:
        self.broker = broker
        self.client = client
        self.settings = settings
        self.resolver = resolver
        self.parked = parked
        self.transactions = transactions
        self.unsettled = unsettled
        self.receipts = receipts

    def take(self, frame: Frame) -> None:
        """Take a SEND.  Raises: InvalidHeader, EngineError, ParkedTooMuch."""
        head = frame.head
        target = head.mapped
        if not isinstance(target, SendTarget):
            name = head.headers.get("transaction")
            if name is not None:
                self.transactions.named(name)
            target = self._target(frame)
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
        elif self.parked.parked and self.parked.holds(destination):
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
                self.receipts.has_logged = True
        receipt = frame.receipt
        if receipt is not None:
            self.receipts.receipts.append(receipt)

    def commit(self, frame: Frame) -> None:
        """Take a COMMIT.  Raises: InvalidHeader, EngineError, ParkedTooMuch."""
        transaction = self.transactions.take(frame)
        addresses = self.parked.addresses
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
            self.parked.addresses.update(sent_to.uri() for sent_to, _ in transaction.sends)
            return
        self.unsettled.forget(transaction.held())
        self.broker.commit(transaction)
        self.receipts.has_logged = True
        self.receipts.confirm(frame)

    def _target(self, frame: Frame) -> SendTarget:
        """Raises: InvalidHeader, EngineError."""
        resolver = self.resolver
        known = len(resolver.aliases)
        target = send_target(frame.head, resolver, self.settings.default_persistent, self.settings.dialect, frame.body)
        if len(resolver.aliases) > known:
            self.unsettled.look_at_each_message()
        return target

    def _park(self, frame: Frame, destination: Destination, gate: int) -> None:
        """Let a frame wait for its gate, and stop reading a connection that sends on regardless."""
        parked = self.parked
        committing = self.transactions.committing.get(frame)
        parked.add(frame, destination, 0 if committing is None else committing.size_bytes)
        self.client.is_holding = True
        if gate != gates.OPEN:
            self.broker.flow.park(self.client, gate, held_part(destination))
        if self.unsettled.subscriptions:
            if parked.parked_bytes > parked.park_max_bytes:
                raise ParkedTooMuch(
                    f"{parked.parked_bytes} octets of messages wait for {destination.uri()}, which takes nothing now; "
                    f"the limit for a connection that also receives is {parked.park_max_bytes}"
                )
        elif parked.parked_bytes >= parked.park_bytes:
            self.client.pause_reading()
