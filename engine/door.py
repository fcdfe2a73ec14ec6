"""The door of the engine for those who speak for a client: what its peer asks for enters here as method calls.

A turn is everything between two ends of turns: what arrived is applied at once, dispatched at the end, appended in one
batch.  A confirmation may leave once ``confirmed_offset`` has passed the offset that ``Broker.end_turn`` returned.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from engine.assembly import ClientParts, DispatchParts, FateParts, FeatureParts, GroundParts
from engine.commit import Commits
from engine.composite_send import CompositeSend
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.consumers.outlet import Outlet
from engine.fate.refusals import Refusals
from engine.sources.composite import Destination, Source, Target
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.store_listener import StoreEvents
from engine.transaction import Transaction
from engine.values import gates
from engine.values.delivery import Delivery
from engine.values.message import Message
from engine.values.options import SubscribeOptions
from engine.values.refusal import Refusal
from engine.values.wildcard import Wildcard


@mypyc_attr(allow_interpreted_subclasses=True)
class Door:
    """A method for each thing that a session does; parts that a session only reads are attributes, taken once.

    What concerns a consumer alone (credit, start, what an answer covers) is the consumer's own.
    """

    __slots__ = (
        "context",
        "store",
        "destinations",
        "naming",
        "connections",
        "subscribing",
        "subscriptions",
        "composite_send",
        "acceptance",
        "flow",
        "settlements",
        "dispatcher",
        "settling",
        "refusals",
        "commits",
        "holdings",
        "store_events",
        "access",
        "advisories",
        "scheduler",
    )

    def __init__(
        self,
        ground: GroundParts,
        dispatch: DispatchParts,
        fates: FateParts,
        clients: ClientParts,
        features: FeatureParts,
    ) -> None:
        self.context = ground.context
        self.store = ground.context.store
        self.destinations = ground.destinations
        self.flow = ground.flow
        self.holdings = ground.holdings
        self.access = ground.access
        self.subscriptions = dispatch.subscriptions
        self.settlements = dispatch.settlements
        self.dispatcher = dispatch.dispatcher
        self.settling = dispatch.settling
        self.refusals = Refusals(fates.redelivery, ground.steps)
        self.acceptance = fates.acceptance
        self.naming = clients.naming
        self.connections = clients.connections
        self.subscribing = clients.subscribing
        self.advisories = features.advisories
        self.scheduler = features.scheduler
        self.composite_send = CompositeSend(
            ground.context,
            fates.acceptance,
            ground.flow,
            features.copies,
            features.questions,
            features.scheduler,
            ground.observers,
        )
        self.commits = Commits(
            ground.context,
            ground.destinations,
            ground.flow,
            fates.acceptance,
            dispatch.settlements,
            dispatch.settling,
            fates.redelivery,
            features.copies,
            features.questions,
            features.scheduler,
        )
        self.store_events = StoreEvents(
            ground.context,
            ground.destinations,
            dispatch.feeds,
            ground.flow,
            dispatch.settlements,
            dispatch.delays,
            dispatch.selective,
            fates.sweep,
            features.scheduler,
            features.management,
            ground.observers,
        )

    # -- connections

    def connect(self, client: Client) -> None:
        self.connections.connect(client)

    def introduce(self, client: Client, host: str, client_id: str, is_sole: bool) -> None:
        """Take a client whose peer has said who it is; ``client.user`` is set, and what ``describe`` says.

        client_id: JMS client id, "" for none.  is_sole: no other connection may have it at the same time.
        Raises: LimitReached, ClientIdInUse.
        """
        self.connections.introduce(client, host, client_id, is_sole)
        self.advisories.connected(client)

    def disconnect(self, client: Client, is_lost: bool) -> None:
        """Close all consumers of ``client``; its transactions must have been aborted before."""
        self.connections.disconnect(client, is_lost)

    def leave(self, consumers: list[Consumer]) -> None:
        """Close consumers of a client that stays, many of them in the turns to come; nothing more is handed to them."""
        self.subscribing.departures.leave(consumers)

    def output_drained(self, outlet: Outlet) -> None:
        """Let the consumers of a socket, or of a part of it, take their turns again: it takes octets again."""
        self.connections.output_drained(outlet)

    # -- what a client names

    def target(self, client: Client, kind: int, name: str) -> Target:
        """Return what ``client`` may send to.  Raises: AccessDenied, InvalidDestination, LimitReached."""
        return self.naming.target(client, kind, name)

    def source(self, client: Client, kind: int, name: str) -> Target | Wildcard:
        """Return what ``client`` may subscribe to.  Raises: AccessDenied, InvalidDestination, LimitReached."""
        return self.naming.source(client, kind, name)

    def open_temporary(self, client: Client, kind: int) -> Queue | Topic:
        """Make a destination that only ``client`` may receive from and that ends with it.  Raises: LimitReached."""
        return self.naming.open_temporary(client, kind)

    def close_temporary(self, destination: Queue | Topic) -> None:
        """End a temporary destination; what waits in it is dropped.  Raises: DestinationInUse if it has consumers."""
        self.subscribing.departures.close_temporary(destination)

    # -- sending

    def send(self, destination: Destination, message: Message) -> int:
        """Accept ``message``, or return the gate that refuses it; a refused one may be sent again after ``admit``.

        Raises: AddressFull where the address is full and its policy is to fail; InvalidDestination if it was sent to a
        temporary destination that is gone.
        """
        if destination.is_indirect is True:
            return self.composite_send.send(destination, message)
        if self.flow.is_blocked:
            return self.acceptance.send(destination, message)
        self.acceptance.accept(destination, message)
        return gates.OPEN

    def send_granted(self, destination: Target, message: Message) -> int:
        """Accept a message that its full address refuses, because its sender had been granted credit for it.

        Return the gate of the disk or the memory that refuses it all the same, gates.OPEN for none.
        """
        return self.acceptance.send_granted(destination, message)

    # -- receiving

    def subscribe(self, client: Client, source: Source, options: SubscribeOptions) -> Consumer:
        """Add a consumer; it takes its first turn once ``start`` has been called for it.

        Raises: AccessDenied, InvalidDestination, InvalidOption, InvalidSelector, LimitReached, SubscriptionInUse.
        """
        return self.subscribing.subscribe(client, source, options)

    def unsubscribe(self, consumer: Consumer, is_lost: bool) -> None:
        """Close a consumer; what it held goes back to its place, or is let go with its topic subscription."""
        self.subscribing.departures.close(consumer, is_lost)

    def delete_subscription(self, client: Client, client_id: str, name: str, is_durable: bool = True) -> None:
        """End a named subscription.  Raises: AccessDenied, UnknownSubscription, SubscriptionInUse."""
        self.subscribing.delete_subscription(client, client_id, name, is_durable)

    # -- settling

    def acknowledge(self, delivery: Delivery) -> None:
        """Settle one delivery as accepted; the offset that ``end_turn`` returns covers its record."""
        self.settlements.is_due = True
        self.dispatcher.acknowledge(delivery)

    def acknowledge_unconfirmed(self, delivery: Delivery) -> None:
        """Do the same for a client that waits for no confirmation: the record may be put off past this turn.

        Flush ``settlements`` before the client is sent anything that confirms it all the same.
        """
        self.dispatcher.acknowledge(delivery)

    def acknowledge_all(self, deliveries: list[Delivery]) -> None:
        """Settle several deliveries as accepted, as ``acknowledge`` does one."""
        self.settlements.is_due = True
        self.settling.acknowledge(deliveries)

    def refuse(self, delivery: Delivery, refusal: Refusal) -> None:
        """Settle one delivery as not accepted: NACK, released, rejected, modified."""
        self.refusals.take([delivery], refusal)

    def refuse_all(self, deliveries: list[Delivery], refusal: Refusal) -> None:
        """Settle several deliveries of one client as not accepted, all in the same way: of many, some a turn."""
        self.refusals.take(deliveries, refusal)

    # -- transactions

    def roll_back(self, deliveries: list[Delivery]) -> None:
        """Take back all that an aborted transaction had acknowledged, for a client that has forgotten it."""
        self.refusals.roll_back(deliveries)

    def send_in(self, transaction: Transaction, destination: Destination, message: Message) -> None:
        """Let ``transaction`` send at its COMMIT.

        Raises: TransactionError past its limits; InvalidDestination for a temporary destination that is gone.
        """
        self.commits.send_in(transaction, destination, message)

    def commit_refusal(self, transaction: Transaction) -> tuple[int, Queue | Topic | None]:
        """Return the gate that holds the COMMIT back, and the destination it is about.

        Raises: AddressFull, LimitReached: it can never be; the caller aborts the transaction then.
        """
        return self.commits.refusal(transaction)

    def commit(self, transaction: Transaction) -> None:
        """Apply a transaction: one batch in the log, closed by a commit record."""
        self.commits.apply(transaction)

    def abort(self, transaction: Transaction) -> None:
        """Drop the sends and undo the acknowledgements; the messages stay delivered and count no attempt."""
        self.commits.abort(transaction)
