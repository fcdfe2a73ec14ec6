"""Simulated clients: what one connection does, as the seed says, and what it believes afterwards.

``Peer`` is a client's view, the same over every way to the engine.  ``BrokerPeer`` calls the Broker directly, as a
protocol session would; world_stomp.py has the peer that speaks octets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from engine import gates
from engine.client import Client
from engine.consumer import AUTO, CLIENT, INDIVIDUAL, Consumer
from engine.delivery import IN_FLIGHT, Delivery
from engine.destination import QUEUE, SUBSCRIPTION, TOPIC
from engine.errors import EngineError
from engine.message import PERSISTENT, PLAIN, STOMP, Message
from engine.options import SubscribeOptions
from engine.queue import Queue
from engine.refusal import AS_THE_ADDRESS_SAYS
from engine.topic import Topic
from engine.transaction import Transaction, TransactionLimits
from tests.support.world_bodies import Violation, make_body, read_body, uid_of
from tests.support.world_oracle import Committed, Fact, OpenTransaction, Place, Sent, Subscriber
from tests.support.world_profile import COLOURS, GROUPED, GROUPS, SELECTED

if TYPE_CHECKING:
    from tests.support.world import World

PREFETCHES: Final = (0, 1, 1, 2, 5, 10, 1000)
LIMITS: Final = TransactionLimits()


@dataclass(slots=True, eq=False)
class Held:
    """A message that the client has not settled.  handle: what the way to the engine needs to name it."""

    place: Place
    handle: object


@dataclass(slots=True, eq=False)
class PeerSubscription:
    key: str
    subscriber: Subscriber
    ack_mode: int
    held: list[Held] = field(default_factory=list)
    handle: object = None


@dataclass(slots=True, eq=False)
class PeerTransaction:
    name: str
    model: OpenTransaction = field(default_factory=OpenTransaction)
    handle: object = None


@dataclass(slots=True, eq=False)
class Receipt:
    """A confirmation that was asked for.  fact_count: it stands for so many facts of its connection.

    group, own: of a frame that waited at a gate.  Those let through in one turn may have been taken in any order, so
    that each stands for its own facts and for those before the group; 0 for a frame that did not wait.
    """

    label: str
    fact_count: int
    committed: Committed | None = None
    group: int = 0
    own: list[Fact] = field(default_factory=list)


class Peer(ABC):
    """One connection.  ``act`` does one thing that the seed chooses.

    knows_durable: it can share durable subscriptions with others.
    """

    knows_durable = True

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.oracle = world.oracle
        self.number = number
        self.chance: Random = world.chance
        self.subscriptions: dict[str, PeerSubscription] = {}
        self.transactions: dict[str, PeerTransaction] = {}
        self.facts: list[Fact] = []
        self.receipts: deque[Receipt] = deque()
        # Long ones make long records, which must fit where the engine has reserved room for them.
        self.client_id = f"c{number}" + "x" * self.chance.choice((0, 0, 9_000))
        self.is_closed = False
        self.is_leaving = False
        self._next_name = 1
        self._confirmed_facts = 0

    # -- what the seed may choose

    def act(self) -> None:
        world = self.world
        chance = self.chance
        draw = chance.random()
        if self.is_stuck():
            if draw < 0.05:
                self.lose()
        elif world.profile.is_transactional and draw < 0.3:
            self.work_in_transaction()
        elif draw < world.profile.send_share:
            self.send_some()
        elif draw < 0.82:
            self.settle_some()
        elif draw < 0.87:
            if len(self.subscriptions) < 3:
                kind, name = chance.choice(world.destinations)
                mode = chance.choice((AUTO, CLIENT, INDIVIDUAL, INDIVIDUAL))
                prefetch = chance.choice(PREFETCHES)
                colours: tuple[str, ...] = ()
                if name == SELECTED and chance.random() < 0.8:
                    colours = tuple(chance.sample(COLOURS, chance.randint(1, 2)))
                if kind == TOPIC and world.profile.has_durable and self.knows_durable and chance.random() < 0.6:
                    kind = SUBSCRIPTION
                self.subscribe(kind, name, mode, max(prefetch, 1) if mode == AUTO else prefetch, colours)
        elif draw < 0.90:
            if len(self.transactions) < 2:
                self.begin()
        elif draw < 0.94:
            if self.transactions:
                self.commit(chance.choice(list(self.transactions.values())))
        elif draw < 0.955:
            if self.transactions:
                self.abort(chance.choice(list(self.transactions.values())))
        elif draw < 0.97:
            if self.subscriptions:
                self.unsubscribe(chance.choice(list(self.subscriptions.values())))
        elif draw < 0.98:
            self.toggle_output()
        elif draw < 0.988:
            self.disconnect()
        elif draw < 0.996:
            self.lose()

    def work_in_transaction(self) -> None:
        if not self.transactions:
            self.begin()
        elif self.chance.random() < 0.4:
            self.commit(self.chance.choice(list(self.transactions.values())))
        else:
            self.send_some()

    def send_some(self) -> None:
        chance = self.chance
        world = self.world
        kind, name = chance.choice(world.destinations)
        transaction = None
        if self.transactions and chance.random() < 0.5:
            transaction = chance.choice(list(self.transactions.values()))
        for _ in range(chance.randint(1, 6)):
            if self.is_stuck():
                break
            expires_ms = world.wall_ms() + chance.randint(-5, 3_000) if chance.random() < 0.08 else 0
            priority = 4 if chance.random() < 0.85 else chance.randint(0, 9)
            sent = self.oracle.new_message(self.number, kind, name, chance.random() < 0.8, priority, expires_ms)
            if name == SELECTED:
                sent.colour = chance.choice(COLOURS)
            elif name in GROUPED:
                sent.group = chance.choice(GROUPS)
            size = world.profile.draw_size(chance)
            world.note(f"{self.number} sends {sent.uid} to {name} {size} {transaction and transaction.name}")
            self.send(sent, size, transaction, chance.random() < 0.6)

    def settle_some(self) -> None:
        chance = self.chance
        with_held = [one for one in self.subscriptions.values() if any(not held.place.is_held for held in one.held)]
        if not with_held:
            return
        subscription = chance.choice(with_held)
        transaction = None
        if self.transactions and chance.random() < 0.4:
            transaction = chance.choice(list(self.transactions.values()))
        for _ in range(chance.randint(1, 5)):
            free = [held for held in subscription.held if not held.place.is_held]
            if not free:
                break
            held = free[0] if chance.random() < 0.7 else chance.choice(free)
            is_ack = chance.random() < self.world.profile.ack_share
            self.settle(subscription, held, is_ack, transaction, chance.random() < 0.5)

    def take_all(self) -> None:
        """Acknowledge everything there is."""
        for subscription in self.subscriptions.values():
            while free := [held for held in subscription.held if not held.place.is_held]:
                self.settle(subscription, free[0], True, None, True)

    # -- each thing, in the client's view

    def send(self, sent: Sent, size: int, transaction: PeerTransaction | None, wants_receipt: bool) -> None:
        self._send(sent, make_body(sent.uid, size), transaction, wants_receipt)

    def subscribe(
        self, kind: int, name: str, ack_mode: int, prefetch: int, colours: tuple[str, ...] = ()
    ) -> PeerSubscription:
        """colours: what it selects, () for everything."""
        key = f"s{self._next_name}"
        self._next_name += 1
        self.world.note(f"{self.number} subscribes {key} {name} {ack_mode} {prefetch} {' '.join(colours)}")
        subscriber = self.new_subscriber(kind, name, ack_mode, prefetch)
        subscriber.colours = colours
        subscription = PeerSubscription(key, subscriber, ack_mode)
        self.subscriptions[key] = subscription
        self._subscribe(subscription)
        return subscription

    def new_subscriber(self, kind: int, name: str, ack_mode: int, prefetch: int) -> Subscriber:
        return self.oracle.subscribe(kind, name, ack_mode, prefetch)

    def settle(
        self,
        subscription: PeerSubscription,
        held: Held,
        is_ack: bool,
        transaction: PeerTransaction | None,
        wants_receipt: bool,
    ) -> None:
        self.world.note(
            f"{self.number} {'acks' if is_ack else 'nacks'} {held.place.uid} {subscription.key} "
            f"{transaction and transaction.name}"
        )
        covered = self.oracle.covered(subscription.subscriber, held.place)
        self._settle(subscription, held, covered, is_ack, transaction, wants_receipt)

    def settled(
        self,
        subscription: PeerSubscription,
        covered: list[Place],
        is_ack: bool,
        transaction: PeerTransaction | None,
        mode: str = "",
    ) -> None:
        """The engine has taken an ACK or a NACK; ``mode``: what the latter asks for, "" for what the address says."""
        if transaction is not None:
            self.oracle.hold(transaction.model, covered, is_ack)
            return
        gone = {id(place) for place in covered}
        subscription.held = [one for one in subscription.held if id(one.place) not in gone]
        self.facts += self.oracle.acknowledge(covered) if is_ack else self.oracle.refuse(covered, mode)

    def begin(self) -> None:
        name = f"t{self._next_name}"
        self._next_name += 1
        self.world.note(f"{self.number} begins {name}")
        transaction = PeerTransaction(name)
        self.transactions[name] = transaction
        self._begin(transaction)

    def committed(self, transaction: PeerTransaction) -> Committed:
        """The engine has taken a COMMIT."""
        self.world.note(f"{self.number} has committed {transaction.name}")
        model = transaction.model
        gone = {id(place) for place in model.accepted + model.refused}
        facts, committed = self.oracle.commit(model)
        for subscription in self.subscriptions.values():
            subscription.held = [one for one in subscription.held if id(one.place) not in gone]
        self.facts += facts
        return committed

    def abort(self, transaction: PeerTransaction) -> None:
        self.world.note(f"{self.number} aborts {transaction.name}")
        del self.transactions[transaction.name]
        self._abort(transaction)

    def unsubscribe(self, subscription: PeerSubscription) -> None:
        self.world.note(f"{self.number} unsubscribes {subscription.key}")
        del self.subscriptions[subscription.key]
        self._unsubscribe(subscription)

    def ended(self, is_lost: bool) -> None:
        """The engine has closed the connection."""
        for transaction in self.transactions.values():
            self.oracle.abort(transaction.model)
        for subscription in self.subscriptions.values():
            self.oracle.close(subscription.subscriber, is_lost)
        self.transactions.clear()
        self.subscriptions.clear()

    def confirm(self, receipt: Receipt) -> None:
        """The client has seen a confirmation; it also stands for everything before it on this connection."""
        self.world.note(f"{self.number} sees {receipt.label}")
        if receipt.committed is not None:
            receipt.committed.is_confirmed = True
        new = self.facts[self._confirmed_facts : receipt.fact_count]
        self._confirmed_facts = max(self._confirmed_facts, receipt.fact_count)
        self.world.confirmed(new + receipt.own)

    def received(
        self, subscription: PeerSubscription, body: bytes, message_id: str, is_redelivered: bool, count: int
    ) -> Place:
        uid = read_body(body)
        self.world.note(f"{self.number} gets {uid} {subscription.key} {is_redelivered} {count} {message_id}")
        return self.oracle.deliver(subscription.subscriber, uid, is_redelivered, count)

    # -- the way to the engine

    @abstractmethod
    def _send(self, sent: Sent, body: bytes, transaction: PeerTransaction | None, wants_receipt: bool) -> None: ...

    @abstractmethod
    def _subscribe(self, subscription: PeerSubscription) -> None: ...

    @abstractmethod
    def _settle(
        self,
        subscription: PeerSubscription,
        held: Held,
        covered: list[Place],
        is_ack: bool,
        transaction: PeerTransaction | None,
        wants_receipt: bool,
    ) -> None: ...

    @abstractmethod
    def _begin(self, transaction: PeerTransaction) -> None: ...

    @abstractmethod
    def commit(self, transaction: PeerTransaction) -> None: ...

    @abstractmethod
    def _abort(self, transaction: PeerTransaction) -> None: ...

    @abstractmethod
    def _unsubscribe(self, subscription: PeerSubscription) -> None: ...

    @abstractmethod
    def toggle_output(self) -> None:
        """Let the socket take no more, or more again."""

    @abstractmethod
    def disconnect(self) -> None:
        """Leave in order; ``is_closed`` once everything is confirmed."""

    @abstractmethod
    def lose(self) -> None:
        """The socket is gone."""

    @abstractmethod
    def turn_ended(self) -> None:
        """The engine's part of the turn is over: find out what it took."""

    @abstractmethod
    def flush(self, offset: int, confirmed_offset: int) -> None:
        """Let leave what may leave."""

    def is_stuck(self) -> bool:
        """Say whether nobody reads what this client writes."""
        return False

    def is_at_rest(self) -> bool:
        """Say whether nothing is owed to this client, nor by it."""
        return not self.receipts


class BrokerPeer(Peer):
    """Confirmations as every adapter keeps them: stamped at the end of a turn, let go in order."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.client = _EngineClient(self)
        self.waiting: list[tuple[Sent, Message, PeerTransaction | None, Receipt | None]] = []
        self.turn: list[Receipt] = []
        self.owed: deque[tuple[int, list[Receipt]]] = deque()
        self.last_offset = 0
        self.has_logged = False
        self.by_consumer: dict[int, PeerSubscription] = {}
        self.handed_over: list[tuple[PeerSubscription, Message]] = []
        world.broker.connect(self.client)

    def _destination(self, kind: int, name: str) -> Queue | Topic:
        broker = self.world.broker
        return broker.destinations.queue(name) if kind == QUEUE else broker.destinations.topic(name)

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
        gate = broker.flow.refusal(destination, message)
        if gate != gates.OPEN:
            broker.flow.park(self.client, gate, destination)
            self.waiting.append((sent, message, None, receipt))
            return
        self.facts += self.oracle.accept(sent)  # first: a topic hands over at once
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
            **(durable_options(model.view.name) if model.view.kind == SUBSCRIPTION else {}),
        )
        consumer = self.world.broker.subscribe(self.client, destination, options)
        if model.view.kind == SUBSCRIPTION:
            self.facts.append(Fact("opened", SUBSCRIPTION, model.view.name, 0))
            self.has_logged = True
        subscription.handle = consumer
        self.by_consumer[consumer.consumer_id] = subscription
        self.world.broker.start(consumer)

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
        deliveries = broker.covered(delivery)
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
            return  # a later COMMIT waits behind a parked SEND: this client tries again another time
        self._try_commit(transaction, receipt)

    def _try_commit(self, transaction: PeerTransaction, receipt: Receipt | None) -> None:
        handle = transaction.handle
        assert isinstance(handle, Transaction)
        gate, _ = self.world.broker.flow.commit_refusal(handle)
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

    # -- what the engine says

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
        if self.has_logged:
            self.has_logged = False
            self.last_offset = offset
        if self.turn:
            receipts, self.turn = self.turn, []
            if self.owed or self.last_offset > confirmed_offset:
                self.owed.append((self.last_offset, receipts))
            else:
                for receipt in receipts:
                    self._confirm_next(receipt)
        if self.owed:
            self.world.broker.store_events.await_confirmation(self.client)

    def is_at_rest(self) -> bool:
        return not self.receipts and not self.waiting


def durable_name(topic: str) -> str:
    """Return what the durable subscription to a topic is called."""
    return f"keep.{topic}"


def durable_options(topic: str) -> dict[str, Any]:
    """Return what is special about a durable subscription that everybody may share."""
    return {"subscription": durable_name(topic), "is_durable": True, "is_shared": True, "is_global": True}


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
        raise AssertionError(f"no address of the World ends slow consumers: {error}")

    def describe(self) -> dict[str, str]:
        return {"address": f"sim:{self.peer.number}", "client_id": self.peer.client_id, "login": ""}
