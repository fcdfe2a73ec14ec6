"""The laws of a gateway's counts: between two turns, and once everything has been consumed."""

from __future__ import annotations

from typing import Final

from engine.backlog.memory_budget import MESSAGE_OVERHEAD_BYTES
from engine.consumers.turn_steps import TURN_STEPS
from engine.open_transaction import Transaction
from engine.sources.queue import Queue, queue_of
from engine.values import gates
from engine.values.delivery import GONE, IN_FLIGHT
from protocols.amqp.v1_0.endpoints.connection import AmqpConnection
from protocols.connection import ProtocolConnection
from protocols.openwire.session.openwire_session import OpenWireSession
from protocols.stomp.session.stomp_session import StompSession
from tests.support.engine.broker_view import BrokerView
from tests.support.hostile.hostile_config import HOSTILE
from tests.support.world.bodies import Violation

STEPS_MOST: Final = 2 * TURN_STEPS  # steps of one turn, including work that cannot be divided


def check_counts(gateway: BrokerView, browsed: set[int]) -> None:
    """Call it between two turns.  Raises: Violation.

    browsed: numbers of queues with a browser, or with messages that a closed one still holds; this adds to it.
    """
    _check_limits(gateway, browsed)
    if not gateway.is_anybody_leaving() and gateway.unsettled() != gateway.unsettled_in_ledgers():
        raise Violation(f"unsettled: counted {gateway.unsettled()}, held {gateway.unsettled_in_ledgers()}")
    if gateway.memory_used() < 0 or gateway.memory_paged() < 0:
        raise Violation(f"memory budget is at {gateway.memory_used()} and {gateway.memory_paged()} octets")
    if gateway.most_steps() > STEPS_MOST:
        raise Violation(f"a turn took {gateway.most_steps()} steps, allowed are {STEPS_MOST}")
    for queue in gateway.all_queues():
        in_flight, enlisted = queue.in_flight_count, queue.fates.enlisted_count
        if min(queue.depth, in_flight, enlisted) < 0 or in_flight + enlisted > queue.depth:
            raise Violation(f"{queue.uri()}: depth {queue.depth}, in flight {in_flight}, in transactions {enlisted}")
        _check_in_flight(queue)


def check_paged(gateway: BrokerView) -> None:
    """Call it when no work is left.  Raises: Violation unless messages of the log take the memory that is counted."""
    paged_bytes = sum(_paged_bytes(gateway, queue) for queue in gateway.all_queues())
    if gateway.memory_paged() != paged_bytes:
        raise Violation(f"messages of the log take {paged_bytes} octets, counted are {gateway.memory_paged()}")


def _paged_bytes(gateway: BrokerView, queue: Queue) -> int:
    """Return what messages of the log take in memory for one queue, wherever they are."""
    if not queue.is_logged:
        return 0
    found = [one for lane in queue.used_lanes for one in (*lane.ready, *lane.returned, *lane.ahead.by_offset.values())]
    found += [delivery for consumer in queue.consumers.values() for delivery in consumer.ledger.values()]
    found += gateway.delayed(queue)
    distinct = {
        (one.lane.priority, one.message.queue_offset): one.message
        for one in found
        if queue_of(one.lane) is queue and one.state != GONE and one.message.queue_offset >= 0
    }
    return sum(message.content_bytes() + MESSAGE_OVERHEAD_BYTES for message in distinct.values())


def _check_in_flight(queue: Queue) -> None:
    ledgers = {id(consumer.ledger): consumer.ledger for consumer in queue.consumers.values()}
    seen: set[tuple[int, int]] = set()
    for ledger in ledgers.values():
        for delivery in ledger.values():
            place = id(delivery.lane), delivery.position
            if delivery.state == IN_FLIGHT and place in seen:
                raise Violation(f"{queue.uri()}: message {delivery.message.queue_offset} is in flight twice")
            seen.add(place)


def check_holdings(gateway: BrokerView) -> None:
    """Call it between two turns.  Raises: Violation unless what connections hold is what they say."""
    clients = gateway.connections()
    for client in clients:
        if isinstance(client, ProtocolConnection) and client.outbox.is_touched:
            continue  # its output is held back, and it is counted when that leaves
        held = sum(int(part.rpartition(" ")[2]) for part in client.holding().split(", ") if part)
        if held != client.held_bytes:
            raise Violation(f"client {client.client_number} holds {client.holding()}, not {client.held_bytes}")
    of_connections_bytes = gateway.held_by_connections() - gateway.held_by_requests()
    if of_connections_bytes != sum(client.all_held_bytes() for client in gateway.holders()):
        raise Violation(f"holdings are {gateway.held_by_connections()} octets, not the sum of those of all clients")


def _check_limits(gateway: BrokerView, browsed: set[int]) -> None:
    open_now = {queue.source_id() for queue in gateway.all_queues() if queue.feed.is_browser}
    open_now |= {queue.source_id() for queue in _queues_in_transactions(gateway) if queue.feed.is_browser}
    browsed |= open_now
    for queue in gateway.queues():
        account = queue.account
        if account is None:
            continue
        if account.used_messages == queue.depth:
            if queue.destination_id not in open_now:
                browsed.discard(queue.destination_id)
            continue
        # A browser's messages count until they are answered or released, even after the queue has dropped them.
        if account.used_messages < queue.depth or queue.destination_id not in browsed:
            raise Violation(f"{queue.uri()} has {queue.depth} messages, counted are {account.used_messages}")
    accounts = gateway.address_accounts()
    if accounts.used_bytes != sum(account.used_bytes for account in accounts.by_id.values()):
        raise Violation("the octets of all addresses are not the sum of those of each")
    for waits in gateway.waits().values():
        for wait in waits:
            account = wait.destination.account
            if wait.gate == gates.ADDRESS_FULL and (account is None or account.has_room()):
                raise Violation(f"a producer waits at {wait.destination.uri()}, which has room")


def _queues_in_transactions(gateway: BrokerView) -> set[Queue]:
    """Return the queues whose deliveries are enlisted in open transactions, also those of closed browsers."""
    transactions: list[Transaction] = [branch.transaction for branch in gateway.branches.prepared()]
    for client in gateway.connections():
        if isinstance(client, StompSession):
            transactions += [*client.transactions.open.values(), *client.transactions.committing.values()]
        elif isinstance(client, AmqpConnection):
            of_links = client.producers.transactions
            transactions += [one.transaction for one in of_links.open.values()]
            transactions += [waiting.one.transaction for waiting in of_links.waiting]
        elif isinstance(client, OpenWireSession):
            of_session = client.transactions
            transactions += [one.transaction for one in of_session.open.values()]
            transactions += [*of_session.committing, *(one.transaction for one in gateway.branches.active_of(client))]
    enlisted = [
        delivery for one in transactions for delivery in (*one.accepted, *(refused[0] for refused in one.refused))
    ]
    return {queue_of(delivery.lane) for delivery in enlisted}


def check_nothing_left(gateway: BrokerView, others: dict[str, object]) -> None:
    """Call it when everything has been consumed and all clients have gone.  others: what must be empty besides.

    Raises: Violation.
    """
    gateway.see_durable()
    left: dict[str, object] = {}
    for queue in gateway.all_queues():
        fates = queue.fates
        held = queue.in_flight_count, fates.delayed_count, fates.refused_count, fates.enlisted_count
        counts = queue.depth, queue.consumer_count(), *held
        if any(counts):
            left[queue.uri()] = counts
    accounts = gateway.address_accounts()
    spiller = gateway.broker.spiller
    assert spiller is not None
    left |= {
        "octets in memory": gateway.memory_used(),
        "octets of the log in memory": gateway.memory_paged(),
        "octets of addresses": accounts.used_bytes,
        "messages of addresses": accounts.used_messages,
        "full addresses": len(accounts.full),
        "octets of connections": gateway.held_by_connections(),
        "connections": len(gateway.connections()),
        "waiting producers": len(gateway.waits()),
        "deadlines of producers": gateway.deadline_count(),
        "awaiting a confirmation": len(gateway.awaiting()),
        "delayed": gateway.delayed_count(),
        "reloading": gateway.reloading_count(),
        "unsettled of users": gateway.unsettled_used(),
        "schedules": len(gateway.schedule),
        "chores": gateway.chores(),
        "replays": gateway.replay_count(),
        "browsers": gateway.browsers(),
        "temporary destinations": gateway.temporary_count(),
        "rated": gateway.rated_count(),
        "joins": gateway.join_count(),
        "seekers of places": gateway.place_seekers(),
        "named subscriptions": list(gateway.subscriptions()),
        "subscriptions of topics": sum(len(topic.subscriptions) for topic in gateway.topics()),
        "feeds": [feed.uri() for feed in gateway.feeds()],
        "watches": gateway.watches(),
        "questions": gateway.question_count(),
        "spilled octets": spiller.blocks.spilled_bytes + spiller.blocks.gathered_bytes,
    }
    user = f"user {HOSTILE[0]!r}"
    left |= {
        "durable subscriptions of a user": gateway.subscriptions_of(user),
        "schedules of a user": gateway.scheduled_by(user),
    }
    left |= others
    left = {what: found for what, found in left.items() if found}
    if left:
        raise Violation(f"everything has come to its end, and yet: {left}")


def what_is_there(gateway: BrokerView) -> set[str]:
    """Return in words what clients have made, so that a test can show that the seeds are not idle."""
    queues = gateway.queues()
    spiller = gateway.broker.spiller
    found: dict[str, object] = {
        "waiting producers": gateway.waits(),
        "full addresses": gateway.address_accounts().full,
        "short memory": gateway.is_memory_short(),
        "delayed": gateway.delayed_count(),
        "schedules": len(gateway.schedule),
        "replays": gateway.replay_count(),
        "browsers": gateway.browsers(),
        "temporary destinations": gateway.temporary_count(),
        "named subscriptions": gateway.subscriptions(),
        "in flight": any(queue.in_flight_count for queue in queues),
        "on disk alone": any(queue.has_backlog() for queue in queues),
        "selections": any(queue.selection is not None for queue in queues),
        "groups": any(queue.group_owners() for queue in queues),
        "siblings": any(queue.extras.has_siblings for queue in queues),
        "dead letters": gateway.depth("ActiveMQ.DLQ"),
        "temporary files": spiller is not None and spiller.blocks.spilled_bytes,
    }
    return {what for what, is_there in found.items() if is_there}
