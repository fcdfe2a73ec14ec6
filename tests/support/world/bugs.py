"""Planted bugs: mistakes that the simulation must find, because otherwise it proves nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.broker import Broker
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.consumers.credit_window import CreditWindow
from engine.consumers.unsettled_memory import NOT_LIMITED
from engine.dispatch.message_selection import Selection
from engine.ports.store import Store
from engine.sources.composite import Source
from engine.values.delivery import Delivery
from engine.values.options import SubscribeOptions
from engine.values.stored import DestinationState, LaneState, Range
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.store.store_records import ignore_commits, records, sign
from tests.support.world.store import StoreWrapper
from tests.support.world.world import Bug


class SleepyBroker(Broker):
    """Consumers that wait for a window that several share are not woken once it opens."""

    __slots__ = ()

    def end_turn(self) -> int:
        self.subscribing.wakes.rooms.clear()
        return super().end_turn()


class HoardingBroker(Broker):
    """What a connection held counts on when it has gone."""

    __slots__ = ()

    def disconnect(self, client: Client, is_lost: bool) -> None:
        self.holdings.used_bytes += client.held_bytes
        super().disconnect(client, is_lost)


class ChoresForgotten(Broker):
    """What one turn does not finish, such as a departure or a publication for many readers, is forgotten."""

    __slots__ = ()

    def begin_turn(self) -> None:
        while self.steps.chores:
            self.steps.chores.take()
        super().begin_turn()


class ReceiptBeforeSync(Bug):
    """A confirmation is sent once its record is written, not once it survives a power cut."""

    class Wrapper(StoreWrapper):
        def confirmed_offset(self) -> int:
            return self.inner.written_offset()

    def store(self, store: Store) -> Store:
        return self.Wrapper(store)


class SettlementLost(Bug):
    """Some settlements are not logged."""

    class Wrapper(StoreWrapper):
        def __init__(self, inner: Store) -> None:
            super().__init__(inner)
            self.count = 0

        def settle(self, destination_id: int, consumer_id: int, outcome: int, cause: int, ranges: list[Range]) -> None:
            self.count += 1
            if self.count % 5:
                self.inner.settle(destination_id, consumer_id, outcome, cause, ranges)

    def store(self, store: Store) -> Store:
        return self.Wrapper(store)


class ReplayBeginsLate(Bug):
    """A replay begins one entry, one octet or one millisecond after its requested start."""

    class Wrapper(StoreWrapper):
        def seek(self, destination_id: int, what: int, value: int, reader: int) -> None:
            super().seek(destination_id, what, value + 1, reader)

    def store(self, store: Store) -> Store:
        return self.Wrapper(store)


class CountForgotten(Bug):
    """Recovery forgets the failed attempts of messages."""

    class Wrapper(StoreWrapper):
        def recovered(self) -> list[DestinationState]:
            return [
                DestinationState(
                    found.destination_id,
                    found.kind,
                    found.name,
                    [LaneState(lane.priority, lane.tail, lane.cursor, lane.settled, {}) for lane in found.lanes],
                    found.live_bytes,
                    found.topic_id,
                    found.description,
                )
                for found in self.inner.recovered()
            ]

    def store(self, store: Store) -> Store:
        return self.Wrapper(store)


class RefusalsConfirmedEarly(Bug):
    """Confirmations are sent while some refused deliveries of the client still wait for the next turns."""

    class HastyBroker(Broker):
        def begin_turn(self) -> None:
            for client in self.clients.values():
                client.is_refusing = client.client_number in self.refusals._under_way
            super().begin_turn()

        def end_turn(self) -> int:
            offset = super().end_turn()
            for client in self.clients.values():
                client.is_refusing = False
            return offset

    def broker_class(self) -> type[Broker]:
        return self.HastyBroker


class WindowOffByOne(Bug):
    """A consumer gets one message more than it asked for."""

    class WideBroker(Broker):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.widened: set[int] = set()

        def subscribe(self, client: Client, source: Source, options: SubscribeOptions) -> Consumer:
            consumer = super().subscribe(client, source, options)
            consumer.window.limit += 1
            return consumer

        def end_turn(self) -> int:
            for client in self.clients.values():
                for consumer in client.consumers.values():
                    window = consumer.window
                    if not isinstance(window, CreditWindow) or consumer.consumer_id in self.widened:
                        continue
                    if window.room():
                        self.widened.add(consumer.consumer_id)
                        consumer.grant(window.room() + 1)
            return super().end_turn()

    def broker_class(self) -> type[Broker]:
        return self.WideBroker


class SelectorIgnored(Bug):
    """A consumer gets every message, whatever its selector."""

    class DeafBroker(Broker):
        def subscribe(self, client: Client, source: Source, options: SubscribeOptions) -> Consumer:
            return super().subscribe(client, source, replace(options, selector=""))

    def broker_class(self) -> type[Broker]:
        return self.DeafBroker


class GroupsForgotten(Bug):
    """Each turn forgets the owners of groups."""

    class ForgetfulBroker(Broker):
        def end_turn(self) -> int:
            for queue in self.destinations.queues.values():
                if isinstance(queue.selection, Selection):
                    queue.selection.groups.by_key.clear()
            return super().end_turn()

    def broker_class(self) -> type[Broker]:
        return self.ForgetfulBroker


class OrderForgotten(Bug):
    """Messages that wait for their redelivery hold nothing back."""

    class HastyBroker(Broker):
        def end_turn(self) -> int:
            for queue in self.destinations.queues.values():
                if isinstance(queue.selection, Selection):
                    for group in queue.selection.groups.by_key.values():
                        group.delayed.clear()
            return super().end_turn()

    def broker_class(self) -> type[Broker]:
        return self.HastyBroker


class ExclusiveShared(Bug):
    """All consumers of an exclusive queue take turns."""

    class GenerousBroker(Broker):
        def end_turn(self) -> int:
            for queue in self.destinations.queues.values():
                if isinstance(queue.selection, Selection):
                    queue.selection.turns.active = None
            return super().end_turn()

    def broker_class(self) -> type[Broker]:
        return self.GenerousBroker


class CreditGivenTwice(Bug):
    """Acknowledged octets return to the consumer's window twice."""

    class LavishBroker(Broker):
        def acknowledge(self, delivery: Delivery) -> None:
            consumer = delivery.consumer
            if isinstance(consumer, Consumer) and consumer.window.limits.octets is not None:
                consumer.window.limits.octets.returned += delivery.message.size
            super().acknowledge(delivery)

    def broker_class(self) -> type[Broker]:
        return self.LavishBroker


class IdleForgotten(Bug):
    """A durable subscription misses the messages published while it has no consumer."""

    class InattentiveBroker(Broker):
        def end_turn(self) -> int:
            for queue in self.destinations.readers.queues.values():
                if queue.feed.subscriber is not None and not queue.consumers:
                    for lane in queue.used_lanes:
                        lane.next_load = lane.tail
            return super().end_turn()

    def broker_class(self) -> type[Broker]:
        return self.InattentiveBroker


class AccountingLeak(Bug):
    """Messages that a lost connection returns are counted for their address once more."""

    class LeakyBroker(Broker):
        def disconnect(self, client: Client, is_lost: bool) -> None:
            for consumer in client.consumers.values():
                account = consumer.queue.account
                if is_lost and account is not None:
                    for delivery in consumer.ledger.values():
                        account.enter(delivery.message.size)
            super().disconnect(client, is_lost)

    def broker_class(self) -> type[Broker]:
        return self.LeakyBroker


class ShareForgotten(Bug):
    """The holdings of a user's consumers are counted, but limit nothing."""

    class GenerousBroker(Broker):
        def subscribe(self, client: Client, source: Source, options: SubscribeOptions) -> Consumer:
            consumer = super().subscribe(client, source, options)
            for share in self.producer_gates.unsettled.by_holder.values():
                share.limit_bytes = NOT_LIMITED
            return consumer

    def broker_class(self) -> type[Broker]:
        return self.GenerousBroker


class EndsUntold(Bug):
    """A tracer hears of no message that consumers give back or fail with."""

    class QuietBroker(Broker):
        def end_turn(self) -> int:
            self.subscribing.redelivery.traces = None
            return super().end_turn()

    def broker_class(self) -> type[Broker]:
        return self.QuietBroker


class TimesLost(Bug):
    """The histograms miss messages that were acknowledged in the last turn before the time changes."""

    class HastyBroker(Broker):
        def begin_turn(self) -> None:
            times = self.turn.message_times
            if times is not None:
                times.acknowledged.count = 0
            super().begin_turn()

    def broker_class(self) -> type[Broker]:
        return self.HastyBroker


class NobodyAdmitted(Bug):
    """Producers that wait for room are not admitted once there is some."""

    class SilentBroker(Broker):
        def end_turn(self) -> int:
            full = self.producer_gates.accounts.full
            self.producer_gates.accounts.full = []
            offset = super().end_turn()
            self.producer_gates.accounts.full = full + self.producer_gates.accounts.full
            return offset

    def broker_class(self) -> type[Broker]:
        return self.SilentBroker


class CrcUnchecked(Bug):
    """Recovery accepts every record with a correct header, as if the checksum were never compared."""

    def disk_found(self, disk: FaultyFiles) -> None:
        for octets, position, size in records(disk):
            sign(octets, position, size)


class CommitIgnored(Bug):
    """Recovery accepts the records of a transaction without a commit record."""

    def disk_found(self, disk: FaultyFiles) -> None:
        ignore_commits(disk)
