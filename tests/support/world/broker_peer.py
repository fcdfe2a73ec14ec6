"""A simulated client that calls the Broker directly, as a protocol session would."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING
from zlib import crc32

from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.open_transaction import Transaction
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values import gates
from engine.values.delivery import AS_THE_ADDRESS_SAYS, IN_FLIGHT, Delivery
from engine.values.destination import QUEUE, SUBSCRIPTION
from engine.values.errors import EngineError, ReplayGone
from engine.values.message import PERSISTENT, PLAIN, STOMP, Message
from engine.values.options import SubscribeOptions
from tests.support.engine.broker_view import covered_by
from tests.support.world.bodies import Violation, uid_of
from tests.support.world.clients import LIMITS, Held, Peer, PeerSubscription, PeerTransaction, Receipt, durable_options
from tests.support.world.views import Fact, Place, Sent

if TYPE_CHECKING:
    from tests.support.world.world import World


class BrokerPeer(Peer):
    """Confirmations like those of every adapter: stamped at the end of a turn, released in order."""

    may_be_refused = True

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.client = _EngineClient(self)
        self.client.holder = "user sim"
        self.waiting: list[tuple[Sent, Message, PeerTransaction | None, Receipt | None]] = []
        self.turn: list[Receipt] = []
        self.owed: deque[tuple[int, list[Receipt]]] = deque()
        self.last_offset = 0
        self.has_logged = False
        self.by_consumer: dict[int, PeerSubscription] = {}
        self.handed_over: list[tuple[PeerSubscription, Message]] = []
        world.broker.connect(self.client)

    def _destination(self, kind: int, name: str) -> Queue | Topic:
        return self.world.queue(name) if kind == QUEUE else self.world.topic(name)

    def _send(self, sent: Sent, body: bytes, transaction: PeerTransaction | None, wants_receipt: bool) -> None:
        destination = self._destination(sent.kind, sent.name)
        flags = PLAIN | (PERSISTENT if sent.is_persistent else 0)
        group_hash = crc32(sent.group.encode()) if sent.group else 0
        group = f"JMSXGroupID:{sent.group}\n" if sent.group else ""
        headers = f"n:1\ncolour:{sent.colour}\n{group}".encode()
        message = Message(
            destination.destination_id, STOMP, flags, sent.priority, 0, group_hash, sent.expires_ms, b"", headers, body
        )
        receipt = Receipt(f"send {sent.uid}", 0) if wants_receipt else None
        if transaction is not None:
            handle = transaction.handle
            assert isinstance(handle, Transaction)
            handle.add_send(destination, message)
            transaction.model.sends.append(sent)
            self._ask(receipt)
        elif self.waiting:
            self.waiting.append((sent, message, None, receipt))
        else:
            self._try_send(sent, message, receipt)

    def _try_send(self, sent: Sent, message: Message, receipt: Receipt | None) -> None:
        destination = self._destination(sent.kind, sent.name)
        broker = self.world.broker
        gate = self.world.refusal(destination, message)
        if gate != gates.OPEN:
            self.world.park(self.client, gate, destination)
            self.waiting.append((sent, message, None, receipt))
            return
        self.facts += self.oracle.accept(sent)  # beforehand: a topic hands over at once
        if broker.send(destination, message) != gates.OPEN:
            raise Violation(f"message {sent.uid} is refused at a gate that was open")
        self.has_logged = True
        self._ask(receipt)

    def admit(self) -> None:
        waiting = self.waiting
        self.waiting = []
        for sent, message, transaction, receipt in waiting:
            if self.waiting:
                self.waiting.append((sent, message, transaction, receipt))
            elif transaction is not None:
                self._try_commit(transaction, receipt)
            else:
                self._try_send(sent, message, receipt)
        if self.is_leaving and not self.waiting:
            self._leave()

    def _ask(self, receipt: Receipt | None) -> None:
        if receipt is not None:
            receipt.fact_count = len(self.facts)
            self.turn.append(receipt)
            self.receipts.append(receipt)

    def _subscribe(self, subscription: PeerSubscription) -> None:
        model = subscription.subscriber
        destination = self._destination(model.view.kind, model.view.name)
        colours = ", ".join(f"'{colour}'" for colour in model.colours)
        options = SubscribeOptions(
            model.ack_mode,
            model.prefetch,
            subscription.key,
            selector=f"colour IN ({colours})" if colours else "",
            window_bytes=self.world.profile.window_bytes,
            replay=None if model.replay is None else model.replay.start,
            **(durable_options(model.view.name) if model.view.kind == SUBSCRIPTION else {}),
        )
        consumer = self.world.broker.subscribe(self.client, destination, options)
        if model.view.kind == SUBSCRIPTION:
            self.facts.append(Fact("opened", SUBSCRIPTION, model.view.name, 0))
            self.has_logged = True
        subscription.handle = consumer
        self.by_consumer[consumer.consumer_id] = subscription
        consumer.start()

    def _settle(
        self,
        subscription: PeerSubscription,
        held: Held,
        covered: list[Place],
        is_ack: bool,
        transaction: PeerTransaction | None,
        wants_receipt: bool,
    ) -> None:
        broker = self.world.broker
        delivery = held.handle
        assert isinstance(delivery, Delivery)
        deliveries = covered_by(delivery)
        uids = [uid_of(one.message) for one in deliveries]
        if uids != [place.uid for place in covered]:
            raise Violation(f"an answer to {held.place.uid} covers {uids}, not {[place.uid for place in covered]}")
        if transaction is not None:
            handle = transaction.handle
            assert isinstance(handle, Transaction)
            if is_ack:
                handle.add_accepted(deliveries)
            else:
                handle.add_refused(deliveries, AS_THE_ADDRESS_SAYS)
        else:
            for one in deliveries:
                if is_ack:
                    broker.acknowledge(one)
                else:
                    broker.refuse(one, AS_THE_ADDRESS_SAYS)
            self.has_logged = True
        self.settled(subscription, covered, is_ack, transaction)
        self._ask(Receipt(f"settle {held.place.uid}", 0) if wants_receipt else None)

    def _begin(self, transaction: PeerTransaction) -> None:
        transaction.handle = Transaction(self.client, transaction.name, LIMITS)

    def commit(self, transaction: PeerTransaction) -> None:
        self.world.note(f"{self.number} commits {transaction.name}")
        receipt = Receipt(f"commit {transaction.name}", 0)
        if self.waiting:
            return  # a later COMMIT waits behind a parked SEND: this client tries again later
        self._try_commit(transaction, receipt)

    def _try_commit(self, transaction: PeerTransaction, receipt: Receipt | None) -> None:
        handle = transaction.handle
        assert isinstance(handle, Transaction)
        gate, _ = self.world.broker.commit_refusal(handle)
        if gate != gates.OPEN:
            return
        del self.transactions[transaction.name]
        committed = self.committed(transaction)
        self.world.broker.commit(handle)
        self.has_logged = True
        if receipt is not None:
            receipt.committed = committed
        self._ask(receipt)

    def _abort(self, transaction: PeerTransaction) -> None:
        handle = transaction.handle
        assert isinstance(handle, Transaction)
        self.world.broker.abort(handle)
        self.oracle.abort(transaction.model)

    def _unsubscribe(self, subscription: PeerSubscription) -> None:
        consumer = subscription.handle
        assert isinstance(consumer, Consumer)
        self.world.broker.unsubscribe(consumer, is_lost=False)
        self.oracle.close(subscription.subscriber, is_lost=False)

    def toggle_output(self) -> None:
        if self.client.is_output_full:
            self.world.broker.output_drained(self.client)
        else:
            self.client.is_output_full = True

    def disconnect(self) -> None:
        self.is_leaving = True
        if not self.waiting:
            self._leave()

    def _leave(self) -> None:
        self.world.note(f"{self.number} disconnects")
        self._close(is_lost=False)
        self._ask(Receipt("disconnect", 0))

    def lose(self) -> None:
        self.world.note(f"{self.number} is lost")
        self._close(is_lost=True)
        self.turn.clear()
        self.owed.clear()
        self.receipts.clear()

    def _close(self, is_lost: bool) -> None:
        broker = self.world.broker
        for transaction in self.transactions.values():
            handle = transaction.handle
            assert isinstance(handle, Transaction)
            broker.abort(handle)
        broker.disconnect(self.client, is_lost)
        self.waiting.clear()
        self.ended(is_lost)
        self.is_closed = True

    # -- called by the engine

    def expelled(self, consumer: Consumer, error: EngineError) -> None:
        """The requested start of a replay is gone."""
        subscription = self.by_consumer[consumer.consumer_id]
        replay = subscription.subscriber.replay
        if replay is None or not isinstance(error, ReplayGone):
            raise Violation(f"no address of the World ends consumers: {error}")
        replay.refused()
        self.world.note(f"{self.number} is refused {subscription.key}")
        del self.subscriptions[subscription.key]
        self._unsubscribe(subscription)

    def delivered(self, consumer: Consumer, delivery: Delivery) -> None:
        subscription = self._subscription(consumer)
        message = delivery.message
        most = self.world.profile.window_bytes
        held = sum(one.message.size for one in consumer.ledger.values() if one.state == IN_FLIGHT)
        if most >= 0 and held > message.size and held - message.size >= max(1, most):
            raise Violation(f"{message.size} octets exceed a window of {most}, {held} are in flight with them")
        place = self.received(
            subscription,
            message.body,
            self.world.broker.message_id(message),
            delivery.is_redelivered,
            delivery.failed_attempts + 1,
        )
        subscription.held.append(Held(place, delivery))
        self.handed_over.append((subscription, message))

    def delivered_settled(self, consumer: Consumer, message: Message, is_redelivered: bool, count: int) -> None:
        subscription = self._subscription(consumer)
        self.received(subscription, message.body, self.world.broker.message_id(message), is_redelivered, count)
        self.handed_over.append((subscription, message))

    def _subscription(self, consumer: Consumer) -> PeerSubscription:
        if self.client.is_output_full:
            raise Violation(f"connection {self.number} is handed a message while its output is full")
        return self.by_consumer[consumer.consumer_id]

    def released(self, offset: int) -> bool:
        while self.owed and self.owed[0][0] <= offset:
            for receipt in self.owed.popleft()[1]:
                self._confirm_next(receipt)
        return bool(self.owed)

    def _confirm_next(self, receipt: Receipt) -> None:
        if self.receipts.popleft() is not receipt:
            raise Violation(f"confirmations of connection {self.number} overtake each other")
        self.confirm(receipt)

    def turn_ended(self) -> None:
        written_offset = self.world.store.written_offset()
        for subscription, message in self.handed_over:
            if message.log_offset >= written_offset:
                raise Violation(f"a message at {message.log_offset} has left before its record was written")
            message_id = self.world.broker.message_id(message)
            self.oracle.identify(subscription.subscriber.view, uid_of(message), message_id)
        self.handed_over.clear()

    def flush(self, offset: int, confirmed_offset: int) -> None:
        is_refusing = self.client.is_refusing  # nothing more is confirmed then, and its records are still to come
        if self.has_logged and not is_refusing:
            self.has_logged = False
            self.last_offset = offset
        if self.turn and not is_refusing:
            receipts, self.turn = self.turn, []
            if self.owed or self.last_offset > confirmed_offset:
                self.owed.append((self.last_offset, receipts))
            else:
                for receipt in receipts:
                    self._confirm_next(receipt)
        if self.owed:
            self.world.await_confirmation(self.client)

    def is_at_rest(self) -> bool:
        return not self.receipts and not self.waiting


class _EngineClient(Client):
    """The port, in front of its peer."""

    def __init__(self, peer: BrokerPeer) -> None:
        super().__init__()
        self.peer = peer

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        self.peer.delivered(consumer, delivery)

    def deliver_settled(self, consumer: Consumer, message: Message, is_redelivered: bool, delivery_count: int) -> None:
        self.peer.delivered_settled(consumer, message, is_redelivered, delivery_count)

    def release_confirmations(self, offset: int) -> bool:
        return self.peer.released(offset)

    def admit(self) -> None:
        self.peer.admit()

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        raise AssertionError(f"no address of the World has a deadline: {error}")

    def expel(self, consumer: Consumer, error: EngineError, with_connection: bool) -> None:
        self.peer.expelled(consumer, error)

    def describe(self) -> dict[str, str]:
        return {"address": f"sim:{self.peer.number}", "client_id": self.peer.client_id, "login": ""}
