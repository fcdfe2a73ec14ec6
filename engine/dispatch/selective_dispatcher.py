"""Dispatches queues whose consumers differ: those with a ``Selection``.

The consumer whose turn it is gets the next message that the Selection allows it.  If no message in memory is for any
consumer, pages are read ahead by a reader of their own, so that messages that nobody wants hold up nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.backlog.context import Context
from engine.backlog.lane import Lane
from engine.backlog.lane_entries import PAGE_MESSAGES
from engine.consumers.consumer import Consumer
from engine.consumers.turn_steps import Steps
from engine.dispatch.delays import Delays
from engine.dispatch.dispatcher import Dispatcher
from engine.dispatch.message_groups import GroupTotal
from engine.dispatch.message_selection import Selection, selection_of
from engine.dispatch.orphans import Orphans
from engine.dispatch.selector_index import SCAN_LEAST, SCAN_STEPS
from engine.ports.timers import TimerTarget
from engine.sources.observer import Observer
from engine.sources.queue import Queue, queue_of
from engine.values import gates
from engine.values.delivery import DELAYED, Delivery, restored
from engine.values.message import Message

SCAN_BYTES: Final = 1024 * 1024  # of one page read ahead
SHORT_SCAN_BYTES: Final = 64 * 1024  # the same while memory is short
SCAN_READER: Final = -1  # the reader to which the store answers for pages read ahead


@dataclass(slots=True, eq=False)
class SelectiveDispatcher(TimerTarget):
    """Runs the queues that have a Selection, and creates and removes Selections as consumers come and go.

    group_total: of all queues.
    timed: timer key -> (Selection, whether it opens then; otherwise its idle groups are released).
    """

    context: Context
    steps: Steps
    dispatcher: Dispatcher
    delays: Delays
    starved: dict[Queue, None]
    observers: list[Observer]
    timed: dict[int, tuple[Selection, bool]] = field(default_factory=dict)
    next_key: int = 1
    group_total: GroupTotal = field(default_factory=GroupTotal)

    # -- consumers are added and removed

    def added(self, consumer: Consumer) -> None:
        """Give a new consumer a seat if its queue has a Selection; create one if the consumer needs it."""
        queue = consumer.queue
        selection = selection_of(queue)
        if selection is not None:
            selection.add(consumer)
            self._await_consumers(queue, selection)
        elif queue.is_choosy or consumer.is_choosy():
            queue.is_choosy = True
            self._begin(queue)

    def exclude(self, delivery: Delivery) -> None:
        """Keep ``delivery`` from its present consumer as long as that consumer exists."""
        if delivery.consumer is None or delivery.consumer.is_closed:
            return
        queue = queue_of(delivery.lane)
        selection = selection_of(queue)
        if selection is None:
            queue.is_choosy = True
            selection = self._begin(queue)
        selection.exclude(delivery)

    def removed(self, consumer: Consumer) -> None:
        """A consumer has closed, and its messages were returned."""
        queue = consumer.queue
        selection = selection_of(queue)
        if selection is None:
            consumer.seat = None  # the selection has ended with its queue, while the consumer was closing
            return
        selection.remove(consumer)
        if queue.consumers:
            is_needed = queue.extras.has_choosy_settings or (
                queue.extras.has_groups and (queue.depth > 0 or selection.groups.by_key)
            )
            is_needed = is_needed or selection.choosy_count > 0
            is_needed = is_needed or (
                selection.index.exclusions is not None and bool(selection.index.exclusions.by_order)
            )
        else:
            # An open transaction may hold messages of a group, or messages whose acknowledgement an advisory reports.
            is_needed = selection.groups.unsettled_count > 0 or queue.extras.is_watched
        if not is_needed:
            selection.close()
            queue.selection = None
            self.steps.take_up(Orphans(queue))
            queue.extras.has_groups = queue.extras.has_groups and queue.depth > 0
            queue.is_choosy = queue.extras.has_choosy_settings or queue.extras.has_groups
        elif selection.has_many_orphans():
            self._forget_orphans(queue, selection)
        queue.mark_dirty()

    def _forget_orphans(self, queue: Queue, selection: Selection) -> None:
        selection.orphan_count = 0
        selection.is_checked = True
        self.steps.take_up(Orphans(queue))

    def _begin(self, queue: Queue) -> Selection:
        selection = Selection(
            queue, self.context.readers, self.context.clock.monotonic_ms(), self.steps, self.group_total
        )
        queue.selection = selection
        listed = list(queue.rotation)
        queue.rotation.clear()
        for consumer in queue.consumers.values():
            selection.add(consumer)
        for consumer in listed:
            selection.turns.list_consumer(consumer)
        if queue.fates.delayed_count and queue.extras.has_groups:
            selection.offered.delayed_before.extend(self.delays.delayed_of(queue))
        self._await_consumers(queue, selection)
        if queue.settings.queue.group_idle_timeout_ms > 0:
            self._call_at(selection, queue.settings.queue.group_idle_timeout_ms, False)
        return selection

    def _await_consumers(self, queue: Queue, selection: Selection) -> None:
        """Open the queue once enough consumers have come; the first one starts the timer of that wait."""
        policy = queue.settings.queue
        if selection.is_open:
            return
        if len(queue.consumers) >= policy.consumers_before_dispatch:
            selection.is_open = True
            queue.mark_dirty()
        elif len(queue.consumers) == 1 and policy.delay_before_dispatch_ms >= 0:
            self._call_at(selection, policy.delay_before_dispatch_ms, True)

    # -- turns

    def run(self, queue: Queue) -> None:
        """Hand over what can be handed over now, and read from disk if memory ran low."""
        if not queue.consumers:
            return
        selection = selection_of(queue)
        if selection is None:
            selection = self._begin(queue)
        steps = self.steps
        budget = self._budget(queue)
        selection.index.budget = budget
        selection.group_owners.now_ms = self.context.clock.monotonic_ms()
        selection.group_owners.go_on_releasing()
        if selection.offered.examine() and selection.held_by() == gates.OPEN:
            selection.search()
            self.dispatcher.run(queue, selection)
        for lane in queue.used_lanes:
            lane.tidy()
        self.dispatcher.pages.ask(queue)
        for lane in queue.used_lanes:
            self._read_ahead(queue, selection, lane)
            if lane.spill is not None:
                self._search_spilled(queue, selection, lane)
            elif selection.spilled.at_hand:
                selection.spilled.at_hand.pop(lane.priority, None)
        steps.left -= budget - selection.index.budget
        if selection.index.budget <= 0:
            steps.postpone(queue)

    def _budget(self, queue: Queue) -> int:
        """Return how many steps a queue may take now: at least a few in each turn."""
        steps = self.steps
        least = 0 if queue in steps.postponed else SCAN_LEAST
        return max(least, min(SCAN_STEPS, steps.left))

    # -- reading ahead

    def _read_ahead(self, queue: Queue, selection: Selection, lane: Lane) -> None:
        """Request a page ahead of the lane's loading, if idle consumers need one."""
        if lane.next_load >= lane.tail or lane.pages.is_loading or lane.pages.is_scanning or lane.pages.awaits_retry:
            return
        if not queue.feed.is_own:
            return  # a subscription reads in order, as its consumers share one selector
        lane.settle_ahead()
        if lane.is_ahead_full() and selection.orphan_count and not selection.is_checked:
            self._forget_orphans(queue, selection)
        if lane.is_ahead_full():
            self._wait_for_memory(queue)
            return
        first = selection.disk.scan_start(lane)
        if first < 0:
            return
        lane.pages.is_scanning = True
        count = min(PAGE_MESSAGES, selection.disk.page_messages())
        store = self.context.store
        store.write()  # only written records can be read
        size_bytes = SHORT_SCAN_BYTES if self.context.memory.is_short() else SCAN_BYTES
        count = min(count, lane.tail - first)
        store.request(queue.destination_id, lane.priority, first, count, size_bytes, SCAN_READER)

    def _wait_for_memory(self, queue: Queue) -> None:
        """Have a queue run again once memory is no longer short, if it is short now."""
        if self.context.memory.is_short():
            self.starved[queue] = None
            self.context.agenda.is_open = True

    def _search_spilled(self, queue: Queue, selection: Selection, lane: Lane) -> None:
        """Search temporary files, a block at a time, if idle consumers need it."""
        spiller = queue.spiller
        assert spiller is not None, "a lane that has spilled has a spiller"
        index = selection.index
        while (spill := lane.spill) is not None and spill.reading is None:
            if index.budget <= 0:
                return
            if not spiller.may_search(lane):
                selection.spilled.at_hand.pop(lane.priority, None)
                self._wait_for_memory(queue)
                return
            block = selection.spilled.next_block(lane)
            if block is None or block.is_writing:
                selection.spilled.at_hand.pop(lane.priority, None)
                return  # it is called again once the block is written
            if not selection.search_spilled(lane, block, spiller):
                spiller.search(lane, block)

    def page_read(self, lane: Lane, first: int, next_offset: int, messages: list[Message]) -> None:
        """Accept a page that was read ahead."""
        lane.pages.is_scanning = False
        queue = queue_of(lane)
        selection = selection_of(queue)
        if selection is None:
            return
        budget = selection.index.budget = self._budget(queue)
        for message in messages:
            if message.expires_ms:
                queue.has_expiring = True
            if message.group_hash:
                queue.extras.has_groups = True
        context = self.context
        for delivery, known in selection.disk.read(lane, first, next_offset, messages, context.wall_ms):
            delivery.history = restored(known, context.store.consumer_description(known.consumer_id))
            if delivery.state == DELAYED:
                self.delays.restore_wait(delivery, known.wait_ms(context.wall_ms))
        self.steps.left -= budget - selection.index.budget
        queue.mark_dirty()

    # -- timers

    def timer_fired(self, key: int) -> None:
        selection, is_opening = self.timed.pop(key)
        queue = selection.queue
        if queue.selection is not selection:
            return
        if is_opening:
            selection.is_open = True
        else:
            idle_ms = queue.settings.queue.group_idle_timeout_ms
            selection.group_owners.release_idle(self.context.clock.monotonic_ms() - idle_ms)
            self._call_at(selection, idle_ms, False)
        self.steps.postpone(queue)  # this time may have come for thousands of queues

    def _call_at(self, selection: Selection, delay_ms: int, is_opening: bool) -> None:
        key = self.next_key
        self.next_key = key + 1
        self.timed[key] = (selection, is_opening)
        self.context.timers.call_at(self.context.clock.monotonic_ms() + delay_ms, self, key)
