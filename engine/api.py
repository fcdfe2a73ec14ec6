"""The interface of the engine for protocol sessions: requests of their peers enter here as method calls.

A turn is everything between two ends of turns: input is applied at once, dispatched at the end, and appended in one
batch.  A confirmation may be sent once ``confirmed_offset`` has passed the offset that ``Broker.end_turn`` returned.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from engine.assembly import ClientParts, DispatchParts, FateParts, FeatureParts, GroundParts
from engine.composite_send import CompositeSend
from engine.consumers.client import Client, Outlet
from engine.consumers.consumer import Consumer
from engine.fate.refusals import Refusals
from engine.open_transaction import Transaction
from engine.sources.composite import Destination, Source, Target
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.store_listener import StoreEvents
from engine.transaction_commit import Commits
from engine.values import gates
from engine.values.delivery import Delivery, Refusal
from engine.values.message import Message
from engine.values.options import SubscribeOptions
from engine.values.wildcard import Wildcard
from engine.xa.branches import Branches
from engine.xa.prepared_room import BranchLimits


@mypyc_attr(allow_interpreted_subclasses=True)
class EngineApi:
    """A method for each request of a session; parts that a session only reads are attributes.

    Matters of a single consumer (credit, start, deliveries covered by an answer) are methods of the consumer.
    """

    __slots__ = (
        "context",
        "steps",
        "store",
        "destinations",
        "naming",
        "connections",
        "subscribing",
        "composite_send",
        "acceptance",
        "producer_gates",
        "settlements",
        "dispatcher",
        "refusals",
        "commits",
        "branches",
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
        branch_limits: BranchLimits,
    ) -> None:
        self.context = ground.context
        self.steps = ground.steps
        self.store = ground.context.store
        self.destinations = ground.destinations
        self.producer_gates = ground.producer_gates
        self.holdings = ground.holdings
        self.access = ground.access
        self.settlements = dispatch.settlements
        self.dispatcher = dispatch.dispatcher
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
            ground.producer_gates,
            features.copies,
            features.questions,
            features.scheduler,
            features.duplicate_ids,
            ground.observers,
        )
        self.commits = Commits(
            ground.context,
            ground.producer_gates,
            fates.acceptance,
            dispatch.settlements,
            dispatch.dispatcher,
            fates.redelivery,
            features.copies,
            features.questions,
            features.scheduler,
            features.duplicate_ids,
        )
        self.branches = Branches(
            ground.context,
            ground.destinations,
            self.commits,
            dispatch.settlements,
            fates.redelivery,
            features.duplicate_ids,
            branch_limits,
        )
        self.store_events = StoreEvents(
            ground.context,
            ground.destinations,
            dispatch.feeds,
            ground.producer_gates,
            dispatch.settlements,
            dispatch.delays,
            dispatch.selective,
            fates.sweep,
            features.scheduler,
            features.management,
            self.branches.read_back,
            ground.observers,
        )

    # -- connections

    def connect(self, client: Client) -> None:
        self.connections.connect(client)

    def introduce(self, client: Client, host: str, client_id: str, is_sole: bool) -> None:
        """Register a client whose peer has identified itself; ``client.user`` and ``describe`` are set.

        client_id: JMS client id, "" for none.  is_sole: no other connection may have it at the same time.
        Raises: LimitReached, ClientIdInUse.
        """
        self.connections.introduce(client, host, client_id, is_sole)
        self.advisories.connected(client)

    def disconnect(self, client: Client, is_lost: bool) -> None:
        """Close all consumers of ``client``; its transactions must have been aborted before."""
        self.connections.disconnect(client, is_lost)

    def leave(self, consumers: list[Consumer]) -> None:
        """Close consumers of a client that stays, large numbers over several turns; they get nothing more."""
        self.subscribing.departures.leave(consumers)

    def output_drained(self, outlet: Outlet) -> None:
        """Let the consumers of a socket, or of a part of it, take turns again, as it accepts output again."""
        self.connections.output_drained(outlet)

    # -- names given by clients

    def target(self, client: Client, kind: int, name: str) -> Target:
        """Return a destination for ``client`` to send to.  Raises: AccessDenied, InvalidDestination, LimitReached."""
        return self.naming.target(client, kind, name)

    def source(self, client: Client, kind: int, name: str) -> Target | Wildcard:
        """Return a source for ``client`` to subscribe to.  Raises: AccessDenied, InvalidDestination, LimitReached."""
        return self.naming.source(client, kind, name)

    def open_temporary(self, client: Client, kind: int, name: str = "") -> Queue | Topic:
        """Make a destination that only ``client`` may receive from and that ends with it.

        name: chosen by the client; "" for one of ours.
        Raises: LimitReached; InvalidDestination if the name is taken or names no single destination.
        """
        return self.naming.open_temporary(client, kind, name)

    def close_temporary(self, destination: Queue | Topic) -> None:
        """End a temporary destination; what waits in it is dropped.  Raises: DestinationInUse if it has consumers."""
        self.subscribing.departures.close_temporary(destination)

    # -- sending

    def send(self, destination: Destination, message: Message) -> int:
        """Accept ``message``, or return the gate that refuses it; a refused message may be sent again after ``admit``.

        Raises: AddressFull if the address is full and its policy is to fail; InvalidDestination if a temporary
        destination is gone.
        """
        rates = self.producer_gates.user_rates
        if rates is not None and not rates.admit_sender():
            return gates.USER_RATE
        gate = gates.OPEN
        if destination.is_indirect is True:
            gate = self.composite_send.send(destination, message)
        elif self.producer_gates.is_blocked:
            gate = self.acceptance.send(destination, message)
        else:
            self.acceptance.accept(destination, message)
        if rates is not None and gate == gates.OPEN:
            rates.charge_sender(message)
        return gate

    def send_granted(self, client: Client, destination: Target, message: Message) -> int:
        """Accept a message despite its full address, because ``client`` had been granted credit for it.

        Return the gate of the disk, the memory or the user's rate that refuses it nevertheless, gates.OPEN for none.
        An accepted one counts for the client's rate.
        """
        rates = self.producer_gates.user_rates
        if rates is not None and not rates.admit_sender():
            return gates.USER_RATE
        gate = self.acceptance.send_granted(destination, message)
        if gate == gates.OPEN:
            self.producer_gates.waits.rate_refusal(client, destination)
            if rates is not None:
                rates.charge_sender(message)
        return gate

    # -- receiving

    def subscribe(self, client: Client, source: Source, options: SubscribeOptions) -> Consumer:
        """Add a consumer; it takes its first turn once ``start`` has been called for it.

        Raises: AccessDenied, InvalidDestination, InvalidOption, InvalidSelector, LimitReached, SubscriptionInUse.
        """
        return self.subscribing.subscribe(client, source, options)

    def unsubscribe(self, consumer: Consumer, is_lost: bool) -> None:
        """Close a consumer; what it held returns to its place, or is discarded with its topic subscription."""
        self.subscribing.departures.close(consumer, is_lost)

    def delete_subscription(self, client: Client, client_id: str, name: str, is_durable: bool = True) -> None:
        """End a named subscription.  Raises: AccessDenied, UnknownSubscription, SubscriptionInUse."""
        self.subscribing.delete_subscription(client, client_id, name, is_durable)

    # -- settling

    def acknowledge(self, delivery: Delivery) -> None:
        """Settle one delivery as accepted; the offset that ``end_turn`` returns covers its record."""
        self.settlements.turns_left = 1
        self.dispatcher.acknowledge(delivery)

    def acknowledge_unconfirmed(self, delivery: Delivery) -> None:
        """Do the same for a client that waits for no confirmation: the record may be written after this turn.

        Flush ``settlements`` before the client is sent anything that confirms it implicitly.
        """
        self.dispatcher.acknowledge(delivery)

    def acknowledge_all(self, deliveries: list[Delivery], is_confirmed: bool = True) -> None:
        """Settle several deliveries as accepted, like ``acknowledge`` or ``acknowledge_unconfirmed``."""
        if is_confirmed:
            self.settlements.turns_left = 1
        self.dispatcher.acknowledge_all(deliveries)

    def refuse(self, delivery: Delivery, refusal: Refusal) -> None:
        """Settle one delivery as not accepted: NACK, released, rejected, modified."""
        self.refusals.take([delivery], refusal)

    def refuse_all(self, deliveries: list[Delivery], refusal: Refusal) -> None:
        """Settle several deliveries of one client as not accepted, all in the same way; many take several turns."""
        self.refusals.take(deliveries, refusal)

    # -- transactions

    def roll_back(self, deliveries: list[Delivery]) -> None:
        """Take back what an aborted transaction had acknowledged, for a client that has forgotten those messages."""
        self.refusals.roll_back(deliveries)

    def send_in(self, transaction: Transaction, destination: Destination, message: Message) -> None:
        """Add a send that ``transaction`` makes at its COMMIT.

        Raises: TransactionError past its limits; InvalidDestination for a temporary destination that is gone.
        """
        self.commits.send_in(transaction, destination, message)

    def commit_refusal(
        self, transaction: Transaction, held: set[str] | None = None
    ) -> tuple[int, Queue | Topic | None]:
        """Return the gate that holds the COMMIT back, and the destination it is about; None for an admitted one.

        held: addresses for which earlier messages of its client wait.  Behind these it waits, too, at no gate of its
        own (gates.OPEN).
        An admitted transaction counts for its user's rate now, because it is committed or prepared next.
        Raises: AddressFull, LimitReached if it can never be applied; the caller then aborts the transaction.
        """
        refusal = self.commits.refusal(transaction)
        if held and refusal[0] == gates.OPEN:
            for sent_to, _ in transaction.sends:
                if sent_to.uri() in held:
                    return gates.OPEN, sent_to
        rates = self.producer_gates.user_rates
        if rates is None or refusal[0] != gates.OPEN:
            return refusal
        return rates.take(transaction)

    def commit(self, transaction: Transaction) -> None:
        """Apply a transaction: one batch in the log, closed by a commit record."""
        self.commits.apply(transaction)

    def abort(self, transaction: Transaction) -> None:
        """Drop the sends and undo the acknowledgements; the messages stay delivered and count no attempt."""
        self.commits.abort(transaction)
