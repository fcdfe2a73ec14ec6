"""Receives reports of the store: the durable offset, pages of a backlog, a disk that fails and heals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.backlog.context import Context
from engine.backlog.lane import Lane
from engine.consumers.client import Client
from engine.consumers.settlement_log import SettlementLog
from engine.consumers.turn_steps import END_STEPS
from engine.dispatch.delays import RELOAD_READER, Delays
from engine.dispatch.selective_dispatcher import SCAN_READER, SelectiveDispatcher
from engine.fate.expiry_sweep import EXPIRY_READER, Sweep
from engine.features.scheduler.management import BROWSE_READER, Management
from engine.features.scheduler.read_ahead import SCHEDULE_READER
from engine.features.scheduler.scheduler import Scheduler
from engine.limits.producer_gates import ProducerGates
from engine.ports.store import StoreListener
from engine.ports.timers import TimerTarget
from engine.sources.entry_readers import Feeds
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.values.delivery import Delivery, restored
from engine.values.message import Message
from engine.values.outcomes import CAUSE_DAMAGED, CAUSE_NONE, DROPPED
from engine.values.stored import Entry, LanePlace, Range
from engine.xa.read_back import BRANCH_READER, ReadBack

PAGE_RETRY_MS: Final = 1_000  # after a page that the disk refused, or that was empty


@dataclass(slots=True, eq=False)
class PageRetries(TimerTarget):
    """A timer's key is the queue whose page is requested again: its number, or the negative number of its feed."""

    destinations: Destinations
    events: StoreEvents

    def timer_fired(self, key: int) -> None:
        queue = self.destinations.queue_of(key, -key)
        if queue is None:
            return
        for lane in queue.used_lanes:
            lane.pages.awaits_retry = False
        if not queue.consumers:
            self.events.forget_faults(queue)  # nothing waits for it; a new consumer requests it again
        queue.mark_dirty()


class StoreEvents(StoreListener):
    """awaiting: clients with confirmations that wait for an offset.  failure: why the disk refuses, "" if it does not.

    faulty_lanes: lanes whose last page could not be read; each has the reason.
    skipped_records: in words, each logged once for the operator.
    """

    __slots__ = (
        "context",
        "destinations",
        "feeds",
        "producer_gates",
        "settlements",
        "delays",
        "selective",
        "sweep",
        "scheduler",
        "management",
        "read_back",
        "page_retries",
        "awaiting",
        "failure",
        "faulty_lanes",
        "skipped_records",
    )

    def __init__(
        self,
        context: Context,
        destinations: Destinations,
        feeds: Feeds,
        producer_gates: ProducerGates,
        settlements: SettlementLog,
        delays: Delays,
        selective: SelectiveDispatcher,
        sweep: Sweep,
        scheduler: Scheduler,
        management: Management,
        read_back: ReadBack,
        observers: list[Observer],
    ) -> None:
        self.context = context
        self.destinations = destinations
        self.feeds = feeds
        self.producer_gates = producer_gates
        self.settlements = settlements
        self.delays = delays
        self.selective = selective
        self.sweep = sweep
        self.scheduler = scheduler
        self.management = management
        self.read_back = read_back
        self.page_retries = PageRetries(destinations, self)
        observers.append(_QueueEnds(self))
        context.store.attach(self)
        self.awaiting: list[Client] = []
        self.failure = ""
        self.faulty_lanes: dict[Lane, None] = {}
        self.skipped_records: list[str] = []

    def await_confirmation(self, client: Client) -> None:
        """Have ``client.release_confirmations`` called as the confirmed offset moves."""
        if not client.is_awaiting:
            client.is_awaiting = True
            self.awaiting.append(client)

    def fault(self) -> str:
        """Return what is wrong with the disk, "" for nothing."""
        return self.failure or self.page_fault()

    def page_fault(self) -> str:
        """Return which page could not be read and why, "" for none."""
        for lane in self.faulty_lanes:
            if not lane.queue.is_closed:
                return f"{lane.queue.uri()}: {lane.pages.fault}"
        return self.scheduler.fault()

    def forget_faults(self, queue: Queue) -> None:
        """Report unreadable pages of a queue no longer."""
        for lane in queue.used_lanes:
            lane.pages.fault = ""
            self.faulty_lanes.pop(lane, None)

    def durable(self, offset: int) -> None:
        awaiting = self.awaiting
        self.awaiting = []
        for client in awaiting:
            if client.release_confirmations(offset):
                self.awaiting.append(client)
            else:
                client.is_awaiting = False

    def is_awaited(self, reader: int) -> bool:
        return reader <= 0 or reader in self.destinations.readers.queues

    def page_loaded(
        self, destination_id: int, priority: int, first: int, next_offset: int, messages: list[Message], reader: int = 0
    ) -> None:
        if reader == SCHEDULE_READER:
            self.scheduler.ahead.page_loaded(priority, first, next_offset, messages)
            return
        if reader == BROWSE_READER:
            self.management.page_loaded(priority, first, messages)
            return
        if reader == EXPIRY_READER:
            self.sweep.page_loaded(destination_id, priority, next_offset, messages)
            return
        if reader == BRANCH_READER:
            self.read_back.page_loaded(next_offset, messages)
            return
        queue = self.destinations.queue_of(destination_id, reader)
        if queue is None:
            return  # the reader has gone
        lane = queue.lane(priority)
        if self.faulty_lanes:
            lane.pages.fault = ""
            self.faulty_lanes.pop(lane, None)
        if reader == RELOAD_READER:
            self.delays.page_loaded(destination_id, priority, first, messages)
            return
        wanted = next_offset - first
        if queue.feed.page_loaded(priority, next_offset, messages):
            if wanted > 0:
                queue.mark_dirty()
            else:
                self._ask_again_later(queue)
            return
        if reader == SCAN_READER:
            self.selective.page_read(lane, first, next_offset, messages)
            if wanted <= 0:
                lane.pages.awaits_retry = True
                self._ask_again_later(queue)
            return
        lane.pages.is_loading = False
        if not queue.feed.is_own and queue.is_logged and len(messages) < wanted:
            self._settle_gone(queue, priority, first, next_offset, messages)
        if queue.feed.is_own:
            deliveries = lane.load(next_offset, messages)
        elif queue.feed.is_costly:
            deliveries = self._load_some(queue, lane, next_offset, messages)
        else:
            deliveries = [one for one in lane.load(next_offset, messages) if self._is_wanted(queue, lane, one)]
        self._note(queue, deliveries)
        self._append(lane, deliveries)
        if queue.extras.keeper is not None:
            queue.extras.keeper.deliveries_came(deliveries)
        if wanted > 0:
            queue.mark_dirty()
        else:
            lane.pages.awaits_retry = True
            self._ask_again_later(queue)

    def _load_some(self, queue: Queue, lane: Lane, next_offset: int, messages: list[Message]) -> list[Delivery]:
        """Load the wanted messages of a page while the turn has steps; the rest is read again.

        The first one may go beyond them: turns that have few steps left would else never come to it.
        """
        if not messages:
            return lane.load(next_offset, messages)
        steps = self.feeds.steps
        ends = [message.queue_offset for message in messages[1:]]
        wanted: list[Delivery] = []
        for place, (message, end) in enumerate(zip(messages, [*ends, next_offset], strict=True)):
            if steps.left <= (0 if place else -END_STEPS):
                break
            wanted += [one for one in lane.load(end, [message]) if self._is_wanted(queue, lane, one)]
        return wanted

    def _note(self, queue: Queue, deliveries: list[Delivery]) -> None:
        """Count a page in the memory budget, and note what its messages need of their queue."""
        size_bytes = 0
        for delivery in deliveries:
            message = delivery.message
            size_bytes += message.size
            if message.expires_ms:
                queue.has_expiring = True
            if message.group_hash and not queue.feed.is_browser:
                queue.extras.has_groups = queue.is_choosy = True
        if queue.is_logged:
            self.context.memory.load_page(len(deliveries), size_bytes)

    def _append(self, lane: Lane, deliveries: list[Delivery]) -> None:
        """Append a page to ``ready``, except deliveries that have failed before and are not due again."""
        if lane.attempts or lane.volatile:
            for delivery in deliveries:
                known = lane.attempts.pop(delivery.message.queue_offset, None)
                if known is not None:
                    delivery.history = restored(known, self.context.store.consumer_description(known.consumer_id))
                wait_ms = 0 if known is None else known.wait_ms(self.context.wall_ms)
                if wait_ms > 0:
                    self.delays.restore_wait(delivery, wait_ms)
                else:
                    lane.append_loaded(delivery)
            lane.catch_up()
        else:
            lane.append_all(deliveries)

    def page_failed(self, destination_id: int, priority: int, first: int, reason: str, reader: int = 0) -> None:
        if reader == SCHEDULE_READER:
            self.scheduler.ahead.page_failed(priority, first, reason)
            return
        if reader == BROWSE_READER:
            self.management.page_loaded(priority, first, [])
            return
        if reader == EXPIRY_READER:
            self.sweep.page_failed(destination_id, priority)
            return
        if reader == BRANCH_READER:
            self.read_back.page_failed()
            return
        queue = self.destinations.queue_of(destination_id, reader)
        if queue is None:
            return
        lane = queue.lane(priority)
        lane.pages.fault = reason
        self.faulty_lanes[lane] = None
        if reader == RELOAD_READER:
            self.delays.page_failed(destination_id, priority, first)
            return
        if not queue.feed.page_failed(priority):
            if reader == SCAN_READER:
                lane.pages.is_scanning = False
            else:
                lane.pages.is_loading = False
            lane.pages.awaits_retry = True
        self._ask_again_later(queue)

    def record_skipped(
        self, destination_id: int, priority: int, queue_offset: int, size_bytes: int, reason: str, reader: int = 0
    ) -> None:
        if reader == SCHEDULE_READER:
            if self.scheduler.ahead.record_skipped(priority, queue_offset):
                self.skipped_records.append(f"a scheduled message: {reason}")
            return
        if reader in (BROWSE_READER, EXPIRY_READER, BRANCH_READER):
            return
        queue = self.destinations.queue_of(destination_id, reader)
        if queue is None or not queue.is_logged or reader == SCAN_READER:  # the queue itself gets there, too
            return
        if reader == RELOAD_READER and not self.delays.record_skipped(destination_id, priority, queue_offset):
            return
        queue.depth -= 1
        if queue.account is not None:
            queue.account.leave(size_bytes)
        self.skipped_records.append(f"{queue.uri()}: {reason}")
        store = self.context.store
        settled = [Range(priority, queue_offset, 1, 0, size_bytes, (size_bytes,))]
        store.settle(queue.destination_id, 0, DROPPED, CAUSE_DAMAGED, settled)

    def expired_found(
        self, destination_id: int, priority: int, first: int, next_offset: int, expired: list[Entry], next_ms: int
    ) -> None:
        self.sweep.expired_found(destination_id, priority, first, next_offset, expired, next_ms)

    def sought(self, reader: int, log_start: int, places: list[LanePlace]) -> None:
        queue = self.destinations.readers.queues.get(reader)
        if queue is not None:
            queue.feed.sought(log_start, places)
            queue.mark_dirty()

    def seek_failed(self, reader: int, reason: str) -> None:
        queue = self.destinations.readers.queues.get(reader)
        if queue is not None:
            queue.feed.seek_failed(reason)
            self._ask_again_later(queue)

    def store_failed(self, reason: str) -> None:
        self.producer_gates.block()
        self.failure = reason

    def store_healed(self) -> None:
        self.failure = ""
        self.producer_gates.block()  # ``open_gates`` opens those that it can
        for queue in self.destinations.all_queues():
            for lane in queue.used_lanes:
                lane.pages.awaits_retry = False
            if queue.rotation:
                self.feeds.steps.resume(queue)  # its next message may have waited for the write

    def _settle_gone(self, queue: Queue, priority: int, first: int, next_offset: int, messages: list[Message]) -> None:
        """Settle entries that a page lacks for a retroactive durable subscription: retention had dropped them before.

        They could never be acknowledged, so the subscription would wait for them, and keep the log, for ever.
        """
        self.settlements.flush()
        found = next(
            lane for lane in self.context.store.state_of(queue.destination_id).lanes if lane.priority == priority
        )
        known = {message.queue_offset for message in messages}
        for settled, count in found.settled:
            known.update(range(max(settled, first), min(settled + count, next_offset)))
        gone: list[Range] = []
        start = max(first, found.cursor)
        for entry in [*sorted(known), next_offset]:
            count = entry - start
            if count > 0:
                queue.depth -= count
                gone.append(Range(priority, start, count, 0, 0, [0] * count))
            start = max(start, entry + 1)
        if gone:
            self.context.store.settle(queue.destination_id, 0, DROPPED, CAUSE_NONE, gone)

    def _ask_again_later(self, queue: Queue) -> None:
        key = queue.destination_id if queue.feed.is_own else -queue.feed.number
        self.context.timers.call_at(self.context.clock.monotonic_ms() + PAGE_RETRY_MS, self.page_retries, key)

    def _is_wanted(self, queue: Queue, lane: Lane, delivery: Delivery) -> bool:
        """Say whether a subscription or a browser wants a message of its page; if so, count the holder."""
        if not self.feeds.select(queue, delivery.message):
            return False
        if not queue.is_logged:
            known = lane.attempts.get(delivery.message.queue_offset)
            if known is not None and known.wait_ms(self.context.wall_ms) > 0:
                return False  # a browser shows only messages that are available now
            self.context.memory.hold(delivery.message)
            queue.depth += 1
        return True


@dataclass(slots=True, eq=False)
class _QueueEnds(Observer):
    _events: StoreEvents

    def queue_ended(self, queue: Queue) -> None:
        self._events.forget_faults(queue)
