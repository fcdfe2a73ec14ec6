"""A queue: competing consumers over lanes of messages, one lane a priority."""

from __future__ import annotations

from bisect import insort
from collections import deque
from typing import Final

from config.policies import AddressSettings
from engine.backlog.address_account import Account
from engine.backlog.delivery_row import LaneOwner
from engine.backlog.intake import intake_for
from engine.backlog.lane import Lane
from engine.backlog.memory_budget import MemoryBudget
from engine.backlog.settlement import SettlementBatch
from engine.backlog.spilled_blocks import LaneBlock
from engine.consumers.consumer import Consumer
from engine.sources.feed import OWN, Feed
from engine.sources.queue_rules import QueueExtras, SelectionBase, has_send_advisories
from engine.values.delivery import Delivery, LaneBase
from engine.values.message import Message
from engine.values.outcomes import CAUSE_EXPIRED, EXPIRED

PRIORITY_COUNT: Final = 10
STATISTICS_PREFIX: Final = "ActiveMQ.Statistics."
MANAGEMENT: Final = "ActiveMQ.Scheduler.Management"  # a queue or a topic, in any case (SchedulerBroker)


class FateCounts:
    """Counts, since the start, of a destination's messages that ended in another way than by acknowledgement."""

    __slots__ = ("redelivered_count", "dead_lettered_count", "expired_count")

    def __init__(self) -> None:
        self.redelivered_count = 0
        self.dead_lettered_count = 0
        self.expired_count = 0

    def add(self, other: FateCounts) -> None:
        self.redelivered_count += other.redelivered_count
        self.dead_lettered_count += other.dead_lettered_count
        self.expired_count += other.expired_count


class QueueFates(FateCounts):
    """delayed_count: messages that now wait for redelivery.  expired_batch: expired messages, to be settled.

    refused_count: messages that a consumer has refused and that are not back yet; it may have closed since.
    enlisted_count: messages that transactions hold, open or prepared.
    """

    __slots__ = ("delayed_count", "refused_count", "enlisted_count", "expired_batch")

    def __init__(self, expired_batch: SettlementBatch) -> None:
        super().__init__()
        self.delayed_count = 0
        self.refused_count = 0
        self.enlisted_count = 0
        self.expired_batch = expired_batch


class DirtyQueues:
    """The broker's queues to dispatch at the end of this turn; all queues share it.

    is_stopping: nothing more is handed over (engine.features.last_settlements).
    """

    __slots__ = ("queues", "is_stopping")

    def __init__(self) -> None:
        self.queues: list[Queue] = []
        self.is_stopping = False


class Queue(LaneOwner):
    """Messages in order of priority, then position, and the consumers that take turns on them.

    is_logged: settlements are logged; False for queues only in memory: temporary queues, queues of browsers, and those
    of topic subscriptions that are not durable.
    is_indirect: sending takes more than an enqueue: the queue has ended, others get copies, or advisories report it.
    owner: number of the client whose temporary queue this is, 0 for none.
    feed: where its messages come from, which makes the kind of queue.
    account: usage against its limits, None without limits.  intake: changes on arrival, None for none.
    rotation: the consumers that can take a message now; the first one is next.
    dirty_queues: where it is entered when it must be dispatched at the end of this turn.
    fates: counts of messages that were not acknowledged.  extras: what most queues do not have.
    is_choosy: not every consumer takes the next message, so such a queue has a ``selection`` while it has consumers.
    The cause is its settings, a consumer, or message groups.
    """

    __slots__ = (
        "account",
        "intake",
        "is_logged",
        "is_indirect",
        "owner",
        "feed",
        "lanes",
        "used_lanes",
        "consumers",
        "rotation",
        "is_dirty",
        "dirty_queues",
        "in_flight_count",
        "enqueued_count",
        "delivered_count",
        "acknowledged_count",
        "fates",
        "extras",
        "selection",
        "is_choosy",
    )

    def __init__(
        self,
        destination_id: int,
        kind: int,
        name: str,
        settings: AddressSettings,
        is_logged: bool,
        dirty_queues: DirtyQueues,
        memory: MemoryBudget,
        feed: Feed = OWN,
    ) -> None:
        super().__init__(destination_id, kind, name, settings, memory)
        self.account: Account | None = None
        self.intake = intake_for(settings)
        self.is_logged = is_logged
        self.is_indirect = has_send_advisories(settings)
        self.owner = 0
        self.feed = feed
        self.lanes: list[Lane | None] = [None] * PRIORITY_COUNT
        self.used_lanes: list[Lane] = []
        self.consumers: dict[int, Consumer] = {}
        self.rotation: deque[Consumer] = deque()
        self.is_dirty = False
        self.dirty_queues = dirty_queues
        self.in_flight_count = 0
        self.enqueued_count = 0
        self.delivered_count = 0
        self.acknowledged_count = 0
        self.fates = QueueFates(feed.batch(destination_id, EXPIRED, CAUSE_EXPIRED))
        self.extras = QueueExtras(settings, feed)
        self.selection: SelectionBase | None = None
        self.is_choosy = self.extras.has_choosy_settings

    def lane(self, priority: int) -> Lane:
        """Return the lane of ``priority``; the first use makes it."""
        lane = self.lanes[priority]
        if lane is None:
            lane = Lane(self, priority)
            self.lanes[priority] = lane
            insort(self.used_lanes, lane, key=_rank_of)
            if self.extras.shares is not None:
                self.extras.shares.join(lane)
        return lane

    def enqueue(self, message: Message) -> None:
        """Add a message behind all others of its priority."""
        lane = self.lanes[message.priority]
        if lane is None:
            lane = self.lane(message.priority)
        if self.is_logged and message.queue_offset >= 0:
            lane.add_logged(message)
            if self.account is not None:
                self.account.enter(message.size)
        else:
            lane.add_volatile(message)
        self.depth += 1
        self.enqueued_count += 1
        if message.expires_ms:
            self.has_expiring = True
            lane.note_expiry(message)
        if message.group_hash and not self.feed.is_browser:
            self.extras.has_groups = self.is_choosy = True
        if self.is_choosy:
            extras = self.extras
            if extras.keeper is not None:
                extras.keeper.message_came(message, lane.newest(message))
            if self.selection is not None:
                self.selection.arrived(lane, message)
            if extras.audience is not None:
                extras.audience.show(message, lane, self.is_logged and message.queue_offset >= 0)
        if not self.is_logged and self.feed.pending is not None:
            self.feed.pending.message_came(message)

    def is_in_memory(self, message: Message) -> bool:
        """Say whether ``message`` is only in memory for this queue, so that it counts in the budget."""
        return message.queue_offset < 0 or not self.is_logged

    def release(self, message: Message) -> None:
        """Subtract a discarded message from the memory budget."""
        if self.is_in_memory(message):
            self.memory.release(message)
        else:
            self.memory.unload(message)

    def has_backlog(self) -> bool:
        """Say whether entries wait on disk that are not in memory."""
        for lane in self.used_lanes:
            if lane.next_load < lane.tail or lane.spill is not None:
                return True
        return self.feed.has_more()

    # -- for its lanes

    def has_consumers(self) -> bool:
        return bool(self.consumers)

    def has_selection(self) -> bool:
        return self.selection is not None

    def has_groups_known(self) -> bool:
        return self.selection is not None and self.selection.has_groups_known()

    def came_back(self, deliveries: list[Delivery]) -> None:
        if self.selection is not None:
            self.selection.offer(deliveries)
        if self.extras.keeper is not None:
            self.extras.keeper.deliveries_came(deliveries)

    def read_back(self, deliveries: list[Delivery]) -> None:
        if self.selection is not None:
            self.selection.offer(deliveries)

    def needs_all_at_hand(self) -> bool:
        # Rules that drop or show kept messages read them; a pending-message limit bounds what waits.
        return self.extras.keeper is not None or self.settings.queue.non_destructive or self.feed.pending is not None

    def show_spilled(self, lane: Lane, block: LaneBlock, positions: list[int], messages: list[Message]) -> None:
        if self.selection is not None:
            self.selection.show_spilled(lane, block, positions, messages)

    # -- what it holds

    def consumer_count(self) -> int:
        """Return how many consumers there are, those with views of their own included."""
        audience = self.extras.audience
        return len(self.consumers) + (0 if audience is None else audience.count())

    def source_id(self) -> int:
        """Return the destination whose entries it has, 0 for several."""
        return self.destination_id if self.feed.is_own else self.feed.source_id

    def fault(self) -> str:
        """Return why the disk refused the last page of a lane, "" if it did not refuse."""
        for lane in self.used_lanes:
            if lane.pages.fault:
                return lane.pages.fault
        return ""

    def group_owners(self) -> dict[str, int]:
        """Return id of each message group -> number of the consumer that its messages go to."""
        return {} if self.selection is None else self.selection.reasons().owners()

    def is_held_by_delays(self) -> bool:
        """Say whether entries wait on disk because too much in memory awaits redelivery."""
        return any(lane.next_load < lane.tail and lane.is_held_by_delays() for lane in self.used_lanes)

    def mark_dirty(self) -> None:
        """Have this queue dispatched at the end of the turn."""
        if not self.is_dirty:
            self.is_dirty = True
            self.dirty_queues.queues.append(self)

    def start_consumer(self, consumer: Consumer) -> None:
        """Let a new consumer take its first turn; its client may have left while the RECEIPT was under way."""
        if not consumer.is_closed and consumer.departing() is None:
            consumer.is_started = True
            self.list_one(consumer)

    def list_consumer(self, consumer: Consumer) -> None:
        """List ``consumer``, whose window has opened, and its siblings as the last in the rotation."""
        if consumer.siblings is not None:
            consumer.siblings.opened()
        else:
            self.list_one(consumer)

    def list_one(self, consumer: Consumer) -> None:
        """List ``consumer`` in the rotation if nothing holds it; a shared window or socket wakes it later."""
        if consumer.is_listed or not consumer.is_started or consumer.rest_room is not None:
            return
        if consumer.window.is_full:
            if consumer.siblings is not None:
                consumer.siblings.rest_room.rest(consumer)
            return
        if consumer.outlet.is_output_full:
            consumer.outlet.rest(consumer)
            return
        pause = self.extras.pause
        if pause is not None and consumer.is_ruled:
            pause.rest(consumer)
            return
        consumer.is_listed = True
        if self.selection is None:
            self.rotation.append(consumer)
        else:
            self.selection.list_consumer(consumer)
        if not self.is_dirty:
            self.mark_dirty()

    def unlist_consumer(self, consumer: Consumer) -> None:
        """Remove ``consumer``, whose window is full, from the rotation; its siblings follow once they are in front."""
        if consumer.siblings is None:
            self.unlist_one(consumer)

    def rest(self, consumer: Consumer) -> None:
        """Park ``consumer``, which left the rotation because it cannot take the next message, until it can."""
        if consumer.siblings is not None and consumer.window.is_full:
            consumer.siblings.rest_room.rest(consumer)
        elif consumer.outlet.is_output_full:
            consumer.outlet.rest(consumer)

    def unlist_one(self, consumer: Consumer) -> None:
        """Remove a consumer from wherever it waits for its turn."""
        if consumer.rest_room is not None:
            consumer.rest_room.end_rest(consumer)
        if consumer.is_listed:
            consumer.is_listed = False
            if self.selection is None:
                self.rotation.remove(consumer)
            else:
                self.selection.unlist_consumer(consumer)


class QuestionQueue(Queue):
    """The target of a question; it holds nothing."""

    __slots__ = ()

    def enqueue(self, message: Message) -> None:
        raise AssertionError(f"{self.uri()} answers questions, and would keep {message.size} octets for ever")


def is_management(name: str) -> bool:
    """Say whether messages to ``name`` manage the schedule."""
    return len(name) == len(MANAGEMENT) and name.lower() == MANAGEMENT.lower()


def queue_of(lane: LaneBase) -> Queue:
    assert isinstance(lane, Lane), "a queue has lanes"
    queue = lane.queue
    assert isinstance(queue, Queue), "every lane is of a queue"
    return queue


def _rank_of(lane: Lane) -> int:
    return -lane.priority
