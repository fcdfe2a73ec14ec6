"""Finds the message for the consumer whose turn it is, in a queue whose consumers differ.

Selectors, priorities of consumers, exclusive consumers and message groups decide together.  A queue without any of them
has no ``Selection``; there, each consumer takes the next message (engine.dispatch.dispatcher).  Otherwise
engine.dispatch.priority_and_exclusive orders the consumers, and the selection finds the message for the first of them.
"""

from __future__ import annotations

from typing import Final

from engine.backlog.lane import Lane, lane_of
from engine.backlog.spilled_blocks import LaneBlock, SpillRoom
from engine.backlog.waiting_deliveries import Waiting, order_of
from engine.consumers.consumer import AUTO, Consumer, consumer_of
from engine.consumers.turn_steps import Steps
from engine.dispatch.disk_scan import BlockAtHand, DiskScan, SpilledScan
from engine.dispatch.message_groups import GroupOwners, Groups, GroupTotal
from engine.dispatch.offered_deliveries import OfferedDeliveries
from engine.dispatch.priority_and_exclusive import Turns
from engine.dispatch.selection_reasons import SelectionReasons
from engine.dispatch.selector_index import SelectorIndex
from engine.dispatch.selector_view import SPILLED, Seat, View, seat_of
from engine.dispatch.undeliverable_here import Exclusions
from engine.selector.properties import PropertyReaders
from engine.sources.queue import Queue
from engine.sources.queue_rules import SelectionBase, SelectionReasonsBase
from engine.values import gates
from engine.values.delivery import ConsumerBase, Delivery
from engine.values.message import PLAIN, Message, annotation

REST_STEPS: Final = 3  # for a consumer that searches and finds nothing
ORPHAN_PART: Final = 4  # orphans are looked for once they may be 1 / ORPHAN_PART of what was read ahead


class Selection(SelectionBase):
    """The seats of one queue's consumers, and the owners of its groups.

    turns: order of the consumers.  index: messages by selector.  disk, spilled: the searches there.
    is_open: the consumers that ``consumers_before_dispatch`` waits for have come, or the wait is over.
    ordering_count: consumers that let nothing overtake a message that awaits its redelivery.
    orphan_count: at most so many messages read ahead were for selectors that are gone since.
    is_checked: ``Orphans`` is looking for them.
    offered: deliveries that may go to anybody again.
    choosy_count: consumers that cannot simply take the next message.
    originals: tag -> delivery that was marked as the first of its group, and the original of its message, which counts
    the holders.
    """

    __slots__ = (
        "queue",
        "turns",
        "index",
        "disk",
        "spilled",
        "is_open",
        "groups",
        "ordering_count",
        "orphan_count",
        "is_checked",
        "originals",
        "offered",
        "choosy_count",
        "group_owners",
    )

    def __init__(
        self, queue: Queue, readers: PropertyReaders, now_ms: int, steps: Steps, group_total: GroupTotal
    ) -> None:
        self.queue = queue
        self.turns = Turns(queue)
        self.index = SelectorIndex(queue, readers, self.turns, steps)
        self.disk = DiskScan(self.index)
        self.spilled = SpilledScan(self.index)
        self.is_open = False
        self.groups = Groups(queue.settings.queue.group_buckets, group_total)
        self.ordering_count = 0
        self.orphan_count = 0
        self.is_checked = False
        self.originals: dict[int, tuple[Delivery, Message]] = {}
        self.offered = OfferedDeliveries(queue, self.index, self.groups, self.turns)
        self.choosy_count = 0
        self.group_owners = GroupOwners(queue, self.groups, self.index, self.turns, self.offered.waiting, now_ms)

    # -- consumers are added and removed

    def add(self, consumer: Consumer) -> None:
        """Give a consumer its seat."""
        view = self.index.view_for(consumer)
        view.consumer_count += 1
        seat = consumer.seat = Seat(consumer, view)
        if self.index.exclusions is not None:
            self.index.exclusions.newcomers.append(seat)
        if consumer.is_choosy():
            self.choosy_count += 1
            self.ordering_count += consumer.keeps_order()
        if self.queue.settings.queue.group_rebalance:
            self.group_owners.release_all()
        self.turns.add(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove the seat of a consumer that has closed, and free its groups."""
        seat = seat_of(consumer)
        assert seat is not None, "a consumer of this queue has a seat"
        consumer.seat = None
        self.offer(seat.owned.take_all())  # before orphans are forgotten: it waits for others now
        view = seat.view
        view.consumer_count -= 1
        if view.consumer_count == 0:
            self._drop(view)
        if consumer.is_choosy():
            self.choosy_count -= 1
            self.ordering_count -= consumer.keeps_order()
        is_last_exclusive = self.turns.remove(consumer)
        if is_last_exclusive:
            self.turns.owed.update(self.index.by_number)  # what was found for the other consumers was not handed over
            if self.index.exclusions is not None:
                self._wake_owners()
        if self.index.exclusions is not None:
            self.offer(self.index.exclusions.forget(consumer))

    def _wake_owners(self) -> None:
        """Let those look again for whom alone something waits: others have excluded it."""
        for consumer in self.queue.consumers.values():
            seat = seat_of(consumer)
            if seat is not None and seat.owned.first() is not None:
                self.turns.wake(consumer)

    def list_consumer(self, consumer: ConsumerBase) -> None:
        assert isinstance(consumer, Consumer), "only consumers take turns"
        self.turns.list_consumer(consumer)

    def unlist_consumer(self, consumer: ConsumerBase) -> None:
        assert isinstance(consumer, Consumer), "only consumers take turns"
        self.turns.unlist_consumer(consumer)

    def close(self) -> None:
        """Return to plain dispatch."""
        self.groups.close()
        for delivery, message in self.originals.values():
            delivery.message = message
        for view in self.index.by_number.values():
            while view.idle:
                self.queue.rotation.append(view.idle.take_first())
            view.cursors.clear()  # a cursor knows its views
        for consumer in self.queue.consumers.values():
            consumer.seat = None
        for lane in self.queue.used_lanes:
            lane.drop_taken()
            lane.settle_ahead()

    def _drop(self, view: View) -> None:
        """Forget a view without consumers."""
        self.index.drop(view)
        if _ahead_count(self.queue):
            self.orphan_count += len(view.waiting.by_order)

    def has_many_orphans(self) -> bool:
        """Say whether many of the messages read ahead may have been for views that are gone.

        They are checked all together: checking each for other views that wait for it would cost a look at every view.
        """
        return not self.is_checked and ORPHAN_PART * self.orphan_count >= _ahead_count(self.queue) > 0

    def keep_wanted(self, suspects: dict[int, Delivery]) -> None:
        """Remove from ``suspects``, by their orders, those that somebody waits for."""
        for one in self.offered.waiting:
            suspects.pop(order_of(one), None)
        for view in self.index.by_number.values():
            _remove(suspects, view.waiting)
        for consumer in self.queue.consumers.values():
            seat = seat_of(consumer)
            if seat is not None:
                _remove(suspects, seat.owned)
        for group in self.groups.by_key.values():
            _remove(suspects, group.parked)

    # -- turns

    def search(self) -> None:
        """Search for messages for idle consumers."""
        for lane in self.queue.used_lanes:
            if not self.index.search(lane):
                return
            if lane.spill is not None or lane.priority + SPILLED in self.index.cursors:
                self.spilled.pass_on(lane)

    def held_by(self) -> int:
        if not self.is_open:
            return gates.CONSUMERS_BEFORE_DISPATCH
        queue = self.queue
        fates = queue.fates
        if fates.delayed_count or fates.refused_count:
            is_blocking = self.ordering_count > 0 or not queue.settings.redelivery.non_blocking_redelivery
            if is_blocking or self.turns.active is not None:
                return gates.DELAYED if fates.delayed_count else gates.REFUSING
        return gates.OPEN

    def next_in_turn(self, consumer: Consumer) -> Delivery | None:
        """Return the next message of ``consumer``, whose turn it is, without removing it.

        None if another one is next: this one found nothing, or the search woke a consumer of a higher priority.
        """
        delivery = self._next_for(consumer)
        if self.queue.rotation[0] is not consumer:
            return None
        if delivery is None:
            self.index.budget -= REST_STEPS
            self.turns.let_rest(consumer)
        return delivery

    def take(self, consumer: Consumer, delivery: Delivery, tag: int) -> Message:
        """Remove the delivery that ``consumer`` gets; return its message, marked if it is the first of its group.

        tag: by which the consumer holds it, unless it is settled at once.
        """
        lane_of(delivery).take(delivery)
        message = delivery.message
        if not message.group_hash:
            return message
        group = self.group_owners.taken(consumer, delivery)
        seat = seat_of(consumer)
        assert seat is not None, "a consumer of this queue has a seat"
        seat.begins_group = group is not None and group.is_new
        if group is None:
            return message
        first_key = self.queue.settings.queue.group_first_key
        if group.is_new and first_key:
            mark = annotation(first_key, "true")
            message = message.twin(message.flags & ~PLAIN, mark + message.annotations, message.headers, message.body)
        if consumer.ack_mode != AUTO:
            self.groups.add_unsettled(group, tag)
            if message is not delivery.message:
                self.originals[tag] = delivery, delivery.message
                delivery.message = message
        return message

    def _next_for(self, consumer: Consumer) -> Delivery | None:
        """Return the next message of ``consumer`` without removing it; None if it must wait."""
        if self.turns.is_shut_for(consumer):
            return None
        seat = seat_of(consumer)
        assert seat is not None, "a consumer of this queue has a seat"
        view = seat.view
        while True:
            self.index.feed(view)
            delivery = view.waiting.first()
            if delivery is not None and not view.has_passed(delivery):
                delivery = None  # an earlier message may match
            owned = seat.owned.first()
            if owned is not None and (delivery is None or order_of(owned) <= order_of(delivery)):
                source = seat.owned
                delivery = owned
            elif delivery is not None:
                source = view.waiting
            else:
                return None
            if self.groups.key(delivery) == 0 or self.group_owners.may_have(consumer, delivery):
                return delivery
            source.pop()  # it waits elsewhere

    # -- groups

    def left(self, delivery: Delivery) -> None:
        marked = self.originals.pop(delivery.tag, None) if self.originals else None
        if marked is not None:
            delivery.message = marked[1]
        group = self.groups.of(delivery)
        if group is not None:
            self.groups.remove_unsettled(group, delivery.tag)
            if not group.unsettled and group.parked.orders and group.owner() is None:
                self.offer(group.parked.take_all())
        if self.turns.heir is not None:
            self.turns.choose_active()

    def delay(self, delivery: Delivery) -> None:
        """A delivery awaits redelivery; the others of its group wait with it."""
        self.groups.delay(delivery)

    def has_groups_known(self) -> bool:
        return bool(self.groups.by_key)

    def exclude(self, delivery: Delivery) -> None:
        """Keep ``delivery`` from its present consumer in future; its group is given to another one."""
        consumer = consumer_of(delivery)
        exclusions = self.index.exclusions
        if exclusions is None:
            exclusions = self.index.exclusions = Exclusions()
        exclusions.add(delivery, consumer)
        group = self.groups.of(delivery)
        if group is not None and group.owner() is consumer:
            self.group_owners.release(group)

    # -- new messages

    def arrived(self, lane: Lane, message: Message) -> None:
        self.index.arrived(lane, message)

    def show_spilled(self, lane: Lane, block: LaneBlock, positions: list[int], messages: list[Message]) -> None:
        self.spilled.at_hand[lane.priority] = BlockAtHand(block, positions, messages)
        self.queue.mark_dirty()

    def search_spilled(self, lane: Lane, block: LaneBlock, spiller: SpillRoom) -> bool:
        """Take messages that consumers want from a block that is at hand; return False if it must be read first."""
        at_hand = self.spilled.at_hand.get(lane.priority)
        if at_hand is None or at_hand.block is not block:
            return False
        for delivery, views in self.spilled.read(lane, at_hand, spiller.is_short()):
            spiller.bring_in(lane, block, delivery)
            for view in views:
                self.index.put(view, delivery)
        self.queue.mark_dirty()
        return True

    def offer(self, deliveries: list[Delivery]) -> None:
        """Offer deliveries that are READY again to all consumers, once all of them have been examined."""
        self.offered.waiting.extend(deliveries)
        self.queue.mark_dirty()

    def has_idle(self) -> bool:
        return self.index.has_idle()

    def reasons(self) -> SelectionReasonsBase:
        return SelectionReasons(self)


def _remove(suspects: dict[int, Delivery], waiting: Waiting) -> None:
    for order in suspects.keys() & waiting.by_order.keys():
        del suspects[order]


def selection_of(queue: Queue) -> Selection | None:
    """Return the Selection of a queue, None if each consumer takes the next message."""
    selection = queue.selection
    assert selection is None or isinstance(selection, Selection), "there is one kind of selection"
    return selection


def _ahead_count(queue: Queue) -> int:
    return sum([len(lane.ahead.by_offset) for lane in queue.used_lanes])
