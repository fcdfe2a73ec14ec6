"""The laws of a wire world's gateway: after every turn, and once everything has been consumed."""

from __future__ import annotations

from typing import Final

from engine.consumers.turn_steps import TURN_STEPS
from engine.sources.queue import Queue
from engine.values import gates
from engine.values.delivery import IN_FLIGHT
from tests.support.engine.idle_law import check_nobody_idles
from tests.support.hostile.hostile_config import HOSTILE
from tests.support.wire.wire_gateway import WireGateway
from tests.support.world.bodies import Violation

STEPS_MOST: Final = 2 * TURN_STEPS  # steps of one turn, including work that cannot be divided


def check_turn(gateway: WireGateway) -> None:
    """Call it when no work is left.  Raises: Violation."""
    check_nobody_idles(gateway.broker)
    _check_holdings(gateway)
    _check_limits(gateway)
    if not gateway.is_anybody_leaving() and gateway.unsettled() != gateway.unsettled_in_ledgers():
        raise Violation(f"unsettled: counted {gateway.unsettled()}, held {gateway.unsettled_in_ledgers()}")
    if gateway.memory_used() < 0 or gateway.memory_paged() < 0:
        raise Violation(f"memory budget is at {gateway.memory_used()} and {gateway.memory_paged()} octets")
    if gateway.most_steps() > STEPS_MOST:
        raise Violation(f"a turn took {gateway.most_steps()} steps, allowed are {STEPS_MOST}")
    for queue in gateway.all_queues():
        if queue.depth < 0 or queue.in_flight_count < 0 or queue.in_flight_count > queue.depth:
            raise Violation(f"{queue.uri()}: depth {queue.depth}, in flight {queue.in_flight_count}")
        _check_in_flight(queue)
    for peer in gateway.peers:
        if peer.link.conversion_faults:
            raise Violation(f"a conversion took its last resort: {peer.link.conversion_faults}")


def _check_in_flight(queue: Queue) -> None:
    ledgers = {id(consumer.ledger): consumer.ledger for consumer in queue.consumers.values()}
    seen: set[tuple[int, int]] = set()
    for ledger in ledgers.values():
        for delivery in ledger.values():
            place = id(delivery.lane), delivery.position
            if delivery.state == IN_FLIGHT and place in seen:
                raise Violation(f"{queue.uri()}: message {delivery.message.queue_offset} is in flight twice")
            seen.add(place)


def _check_holdings(gateway: WireGateway) -> None:
    clients = gateway.connections()
    for client in clients:
        held = sum(int(part.rpartition(" ")[2]) for part in client.holding().split(", ") if part)
        if held != client.held_bytes:
            raise Violation(f"client {client.client_number} holds {client.holding()}, not {client.held_bytes}")
    if gateway.held_by_connections() != sum(client.all_held_bytes() for client in clients):
        raise Violation(f"holdings are {gateway.held_by_connections()} octets, not the sum of those of all clients")


def _check_limits(gateway: WireGateway) -> None:
    open_now = {queue.source_id() for queue in gateway.all_queues() if queue.feed.is_browser}
    gateway.browsed |= open_now
    for queue in gateway.queues():
        account = queue.account
        if account is None:
            continue
        if account.used_messages == queue.depth:
            if queue.destination_id not in open_now:
                gateway.browsed.discard(queue.destination_id)
            continue
        # A browser's messages count until they are answered or released, even after the queue has dropped them.
        if account.used_messages < queue.depth or queue.destination_id not in gateway.browsed:
            raise Violation(f"{queue.uri()} has {queue.depth} messages, counted are {account.used_messages}")
    accounts = gateway.address_accounts()
    if accounts.used_bytes != sum(account.used_bytes for account in accounts.by_id.values()):
        raise Violation("the octets of all addresses are not the sum of those of each")
    for waits in gateway.waits().values():
        for wait in waits:
            account = wait.destination.account
            if wait.gate == gates.ADDRESS_FULL and (account is None or account.has_room()):
                raise Violation(f"a producer waits at {wait.destination.uri()}, which has room")


def check_empty(gateway: WireGateway) -> None:
    """Call it when everything has been consumed and all clients have gone.  Raises: Violation."""
    gateway.see_durable()
    left: dict[str, object] = {}
    for queue in gateway.all_queues():
        counts = queue.depth, queue.in_flight_count, queue.fates.delayed_count, queue.consumer_count()
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
        "spilled octets": spiller.spilled_bytes + spiller.gathered_bytes,
        "temporary files": gateway.files.paths(".spill"),
    }
    user = f"user {HOSTILE[0]!r}"
    left |= {
        "durable subscriptions of a user": gateway.subscriptions_of(user),
        "schedules of a user": gateway.scheduled_by(user),
        "timers but that of expiry": gateway.timers.pending() - 1,
    }
    left = {what: found for what, found in left.items() if found}
    if left:
        raise Violation(f"everything has come to its end, and yet: {left}")
