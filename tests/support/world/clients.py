"""Simulated clients: the actions of one connection, as the seed chooses, and the client's knowledge.

``Peer`` is a client's view, the same for every way to the engine: the one in ``broker_peer.py`` calls the Broker, those
in ``stomp.py`` and ``amqp.py`` speak octets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final

from engine.consumers.consumer import AUTO, CLIENT, INDIVIDUAL
from engine.open_transaction import TransactionLimits
from engine.values.destination import SUBSCRIPTION, TOPIC
from tests.support.world.bodies import make_body, read_body
from tests.support.world.profile import COLOURS, GROUPED, GROUPS, SELECTED
from tests.support.world.views import Committed, Fact, OpenTransaction, Place, Sent, Subscriber

if TYPE_CHECKING:
    from tests.support.world.world import World

PREFETCHES: Final = (0, 1, 1, 2, 5, 10, 1000)
LIMITS: Final = TransactionLimits()


@dataclass(slots=True, eq=False)
class Held:
    """A message that the client has not settled.  handle: its name on the way to the engine."""

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
    """A requested confirmation.  fact_count: the number of its connection's facts that it confirms.

    group, own: of a frame that waited at a gate.  Frames admitted in one turn may have been taken in any order, so each
    confirms its own facts and those before the group; 0 for a frame that did not wait.
    """

    label: str
    fact_count: int
    committed: Committed | None = None
    group: int = 0
    own: list[Fact] = field(default_factory=list)


class Peer(ABC):
    """One connection.  ``act`` does one action that the seed chooses.

    knows_durable: it can share durable subscriptions with others.  is_credited: it grants credit itself.
    may_be_refused: a refused replay costs it only the subscription.
    """

    knows_durable = True
    is_credited = False
    may_be_refused = False

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.oracle = world.oracle
        self.number = number
        self.chance: Random = world.chance
        self.subscriptions: dict[str, PeerSubscription] = {}
        self.transactions: dict[str, PeerTransaction] = {}
        self.facts: list[Fact] = []
        self.receipts: deque[Receipt] = deque()
        # Long ones make long records, which must fit into a segment.
        self.client_id = f"c{number}" + "x" * self.chance.choice((0, 0, 9_000))
        self.is_closed = False
        self.is_leaving = False
        self._next_name = 1
        self._confirmed_facts = 0

    # -- actions that the seed may choose

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
                if world.has_replays and chance.random() < 0.3:
                    self.replay(kind, name, mode, max(prefetch, 1))
                    return
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
        """Acknowledge everything."""
        for subscription in self.subscriptions.values():
            while free := [held for held in subscription.held if not held.place.is_held]:
                self.settle(subscription, free[0], True, None, True)

    # -- each action, in the client's view

    def send(self, sent: Sent, size: int, transaction: PeerTransaction | None, wants_receipt: bool) -> None:
        self._send(sent, make_body(sent.uid, size), transaction, wants_receipt)

    def subscribe(
        self, kind: int, name: str, ack_mode: int, prefetch: int, colours: tuple[str, ...] = ()
    ) -> PeerSubscription:
        """colours: of its selector, () for everything."""
        key = f"s{self._next_name}"
        self._next_name += 1
        self.world.note(f"{self.number} subscribes {key} {name} {ack_mode} {prefetch} {' '.join(colours)}")
        subscriber = self.new_subscriber(kind, name, ack_mode, prefetch)
        subscriber.colours = colours
        subscription = PeerSubscription(key, subscriber, ack_mode)
        self.subscriptions[key] = subscription
        self._subscribe(subscription)
        return subscription

    def replay(self, kind: int, name: str, ack_mode: int, prefetch: int) -> PeerSubscription:
        """Read a queue or topic again, from a start that the seed chooses."""
        replay = self.world.new_replay(kind, name, self.may_be_refused)
        key = f"s{self._next_name}"
        self._next_name += 1
        self.world.note(f"{self.number} replays {key} {name} {ack_mode} {prefetch} {replay.start}")
        if self.is_credited:
            ack_mode = INDIVIDUAL
        subscriber = self.oracle.replay(kind, name, ack_mode, prefetch, replay, self.is_credited)
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
        if subscription.subscriber.replay is not None:
            is_ack, transaction = True, None  # there is nothing to refuse or to take back
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
        """Note that the engine has taken an ACK or a NACK; ``mode``: of the NACK, "" for that of the address."""
        if transaction is not None:
            self.oracle.hold(transaction.model, covered, is_ack)
            return
        gone = {id(place) for place in covered}
        subscription.held = [one for one in subscription.held if id(one.place) not in gone]
        if subscription.subscriber.replay is not None:
            self.oracle.looked_at(covered)
            return
        self.facts += self.oracle.acknowledge(covered) if is_ack else self.oracle.refuse(covered, mode)

    def begin(self) -> None:
        name = f"t{self._next_name}"
        self._next_name += 1
        self.world.note(f"{self.number} begins {name}")
        transaction = PeerTransaction(name)
        self.transactions[name] = transaction
        self._begin(transaction)

    def committed(self, transaction: PeerTransaction) -> Committed:
        """Note that the engine has taken a COMMIT."""
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
        """Note that the engine has closed the connection."""
        for transaction in self.transactions.values():
            self.oracle.abort(transaction.model)
        for subscription in self.subscriptions.values():
            self.oracle.close(subscription.subscriber, is_lost)
        self.transactions.clear()
        self.subscriptions.clear()

    def confirm(self, receipt: Receipt) -> None:
        """Note a confirmation, which also confirms everything before it on this connection."""
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
        if subscription.subscriber.replay is not None:
            return self.oracle.show(subscription.subscriber, uid, is_redelivered, count)
        self.world.observation.received(subscription.subscriber, message_id, is_redelivered)
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
        """Fill the socket, or give it room again."""

    @abstractmethod
    def disconnect(self) -> None:
        """Leave in order; ``is_closed`` once everything is confirmed."""

    @abstractmethod
    def lose(self) -> None:
        """The socket is gone."""

    @abstractmethod
    def turn_ended(self) -> None:
        """The engine's part of the turn is over: find out which inputs it took."""

    @abstractmethod
    def flush(self, offset: int, confirmed_offset: int) -> None:
        """Send everything that may be sent."""

    def is_stuck(self) -> bool:
        """Say whether the gateway does not read this client's output."""
        return False

    def is_at_rest(self) -> bool:
        """Say whether neither side owes the other anything."""
        return not self.receipts


def durable_name(topic: str) -> str:
    """Return the name of the durable subscription to a topic."""
    return f"keep.{topic}"


def durable_options(topic: str) -> dict[str, Any]:
    """Return the options of a durable subscription that everybody may share."""
    return {"subscription": durable_name(topic), "is_durable": True, "is_shared": True, "is_global": True}
