"""Questions of tests to a broker, and changes without a client: only this file knows the broker's parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import cast

from engine.backlog.address_account import Accounts
from engine.backlog.lane_shares import LaneShares
from engine.backlog.memory_budget import MESSAGE_OVERHEAD_BYTES, MemoryBudget
from engine.broker import Broker
from engine.consumers.client import Client
from engine.consumers.consumer import consumer_of
from engine.consumers.departures import Departure
from engine.consumers.turn_steps import NOBODY, Chore, Steps
from engine.consumers.unsettled_memory import UNIT_BYTES
from engine.dispatch.dispatcher import Dispatcher
from engine.fate.refusals import Refusing
from engine.features.pause import Pauses
from engine.features.purge import Purge, Upkeep
from engine.limits.connection_memory import Holdings
from engine.limits.gate_words import reasons
from engine.limits.parked_producers import Wait
from engine.limits.pending_memory import PendingMemory
from engine.limits.producer_gates import ProducerGates
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.sources.topics.named_subscription import NamedSubscription
from engine.sources.topics.topic import Topic
from engine.store_listener import StoreEvents
from engine.turn import Turn
from engine.values.delivery import IN_FLIGHT, Delivery
from engine.values.message import Message
from engine.values.wildcard import Wildcard
from tests.support.engine.feature_view import FeatureView
from tests.support.fakes import FakeClient


def covered_by(delivery: Delivery) -> list[Delivery]:
    """Return the deliveries that an answer to ``delivery`` covers, by its consumer's mode."""
    return consumer_of(delivery).covered(delivery)


class BrokerView(FeatureView):
    """A view of a broker.  Worlds and gateways of tests are views; for any other broker a test makes one."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    @property
    def _destinations(self) -> Destinations:
        return self.broker.destinations

    @property
    def _producer_gates(self) -> ProducerGates:
        return self.broker.producer_gates

    @property
    def _memory(self) -> MemoryBudget:
        return self.broker.memory

    @property
    def _holdings(self) -> Holdings:
        return self.broker.holdings

    @property
    def _upkeep(self) -> Upkeep:
        return self.broker.upkeep

    @property
    def _pauses(self) -> Pauses:
        return self.broker.pauses

    @property
    def _steps(self) -> Steps:
        return self.broker.steps

    @property
    def _broker_turn(self) -> Turn:
        return self.broker.turn

    @property
    def _store_events(self) -> StoreEvents:
        return self.broker.store_events

    # -- destinations

    def queue(self, name: str = "q") -> Queue:
        """Return a queue; it is made at its first mention."""
        return self._destinations.queue(name)

    def topic(self, name: str = "t") -> Topic:
        """Return a topic; it is made at its first mention."""
        return self._destinations.topic(name)

    def own_queue(self, name: str) -> Queue:
        """Return a queue that the broker makes for itself."""
        return self._destinations.own_queue(name)

    def lasting_queue(self, name: str) -> Queue:
        """Return a queue that the configuration lists."""
        return self._destinations.own_queue(name, is_lasting=True)

    def target(self, kind: int, name: str) -> Queue | Topic:
        return self._destinations.target(kind, name)

    def source(self, kind: int, name: str) -> Queue | Topic | Wildcard:
        return self._destinations.source(kind, name)

    def temporary(self, kind: int, name: str) -> Queue | Topic:
        return self._destinations.temporary(kind, name)

    def has_queue(self, name: str = "q") -> bool:
        return name in self._destinations.queues

    def queue_there(self, name: str = "q") -> Queue:
        """Return a queue that has been made before."""
        return self._destinations.queues[name]

    def queue_names(self) -> list[str]:
        """Return the names of all queues but temporary ones, in the order in which they were made."""
        return list(self._destinations.queues)

    def queues(self) -> list[Queue]:
        return list(self._destinations.queues.values())

    def all_queues(self) -> list[Queue]:
        """Return all queues, also temporary ones and those of topics' consumers, browsers and replays."""
        return self._destinations.all_queues()

    def depth(self, name: str = "q") -> int:
        """Return how many messages a queue has, in flight or not; 0 if there is no such queue."""
        queue = self._destinations.queues.get(name)
        return 0 if queue is None else queue.depth

    def total_depth(self) -> int:
        """Return how many messages there are, on queues and on subscriptions."""
        return sum(queue.depth for queue in self.all_queues())

    def topic_names(self) -> list[str]:
        return list(self._destinations.topics)

    def topics(self) -> list[Topic]:
        return list(self._destinations.topics.values())

    def topic_there(self, name: str = "t") -> Topic:
        """Return a topic that has been made before."""
        return self._destinations.topics[name]

    def temporary_names(self) -> list[str]:
        """Return the names of all temporary destinations."""
        return list(self._destinations.temporaries)

    def temporary_count(self) -> int:
        """Return how many temporary destinations all clients have."""
        return sum(len(owned) for owned in self._destinations.owned.values())

    def temporaries_of(self, client: Client) -> list[Queue | Topic]:
        return list(self._destinations.owned.get(client.client_number, ()))

    def feeds(self) -> list[Queue]:
        """Return the queues of topics' consumers, browsers and replays."""
        return list(self._destinations.readers.queues.values())

    def destination(self, number: int) -> Queue | Topic | None:
        return self._destinations.by_id.get(number)

    def has_destinations(self) -> bool:
        return bool(self._destinations.by_id)

    def uri_of(self, number: int) -> str:
        return self._destinations.uri_of(number)

    def has_readers(self) -> bool:
        """Say whether browsers and replays keep any destination from its end."""
        return bool(self._upkeep.read or self._destinations.readers.by_source)

    def shares(self) -> LaneShares:
        """Return how all lanes share the memory for messages of the log."""
        return self._destinations.shares

    def delete(self, destination: Queue | Topic, *, is_forced: bool = False) -> None:
        """Delete a destination.  Raises: DestinationInUse while somebody uses it, unless it is forced."""
        self._upkeep.delete(destination, is_forced)

    def remove(self, destination: Queue | Topic) -> None:
        """Remove a destination, even one in use or with scheduled messages."""
        self._destinations.remove(destination)

    def let_go(self, queue: Queue) -> None:
        """Make a queue drop its waiting messages, as an ending one does."""
        self._upkeep.ends.discard(queue)

    def accept(self, destination: Queue | Topic, message: Message) -> None:
        """Send a message that a gate has admitted before."""
        self.broker.acceptance.accept(destination, message)

    def purge(self, queue: Queue, selector: str = "") -> Purge:
        return self._upkeep.purge(queue, selector)

    def pause(self, name: str = "q") -> None:
        self._pauses.pause(self.queue(name), "user ann")

    def resume(self, name: str = "q") -> None:
        self._pauses.resume(self.queue(name))

    def allow_destinations(self, count: int) -> None:
        """Limit how many destinations there may be."""
        self._destinations.count_max = count

    def allow_temporaries(self, count: int) -> None:
        """Limit how many temporary destinations one client may have."""
        self._destinations.temporary_max = count

    # -- subscriptions

    def subscriptions(self) -> dict[tuple[str, str, bool], NamedSubscription]:
        """Return those that have a name, by client id, name and whether they are durable."""
        return self.broker.subscribing.subscriptions.named.by_key

    def delete_subscription(self, client_id: str, name: str) -> None:
        """Delete a durable subscription.  Raises: AccessDenied, UnknownSubscription, SubscriptionInUse."""
        self.broker.delete_subscription(FakeClient(), client_id, name)

    def find_subscription(self, client: Client, client_id: str, name: str) -> NamedSubscription | None:
        """Return a durable subscription.  Raises: AccessDenied if it is another user's."""
        return self.broker.subscribing.subscriptions.named.find(client, client_id, name)

    def join_count(self) -> int:
        """Return how many consumers of a wildcard have not joined all its topics."""
        return len(self.broker.subscribing.subscriptions.queues.joins)

    def place_seekers(self) -> int:
        """Return how many consumers wait for a place at a queue that has all it may have."""
        return len(self.broker.subscribing.places.waiting)

    # -- clients

    def hear(self, client_number: int) -> None:
        """Set the client whose inputs this turn has, 0 for the broker itself."""
        self.broker.context.sender = client_number

    def id_prefix(self) -> str:
        """Return the prefixes of the ids of this store's messages."""
        return self.broker.readers.id_prefix

    def connections(self) -> list[Client]:
        return list(self.broker.clients.values())

    def take_client_id(self, client: Client, client_id: str) -> None:
        """Make a client the only one of its id."""
        self.broker.client_ids.take(client, client_id, True)

    def let_send(self, client: Client) -> None:
        """Make a client the sender of the next messages."""
        self.broker.context.sender = client.client_number

    def hold_by(self, client: Client, held_bytes: int) -> None:
        """Make a connection hold this many octets."""
        self._holdings.count(client, held_bytes)

    def leave_unread(self, client: Client, unread_bytes: int) -> None:
        """Make a peer leave this many octets unread."""
        self._holdings.count_unread(client, unread_bytes)

    def held_by_connections(self) -> int:
        """Return the octets that all connections hold, as reported to the operator."""
        return self._holdings.stats(()).used_bytes

    def held_by_requests(self) -> int:
        """Return the part of it that HTTP requests hold."""
        return self._holdings.requests_bytes

    def holders(self) -> list[Client]:
        """Return all connections, also those that have left and whose sockets have unread output."""
        return list(self._holdings._holders(self.broker.clients.values()))

    def ended_for_memory(self) -> int:
        """Return how many connections were ended because all held too much."""
        return self._holdings.ended_count

    def scheduled_by(self, holder: str) -> int:
        """Return how many pending schedules are counted for a user."""
        return self._quotas.schedules.count(holder)

    def destinations_of(self, holder: str) -> int:
        """Return how many destinations are counted for a user."""
        return self._quotas.destinations.count(holder)

    def open_subscriptions_of(self, holder: str) -> int:
        """Return how many open subscriptions are counted for a user."""
        return self._quotas.subscriptions.count(holder)

    def await_confirmation(self, client: Client) -> None:
        self._store_events.await_confirmation(client)

    def awaiting(self) -> list[Client]:
        """Return the clients that wait for a confirmation."""
        return self._store_events.awaiting

    # -- memory

    def memory_used(self) -> int:
        """Return the octets that are in memory alone."""
        return self._memory.used_bytes

    def memory_paged(self) -> int:
        """Return the octets of the messages that are in memory and in the log."""
        return self._memory.paged_bytes

    def memory_held(self) -> int:
        """Return the octets of all messages in memory."""
        return self._memory.held_bytes()

    def unsettled(self) -> dict[str, int]:
        """Return the count of each user's unsettled deliveries, as reported to the operator."""
        return self._producer_gates.unsettled.largest()

    def unsettled_used(self) -> dict[str, int]:
        """Return the used part of each user's share, including units that windows have paid ahead."""
        return {holder: user.used_bytes for holder, user in self._producer_gates.unsettled.by_holder.items()}

    def unsettled_in_ledgers(self) -> dict[str, int]:
        """Return the sum for these deliveries, computed one by one; no consumer may be leaving.

        Deliveries that transactions hold for consumers that have gone are in no ledger: for them it is the count.
        """
        consumers = [consumer for client in self.connections() for consumer in client.consumers.values()]
        ledgers = {id(consumer.ledger): consumer for consumer in consumers}  # siblings share one
        found: dict[str, int] = {}
        for holder, user in self._producer_gates.unsettled.by_holder.items():
            for memory in user.windows:
                if memory.consumer_count == 0:
                    found[holder] = found.get(holder, 0) + memory.enlisted_bytes
        for consumer in ledgers.values():
            holder = consumer.client.holder
            for delivery in consumer.ledger.values() if holder else ():
                size_bytes = max(delivery.message.size + MESSAGE_OVERHEAD_BYTES, UNIT_BYTES)
                found[holder] = found.get(holder, 0) + size_bytes
        return found

    def held_tags(self) -> set[int]:
        """Return the tags of what consumers hold, without browsers, purges and retries."""
        return {
            tag
            for client in self.connections()
            for consumer in client.consumers.values()
            if consumer.is_ruled and not consumer.queue.feed.is_browser
            for tag in consumer.ledger
        }

    def unsettled_limit(self) -> int:
        """Return each user's share, -1 for no limit."""
        return self._producer_gates.unsettled.limit_bytes

    def is_anybody_leaving(self) -> bool:
        return any(isinstance(chore, Departure) for chore in self.chores())

    def returning(self) -> dict[Queue, int]:
        """Return the number of messages of each queue that are still with refusing clients or leaving consumers."""
        leaving = [consumer for queue in self.all_queues() for consumer in queue.consumers.values()]
        ledgers = {id(consumer.ledger): consumer.ledger for consumer in leaving if consumer.departing() is not None}
        left = [one for ledger in ledgers.values() for one in ledger.values() if one.state == IN_FLIGHT]
        return Counter(consumer_of(one).queue for one in [*self._refused(), *left])

    def refused(self) -> dict[Queue, int]:
        """Return the number of messages of each queue that were refused and are not back yet."""
        refused = self._refused()
        return Counter(consumer_of(one).queue for one in refused) if refused else {}

    def _refused(self) -> list[Delivery]:
        refusing = [chore for chore in self.chores() if isinstance(chore, Refusing)]
        found: list[Delivery] = []
        for one in refusing:
            for place, (deliveries, _) in enumerate(one.jobs):  # somebody else may have refused what is done again
                found += deliveries if place else deliveries[one._place :]
        return found

    def is_memory_short(self) -> bool:
        """Say whether backlogs are read only on demand, or not at all."""
        return self._memory.is_short() or self._memory.is_choked()

    def memory_limit(self) -> int:
        return self._memory.limit_bytes

    @property
    def pending_memory(self) -> PendingMemory:
        return self._producer_gates.pending_memory

    def memory_unwritten(self) -> int:
        """Return the octets that a failing store keeps in memory."""
        return self._memory.unwritten_bytes

    # -- producers that wait

    def park(self, client: Client, gate: int, destination: Queue | Topic) -> None:
        """Have a client wait until ``gate`` opens at ``destination``."""
        self._producer_gates.waits.park(client, gate, destination)

    def waits(self) -> dict[int, list[Wait]]:
        """Return what each parked client waits for, by its number."""
        return {number: list(waits.values()) for number, waits in self._producer_gates.waits.parked.items()}

    def waits_of(self, client: Client) -> list[Wait]:
        return list(self._producer_gates.waits.parked.get(client.client_number, {}).values())

    def forget_waits(self) -> None:
        """End all waits."""
        self._producer_gates.waits.parked.clear()

    def deadline_count(self) -> int:
        """Return how many producers wait with a time limit."""
        return len(self._producer_gates.waits.deadlines)

    def refusal(self, destination: Queue | Topic, message: Message) -> int:
        """Return the gate that holds a message back, gates.OPEN for none."""
        return self._producer_gates.refusal(destination, message)

    def reasons(self, client: Client) -> list[str]:
        """Return why a client waits, as reported to the operator."""
        return reasons(self._producer_gates, client.client_number)

    def is_blocked(self) -> bool:
        """Say whether any gate may be shut."""
        return self._producer_gates.is_blocked

    def disk_reason(self) -> str:
        """Return why the disk's gate is shut, "" while it is open."""
        return self._producer_gates.disk_reason

    def disk_warning(self) -> str:
        return self._producer_gates.disk_warning

    def shut_disk(self, reason: str) -> None:
        """Shut the disk's gate for a reason, or open it for ""."""
        self._producer_gates.disk_reason = reason
        self._producer_gates.block()

    def is_memory_shut(self) -> bool:
        return self._producer_gates.is_memory_shut

    def shut_memory(self, *, is_shut: bool) -> None:
        self._producer_gates.is_memory_shut = is_shut

    def look_at_gates(self) -> None:
        """Make the next turn check all gates."""
        self._producer_gates.block()

    def open_gates(self) -> None:
        """Admit the clients that wait at a gate that has opened."""
        self._producer_gates.open_gates()

    def has_limits(self) -> bool:
        """Say whether the accounts count anything."""
        return self._memory.accounts is not None

    def address_accounts(self) -> Accounts:
        """Return the holdings of addresses with limits."""
        return self._producer_gates.accounts

    def see_durable(self) -> None:
        """Update the accounts of topics with the durable offset; they do so themselves where it matters."""
        for topic in self.topics():
            if topic.account is not None:
                topic.account.see_durable(self.broker.store)

    # -- the store's answers

    def report_durable(self, offset: int) -> None:
        """Make the store report that everything up to ``offset`` is durable."""
        self._store_events.durable(offset)

    def fault(self) -> str:
        """Return the unreadable places of the store, as reported to the operator."""
        return self._store_events.fault()

    def page_fault(self) -> str:
        return self._store_events.page_fault()

    def fail_store(self, reason: str) -> None:
        self._store_events.store_failed(reason)

    def heal_store(self) -> None:
        self._store_events.store_healed()

    def store_failure(self) -> str:
        return self._store_events.failure

    def skipped_records(self) -> list[str]:
        return self._store_events.skipped_records

    def is_written(self, message: Message) -> bool:
        """Say whether the dispatcher may hand over a message of the log: the disk has taken it."""
        return message.log_offset < self.broker.dispatcher.written_offset

    def is_settling(self) -> bool:
        """Say whether settlements without a waiting client are deferred."""
        return bool(self.broker.dispatcher.settling)

    # -- the work of a turn

    def dispatch_selectively(self, queue: Queue) -> None:
        self._broker_turn.selective.run(queue)

    def replace_dispatcher(self, replacement: Callable[[Dispatcher], object]) -> None:
        """Let turns dispatch by what ``replacement`` makes of the broker's dispatcher."""
        self._broker_turn.dispatcher = cast(Dispatcher, replacement(self._broker_turn.dispatcher))

    def is_more_to_come(self) -> bool:
        """Say whether work continues in the next turn."""
        return self._steps.is_armed

    def is_agenda_forgotten(self) -> bool:
        """Say whether a part has work for the end of a turn that is missing on the agenda."""
        turn = self._broker_turn
        return turn.has_agenda() and not turn.agenda.is_open

    def leave_steps(self, count: int) -> None:
        """Leave ``count`` steps to this turn and its end, as if others had used the rest."""
        steps = self._steps
        steps.left = count
        steps.reserved = min(count, steps.reserved)

    def most_steps(self) -> int:
        """Return the largest number of steps of one turn since the start or the last reset."""
        return self._steps.most

    def count_steps_anew(self) -> None:
        self._steps.most = 0

    def begin_chore(self, chore: Chore, client: int = NOBODY) -> None:
        self._steps.begin(chore, client)

    def chores(self) -> list[Chore]:
        """Return the chores."""
        return list(self._steps.chores)
