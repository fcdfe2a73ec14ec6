"""Decides which consumer may have which message of a queue whose consumers differ.

Selectors, priorities of consumers, exclusive consumers and message groups decide together.  A queue without any of them
has no ``Selection``; there, each consumer takes the next message (engine.dispatch.dispatcher).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.backlog.lane import lane_of
from engine.backlog.waiting_deliveries import order_of
from engine.consumers.consumer import AUTO, Consumer, consumer_of
from engine.dispatch.disk_scan import DiskScan
from engine.dispatch.group_owners import GroupOwners
from engine.dispatch.message_groups import Groups
from engine.dispatch.offered_deliveries import OfferedDeliveries
from engine.dispatch.seat import Seat, seat_of
from engine.dispatch.selection_reasons import SelectionReasons
from engine.dispatch.selector_cursor import SPILLED
from engine.dispatch.selector_index import SelectorIndex
from engine.dispatch.selector_view import View
from engine.dispatch.spilled_scan import BlockAtHand, SpilledScan
from engine.dispatch.turn_order import Turns
from engine.dispatch.undeliverable_here import Exclusions
from engine.selector.readers import PropertyReaders
from engine.sources.queue_rules import SelectionBase, SelectionReasonsBase
from engine.values import gates
from engine.values.annotations import annotation
from engine.values.delivery import DELAYED, READY, ConsumerBase, Delivery
from engine.values.message import PLAIN, Message

if TYPE_CHECKING:
    from engine.backlog.lane import Lane
    from engine.backlog.spilled_blocks import LaneBlock, SpillRoom
    from engine.consumers.turn_steps import Steps
    from engine.sources.queue import Queue

REST_STEPS: Final = 3  # for a consumer that searches and finds nothing
ORPHAN_PART: Final = 4  # orphans are searched once they may be 1 / ORPHAN_PART of what was read ahead


class Selection(SelectionBase):
    """The seats of one queue's consumers, and the owners of its groups.

    turns: order of the consumers.  index: messages by selector.  disk, spilled: the searches there.
    is_open: the consumers that ``consumers_before_dispatch`` waits for have come, or the wait is over.
    blocking: deliveries that await redelivery and hold back everything behind them.
    orphan_count: messages read ahead for selectors that are gone since; others may wait for them as well.
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
        "blocking",
        "orphan_count",
        "originals",
        "offered",
        "choosy_count",
        "group_owners",
    )

    def __init__(self, queue: Queue, readers: PropertyReaders, now_ms: int, steps: Steps) -> None:
        self.queue = queue
        self.turns = Turns(queue)
        self.index = SelectorIndex(queue, readers, self.turns, steps)
        self.disk = DiskScan(self.index)
        self.spilled = SpilledScan(self.index)
        self.is_open = False
        self.groups = Groups(queue.settings.queue.group_buckets)
        self.blocking: list[Delivery] = []
        self.orphan_count = 0
        self.originals: dict[int, tuple[Delivery, Message]] = {}
        self.offered = OfferedDeliveries(queue, self.index, self.groups, self.turns)
        self.choosy_count = 0
        self.group_owners = GroupOwners(queue, self.groups, self.index, self.turns, self.offered.waiting, now_ms)

    # -- consumers are added and removed

    def add(self, consumer: Consumer) -> None:
        """Give a consumer its seat."""
        view = self.index.view_for(consumer.selector)
        view.consumer_count += 1
        seat = consumer.seat = Seat(consumer, view)
        if self.index.exclusions is not None:
            self.index.exclusions.newcomers.append(seat)
        if consumer.is_choosy():
            self.choosy_count += 1
        if self.queue.settings.queue.group_rebalance:
            self.group_owners.release_all()
        self.turns.add(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove the seat of a consumer that has closed, and free its groups."""
        seat = seat_of(consumer)
        assert seat is not None, "a consumer of this queue has a seat"
        consumer.seat = None
        view = seat.view
        view.consumer_count -= 1
        if view.consumer_count == 0:
            self._drop(view)
        if consumer.is_choosy():
            self.choosy_count -= 1
        is_last_exclusive = self.turns.remove(consumer)
        if is_last_exclusive:
            self.turns.owed.update(self.index.by_number)  # what was found for the other consumers was not handed over
            if self.index.exclusions is not None:
                self._wake_owners()
        offered = seat.owned.take_all()
        if self.index.exclusions is not None:
            offered += self.index.exclusions.forget(consumer)
        self.offer(offered)

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
        for delivery, message in self.originals.values():
            delivery.message = message
        for view in self.index.by_number.values():
            while view.idle:
                self.queue.rotation.append(view.idle.take_first())
        for consumer in self.queue.consumers.values():
            consumer.seat = None
        for lane in self.queue.used_lanes:
            lane.drop_taken()
            lane.settle_ahead()
            for delivery in list(lane.ahead.by_offset.values()):
                _forget_ahead(lane, delivery)

    def _drop(self, view: View) -> None:
        """Forget a view without consumers, and messages read ahead for it alone."""
        self.index.drop(view)
        self.orphan_count += sum(1 for one in view.waiting.by_order.values() if lane_of(one).ahead.by_offset)
        ahead_count = sum(len(lane.ahead.by_offset) for lane in self.queue.used_lanes)
        # All at once, and rarely: checking each message for other waiting views would cost a look at every view.
        if ORPHAN_PART * self.orphan_count >= ahead_count > 0:
            self.forget_orphans()

    def forget_orphans(self) -> None:
        """Forget messages read ahead that no view waits for any more, if there may be any."""
        if self.orphan_count == 0:
            return
        self.orphan_count = 0
        wanted = {order_of(one) for one in self.offered.waiting}
        for view in self.index.by_number.values():
            wanted.update(view.waiting.by_order)
        for consumer in self.queue.consumers.values():
            seat = seat_of(consumer)
            if seat is not None:
                wanted.update(seat.owned.by_order)
        for group in self.groups.by_key.values():
            wanted.update(group.parked.by_order)
        for lane in self.queue.used_lanes:
            for delivery in list(lane.ahead.by_offset.values()):
                if order_of(delivery) not in wanted:
                    _forget_ahead(lane, delivery)

    # -- turns

    def look(self) -> None:
        """Search for messages for idle consumers."""
        for lane in self.queue.used_lanes:
            if not self.index.look_at(lane):
                return
            if lane.spill is not None or lane.priority + SPILLED in self.index.cursors:
                self.spilled.pass_on(lane)

    def held_by(self) -> int:
        """Return the gate that holds all consumers, gates.OPEN for none."""
        if not self.is_open:
            return gates.CONSUMERS_BEFORE_DISPATCH
        queue = self.queue
        fates = queue.fates
        if fates.delayed_count or fates.refused_count:
            if self.turns.active is not None or not queue.settings.redelivery.non_blocking_redelivery:
                return gates.DELAYED if fates.delayed_count else gates.REFUSING
            if self.blocking:
                self.blocking = [one for one in self.blocking if one.state == DELAYED]
                if self.blocking:
                    return gates.DELAYED
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
        if group is None:
            return message
        first_key = self.queue.settings.queue.group_first_key
        if group.is_new and first_key:
            mark = annotation(first_key, "true")
            message = message.twin(message.flags & ~PLAIN, mark + message.annotations, message.headers, message.body)
        if consumer.ack_mode != AUTO:
            self.groups.hold(group, tag)
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
        """A delivery has left its consumer: settled, refused, or returned."""
        marked = self.originals.pop(delivery.tag, None) if self.originals else None
        if marked is not None:
            delivery.message = marked[1]
        group = self.groups.of(delivery)
        if group is not None:
            self.groups.let_go(group, delivery.tag)
            if not group.unsettled and group.parked.orders and group.owner() is None:
                self.offer(group.parked.take_all())
        if self.turns.heir is not None:
            self.turns.choose_active()

    def delay(self, delivery: Delivery, is_blocking: bool = False) -> None:
        """A delivery awaits redelivery; deliveries that must not overtake it wait with it.

        is_blocking: these are all deliveries of the queue.
        """
        if is_blocking:
            self.blocking.append(delivery)
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

    def look_at_spilled(self, lane: Lane, block: LaneBlock, spiller: SpillRoom) -> bool:
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
        return SelectionReasons(self.queue, self, self.turns, self.index, self.groups)


def _forget_ahead(lane: Lane, delivery: Delivery) -> None:
    """Forget a delivery found ahead and never handed over; it can be found again or loaded in its turn."""
    if delivery.state == READY and not delivery.is_redelivered and lane.ahead.holds(delivery):
        lane.ahead.remove(delivery)
        lane.memory.unload(delivery.message)
        if delivery.message.expires_ms:
            lane.note_expiry(delivery.message)


def selection_of(queue: Queue) -> Selection | None:
    """Return the Selection of a queue, None if each consumer takes the next message."""
    selection = queue.selection
    assert selection is None or isinstance(selection, Selection), "there is one kind of selection"
    return selection
