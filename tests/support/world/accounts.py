"""Compares the engine's counts with the facts: after every turn, and once everything is settled and closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.consumers.consumer import Consumer
from engine.consumers.unsettled_memory import MOST_PERCENT
from engine.values import gates
from protocols.session.states import LEAVING
from protocols.stomp.session.stomp_session import StompSession
from tests.support.world.bodies import Violation

INSPECTED_TURNS: Final = 10  # every so many turns an operator looks at everything
OVERHEAD_BYTES: Final = 10_000  # more than the octets of a message besides its body

if TYPE_CHECKING:
    from tests.support.world.world import World


class Accounts:
    """The counts of one life of the gateway."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._durable_seen = 0
        self._turn_count = 0

    def check_turn(self) -> None:
        store = self.world.store
        durable = store.durable_offset()
        if not self._durable_seen <= durable <= store.written_offset() <= store.append_offset():
            raise Violation(
                f"offsets: durable {self._durable_seen} then {durable}, written {store.written_offset()}, "
                f"appended {store.append_offset()}"
            )
        self._durable_seen = durable
        self._check_limits()
        self._check_holdings()
        self._check_unsettled()
        self._check_named()
        if self.world.memory_used() < 0:
            raise Violation(f"memory budget is at {self.world.memory_used()} octets")
        pairs = [(queue, self.world.oracle.queues.get(queue.name)) for queue in self.world.queues()]
        pairs += [(queue, self.world.oracle.durables[name]) for name, queue in self.world.durable_queues()]
        under_way = self.world.returning()
        moving = sum(under_way.values())
        late = sum(len(topic.late or ()) for topic in self.world.topics())  # published in later turns
        for queue, view in pairs:
            self.world.paged_count += queue.has_backlog()
            if view is None or view.is_loose:
                continue
            name = view.name
            depth = len(view.places)
            messages = self.world.oracle.messages
            # Messages that its client has refused or left are returned or moved in later turns.
            returning = under_way.get(queue, 0)
            most = depth + returning + (10_000 if name == "Expired" else 0)
            least = depth - (moving - returning) - late
            if queue.depth < least:
                least -= sum(1 for uid in view.places if messages[uid].name == name and messages[uid].expires_ms)
            if not least <= queue.depth <= most:
                raise Violation(f"depth of {view.uri()} is {queue.depth}, there are {depth} messages on it")
            in_flight = sum(1 for place in view.places.values() if place.holder is not None and not place.is_held)
            if queue.in_flight_count != in_flight + returning:
                raise Violation(
                    f"{view.uri()} counts {queue.in_flight_count} in flight, there are {in_flight}, "
                    f"and {returning} that are given back in turns to come"
                )

    def _check_holdings(self) -> None:
        """Check that each client's holding was counted, although only clients with possible changes are asked."""
        holdings = self.world.broker.holdings
        clients = self.world.connections()
        for client in clients:
            held = sum(int(part.rpartition(" ")[2]) for part in client.holding().split(", ") if part)
            if held != client.held_bytes:
                raise Violation(f"client {client.client_number} holds {client.holding()}, not {client.held_bytes}")
        if holdings.used_bytes != sum(client.all_held_bytes() for client in clients):
            raise Violation(f"holdings are {holdings.used_bytes} octets, not the sum of those of all clients")

    def _check_named(self) -> None:
        """Check that messages that an ACK of a STOMP client may name are with its consumers."""
        for client in self.world.connections():
            if not isinstance(client, StompSession) or client.state >= LEAVING:
                continue
            tables = [client.by_ack, *(one.unsettled for one in client.unsettled.subscriptions.values())]
            for delivery in [delivery for table in tables for delivery in table.values()]:
                consumer = delivery.consumer
                if not isinstance(consumer, Consumer) or consumer.client is not client:
                    raise Violation(
                        f"client {client.client_number} may name {delivery.key!r}, which is with {consumer}"
                    )

    def _check_unsettled(self) -> None:
        """Check that each user's count is the sum of its consumers' holdings, and not much more than its share."""
        counted = self.world.unsettled()
        self._turn_count += 1
        if self._turn_count % INSPECTED_TURNS == 0:
            told = self.world.broker.inspect().unsettled.largest
            if told != counted:
                raise Violation(f"unsettled: operators are told {told}, counted {counted}")
        if not self.world.is_anybody_leaving() and counted != self.world.unsettled_in_ledgers():
            raise Violation(f"unsettled: counted {counted}, held {self.world.unsettled_in_ledgers()}")
        limit_bytes = self.world.unsettled_limit()
        one_more_bytes = max(self.world.profile.sizes) + OVERHEAD_BYTES
        for holder, used_bytes in self.world.unsettled_used().items():
            if used_bytes < counted.get(holder, 0):
                raise Violation(f"{holder} has used {used_bytes} octets and holds {counted[holder]}")
            if limit_bytes >= 0 and used_bytes > limit_bytes * MOST_PERCENT // 100 + one_more_bytes:
                raise Violation(f"{holder} holds {used_bytes} octets unsettled, allowed are {limit_bytes}")

    def _check_limits(self) -> None:
        """Check that addresses hold the waiting and in-flight messages, and nobody waits at one that has room."""
        for queue in self.world.queues():
            account = queue.account
            if account is not None and account.used_messages != queue.depth:
                raise Violation(f"{queue.uri()} has {queue.depth} messages, counted are {account.used_messages}")
        accounts = self.world.address_accounts()
        total = sum(account.used_bytes for account in accounts.by_id.values())
        if accounts.used_bytes != total:
            raise Violation(f"all addresses hold {total} octets, counted are {accounts.used_bytes}")
        for waits in self.world.waits().values():
            for wait in waits:
                account = wait.destination.account
                if wait.gate == gates.ADDRESS_FULL and (account is None or account.has_room()):
                    raise Violation(f"a producer waits at {wait.destination.uri()}, which has room")

    def check_empty(self) -> None:
        broker = self.world.broker
        for topic in self.world.topics():
            if topic.account is not None:
                topic.account.see_durable(self.world.store)  # the engine does so itself where it matters
        wrong: list[str] = []
        for queue in self.world.queues():
            counts = (
                queue.depth,
                queue.in_flight_count,
                queue.fates.delayed_count,
                len(queue.consumers),
                len(queue.rotation),
            )
            if any(counts):
                wrong.append(f"{queue.name}: depth, in flight, delayed, consumers, rotation {counts}")
            for lane in queue.used_lanes:
                held = (len(lane.ready), len(lane.returned), len(lane.volatile), lane.ready_bytes, len(lane.attempts))
                ahead = (len(lane.ahead.by_offset), lane.ahead.ready_bytes, len(lane.stale), len(lane.settled))
                if any(held + ahead) or lane.next_load != lane.tail:
                    wrong.append(
                        f"{queue.name} lane {lane.priority}: {held}, {ahead}, {lane.next_load} of {lane.tail} loaded"
                    )
        for what, count in (
            ("octets of memory", self.world.memory_used()),
            ("connections", len(broker.clients)),
            ("users with anything unsettled", len(self.world.unsettled_used())),
            ("replays", self.world.replay_count()),
            ("parked connections", len(self.world.waits())),
            ("awaiting connections", len(self.world.awaiting())),
            ("delayed deliveries", self.world.delayed_count()),
            ("octets that addresses hold", self.world.address_accounts().used_bytes),
            ("messages that addresses hold", self.world.address_accounts().used_messages),
            ("addresses that are full", len(self.world.address_accounts().full)),
            ("topic subscriptions", sum(len(topic.subscriptions) for topic in self.world.topics())),
        ):
            if count:
                wrong.append(f"{count} {what}")
        if wrong:
            raise Violation(f"everything is settled and closed, and yet: {wrong}")
