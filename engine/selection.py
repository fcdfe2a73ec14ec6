"""Who may have which message of a queue whose consumers are not all alike.

Selectors, priorities of consumers, exclusive consumers and message groups decide it together.  A queue without any of
them has no ``Selection``: then every consumer takes the next message (engine.dispatch).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from engine import gates
from engine.delivery import DELAYED, READY, Delivery
from engine.exclusions import Exclusions
from engine.groups import GROUP_ID, GROUP_SEQUENCE, Group, Groups
from engine.lane import AHEAD_BYTES, SERIAL_BITS, position_of
from engine.message import Message
from engine.ports import Attempts
from engine.selector.evaluate import Selector
from engine.selector.properties import Properties
from engine.selector.readers import PropertyReaders
from engine.selector.table import SelectorTable
from engine.view import View
from engine.waiting import Waiting, order_of

if TYPE_CHECKING:
    from engine.consumer import Consumer
    from engine.lane import Lane
    from engine.queue import Queue

SCAN_MESSAGES: Final = 2_000  # looked at in memory for all selectors of a queue in one turn; the rest in the next
END: Final = 1 << 62  # above every position
_ENTRY_MASK: Final = (1 << SERIAL_BITS) - 1


class Seat:
    """What a Selection knows of one consumer.  owned: messages of its groups that others have come upon."""

    __slots__ = ("consumer", "view", "owned")

    def __init__(self, consumer: Consumer, view: View) -> None:
        self.consumer = consumer
        self.view = view
        self.owned = Waiting()


class Selection:
    """The views of one queue's consumers, their order, and the owners of its groups.

    The queue's ``rotation`` holds those consumers that may find something, higher priorities first, each priority in
    turn; who found nothing is ``idle`` in its view until something comes.
    views: selector text -> view.  all_view: of the consumers without a selector.
    active: the one consumer that gets anything, where the queue or a consumer is exclusive.
    heir: who takes over from it, once it holds nothing.
    scan_from: priority -> entry after the last page that was read ahead.
    is_open: the consumers that ``consumers_before_dispatch`` waits for have come, or the time for it is over.
    blocking: deliveries that wait for their redelivery, and everything behind them with them.
    originals: tag -> message as it is on the queue, of those that were marked as the first of their group.
    exclusions: messages that some consumers will not have, None before the first.
    budget: messages that may still be looked at in this turn.
    arrived_count: messages that were looked at as they came.
    """

    __slots__ = (
        "queue",
        "readers",
        "views",
        "by_number",
        "table",
        "all_view",
        "next_number",
        "active",
        "heir",
        "has_priorities",
        "is_in_turn",
        "is_open",
        "groups",
        "scan_from",
        "budget",
        "arrived_count",
        "now_ms",
        "blocking",
        "originals",
        "exclusions",
    )

    def __init__(self, queue: Queue, readers: PropertyReaders, now_ms: int) -> None:
        policy = queue.settings.queue
        self.queue = queue
        self.readers = readers
        self.views: dict[str, View] = {}
        self.by_number: dict[int, View] = {}
        self.table = SelectorTable()
        self.all_view: View | None = None
        self.next_number = 1
        self.active: Consumer | None = None
        self.heir: Consumer | None = None
        self.has_priorities = False
        self.is_in_turn = not policy.strict_order_dispatch
        self.is_open = False
        self.groups = Groups(policy.group_buckets)
        self.scan_from: dict[int, int] = {}
        self.budget = SCAN_MESSAGES
        self.arrived_count = 0
        self.now_ms = now_ms
        self.blocking: list[Delivery] = []
        self.originals: dict[int, Message] = {}
        self.exclusions: Exclusions | None = None

    # -- consumers come and go

    def add(self, consumer: Consumer) -> None:
        """Give a consumer its seat."""
        view = self._view(consumer.selector)
        view.consumer_count += 1
        consumer.seat = Seat(consumer, view)
        if consumer.priority:
            self.has_priorities = True
        if self.exclusions is not None:
            for delivery in self.exclusions.waiting():
                if self._matches(view, delivery):
                    consumer.seat.owned.push(delivery)
        if consumer.is_listed:  # it took its turns before there was a Selection
            self.queue.rotation.remove(consumer)
            self.list_consumer(consumer)
        if self.queue.settings.queue.group_rebalance:
            for group in list(self.groups.by_key.values()):
                self.release(group)
        self.choose_active()

    def remove(self, consumer: Consumer) -> None:
        """Take the seat of a consumer that has closed; its groups are free."""
        seat = consumer.seat
        assert seat is not None, "a consumer of this queue has a seat"
        consumer.seat = None
        view = seat.view
        view.consumer_count -= 1
        if view.consumer_count == 0:
            self._drop(view)
        for group in self.groups.owned_by(consumer):
            group.owner = None
        self.choose_active()
        offered = seat.owned.take_all()
        if self.exclusions is not None:
            offered += self.exclusions.forget(consumer)
        self.offer(offered)

    def close(self) -> None:
        """Go back to plain dispatch."""
        for view in self.by_number.values():
            while view.idle:
                self.queue.rotation.append(view.idle.popleft())
        for consumer in self.queue.consumers.values():
            consumer.seat = None
        for lane in self.queue.used_lanes:
            lane.drop_taken()
            for delivery in list(lane.ahead.values()):
                lane.forget_ahead(delivery)

    def _view(self, selector: Selector | None) -> View:
        text = "" if selector is None else selector.text
        view = self.views.get(text)
        if view is not None:
            return view
        behind = 0
        for lane in self.queue.used_lanes:
            behind |= lane.bit
        view = View(self.next_number, selector, behind)
        view.arrived_before = self.arrived_count
        self.next_number += 1
        self.views[text] = view
        self.by_number[view.number] = view
        if selector is None:
            self.all_view = view
        else:
            self.table.add(view.number, selector)
        for lane in self.queue.used_lanes:
            for delivery in lane.returned:
                self._look(view, delivery)
        return view

    def _drop(self, view: View) -> None:
        """Forget a view without consumers, and what was read ahead for nobody else."""
        del self.by_number[view.number]
        for delivery in view.waiting.by_order.values():
            if delivery.lane.ahead and not self._is_wanted(delivery):
                delivery.lane.forget_ahead(delivery)
        if view.selector is None:
            del self.views[""]
            self.all_view = None
        else:
            del self.views[view.selector.text]
            self.table.remove(view.number)

    def _is_wanted(self, delivery: Delivery) -> bool:
        """Say whether a delivery waits for somebody."""
        order = order_of(delivery)
        group = self.groups.of(delivery)
        return (
            (group is not None and order in group.parked.by_order)
            or any(order in view.waiting.by_order for view in self.by_number.values())
            or any(
                order in consumer.seat.owned.by_order
                for consumer in self.queue.consumers.values()
                if consumer.seat is not None
            )
        )

    def choose_active(self) -> None:
        """Where one consumer gets everything, choose it: the highest priority, then the one that came first.

        One of a higher priority takes over once the active one holds nothing any more, so that the order stays.
        """
        queue = self.queue
        exclusive = [one for one in queue.consumers.values() if one.is_exclusive]
        if not exclusive:
            if not queue.settings.queue.exclusive_consumer:
                self.active = self.heir = None
                return
            exclusive = list(queue.consumers.values())
        best = min(exclusive, key=_rank, default=None)
        active = self.active
        self.heir = None
        if active is best:
            return
        if active is not None and active in exclusive and active.ledger:
            self.heir = best
            return
        self.active = best
        if best is not None:
            self.wake(best)

    # -- turns

    def begin_turn(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.budget = SCAN_MESSAGES

    def let_rest(self, consumer: Consumer) -> None:
        """The consumer in front has found nothing: it takes no turns until something comes."""
        seat = consumer.seat
        assert seat is not None, "a consumer of this queue has a seat"
        self.take_turn_from(consumer)
        seat.view.idle.append(consumer)

    def take_turn_from(self, consumer: Consumer) -> None:
        """Take out the consumer whose turn it was: not always the first still, for a higher priority may have woken."""
        rotation = self.queue.rotation
        if rotation[0] is consumer:
            rotation.popleft()
        else:
            rotation.remove(consumer)

    def list_consumer(self, consumer: Consumer) -> None:
        """Let a consumer take its turn: the last one of its priority, or in its own place where there are no turns."""
        rotation = self.queue.rotation
        if not self.is_in_turn:
            insort(rotation, consumer, key=_rank)
            return
        if not self.has_priorities or not rotation or rotation[-1].priority >= consumer.priority:
            rotation.append(consumer)
            return
        index = len(rotation) - 1
        while index > 0 and rotation[index - 1].priority < consumer.priority:
            index -= 1
        rotation.insert(index, consumer)

    def unlist_consumer(self, consumer: Consumer) -> None:
        seat = consumer.seat
        if seat is not None and consumer in seat.view.idle:
            seat.view.idle.remove(consumer)
        else:
            self.queue.rotation.remove(consumer)

    def next_turn(self) -> None:
        """The consumer in front has got a message: the next one of its priority comes before it."""
        rotation = self.queue.rotation
        if len(rotation) < 2 or not self.is_in_turn:
            return
        if not self.has_priorities:
            rotation.rotate(-1)
        else:
            self.list_consumer(rotation.popleft())

    def wake(self, consumer: Consumer) -> None:
        """Let a consumer that found nothing look again."""
        seat = consumer.seat
        if seat is not None and consumer.is_listed and consumer in seat.view.idle:
            seat.view.idle.remove(consumer)
            self.list_consumer(consumer)
            self.queue.mark_dirty()

    def _wake_one(self, view: View) -> None:
        """Something has come for ``view``: let one of its consumers look again."""
        idle = view.idle
        if not idle:
            return
        if self.active is not None:
            self.wake(self.active)
            return
        if self.has_priorities or not self.is_in_turn:
            consumer = min(idle, key=_priority if self.is_in_turn else _rank)
            idle.remove(consumer)
        else:
            consumer = idle.popleft()
        self.list_consumer(consumer)
        self.queue.mark_dirty()

    def held_by(self) -> int:
        """Return the gate that keeps everybody from getting anything, gates.OPEN for none."""
        if not self.is_open:
            return gates.CONSUMERS_BEFORE_DISPATCH
        queue = self.queue
        if queue.delayed_count:
            if self.active is not None or not queue.settings.redelivery.non_blocking_redelivery:
                return gates.DELAYED
            if self.blocking:
                self.blocking = [one for one in self.blocking if one.state == DELAYED]
                if self.blocking:
                    return gates.DELAYED
        return gates.OPEN

    def next_for(self, consumer: Consumer) -> Delivery | None:
        """Return what ``consumer`` is to get now and leave it where it is; None if it must wait."""
        if self.active is not None and (self.active is not consumer or self.heir is not None):
            return None
        seat = consumer.seat
        assert seat is not None, "a consumer of this queue has a seat"
        view = seat.view
        while True:
            if view.behind:
                self._feed(view)
            delivery = view.waiting.first()
            if delivery is not None and not view.has_passed(delivery):
                delivery = None  # something before it may match
            owned = seat.owned.first()
            if owned is not None and (delivery is None or order_of(owned) <= order_of(delivery)):
                source = seat.owned
                delivery = owned
            elif delivery is not None:
                source = view.waiting
            else:
                return None
            if self.groups.key(delivery) == 0 or self._may_have(consumer, delivery):
                return delivery
            source.pop()  # it waits somewhere else

    # -- groups

    def _may_have(self, consumer: Consumer, delivery: Delivery) -> bool:
        """Say whether the group of ``delivery`` lets ``consumer`` have it now; if not, put it where it waits."""
        group = self.groups.of(delivery)
        if group is None:
            return True  # ``taken`` begins it
        if group.holds_back(delivery):
            group.parked.push(delivery)
            return False
        owner = group.owner
        if owner is None or owner is consumer:
            return True
        seat = owner.seat
        assert seat is not None, "the owner of a group is there"
        if not self._matches(seat.view, delivery) or self._is_excluded(owner, delivery):
            return True  # its owner does not want it: so it is nobody's
        seat.owned.push(delivery)
        self.wake(owner)
        return False

    def taken(self, consumer: Consumer, delivery: Delivery) -> Group | None:
        """``consumer`` gets ``delivery``: return its group if that is the consumer's, else None."""
        key = self.groups.key(delivery)
        if key == 0:
            return None
        group = self.groups.by_key.get(key)
        properties = self._properties(delivery)
        if group is None:
            group = self.groups.begin(key, "")
        if not group.text:
            value = properties.get(GROUP_ID)
            group.text = value if isinstance(value, str) else f"#{key:x}"
        group.is_new = group.owner is None
        if group.is_new:
            group.owner = consumer
        if group.owner is not consumer:
            return None
        self.groups.use(group, self.now_ms)
        sequence = properties.get(GROUP_SEQUENCE)
        if isinstance(sequence, (int, float)) and sequence < 0:
            self.close_group(group)
        return group

    def close_group(self, group: Group) -> None:
        """Forget a group whose sequence has ended: the next message with its id begins a new one."""
        del self.groups.by_key[group.key]
        self._release_waiting(group)

    def release(self, group: Group) -> None:
        """Take a group from its owner; whoever is next once the owner has settled what it holds gets it."""
        self._release_waiting(group)
        group.owner = None

    def _release_waiting(self, group: Group) -> None:
        owner = group.owner
        waiting = group.parked.take_all()
        if owner is not None and owner.seat is not None:
            waiting += owner.seat.owned.take_all(lambda one: self.groups.key(one) == group.key)
        group.owner = None
        self.offer(waiting)

    def release_idle(self, before_ms: int) -> None:
        """Take from their owners all groups whose last message went out before ``before_ms`` and is settled."""
        for group in list(self.groups.by_key.values()):
            if group.used_ms > before_ms:
                break
            if not group.unsettled:
                self.release(group)
                if not group.is_busy():
                    self.groups.by_key.pop(group.key, None)

    def left(self, delivery: Delivery) -> None:
        """A delivery has left its consumer's hands: settled, refused, or returned."""
        if self.originals:
            delivery.message = self.originals.pop(delivery.tag, delivery.message)
        group = self.groups.of(delivery)
        if group is not None:
            group.unsettled.discard(delivery.tag)
            if not group.unsettled and group.owner is None:
                self.offer(group.parked.take_all())
        if self.heir is not None:
            self.choose_active()

    def delay(self, delivery: Delivery, is_blocking: bool = False) -> None:
        """A delivery waits for its redelivery; what must not overtake it waits with it.

        is_blocking: nothing of the queue must.
        """
        if is_blocking:
            self.blocking.append(delivery)
        key = self.groups.key(delivery)
        if key:
            group = self.groups.by_key.get(key) or self.groups.begin(key, "")
            group.delayed.append(delivery)

    def owners(self) -> dict[str, int]:
        """Return the id of each group -> the number of the consumer that owns it."""
        return {group.text: group.owner.consumer_id for group in self.groups.by_key.values() if group.owner is not None}

    def exclude(self, delivery: Delivery) -> None:
        """Let the consumer that has ``delivery`` not have it again; a group of which it is goes to another one."""
        consumer = delivery.consumer
        assert consumer is not None, "a refused delivery is with a consumer"
        if self.exclusions is None:
            self.exclusions = Exclusions()
        self.exclusions.add(delivery, consumer)
        group = self.groups.of(delivery)
        if group is not None and group.owner is consumer:
            self.release(group)

    # -- messages come

    def arrived(self, lane: Lane, message: Message) -> None:
        """A message is new on the queue: in memory, or, if there is no room, only on disk."""
        bit = lane.bit
        delivery = lane.newest(message)
        self.arrived_count += 1
        for view in self._views_of(message, 1, False):
            if view.behind & bit:
                continue
            if view.is_full(lane.priority):
                view.fall_behind(lane.priority, lane.last_position)
                continue
            if delivery is None:
                if lane.ahead_bytes > AHEAD_BYTES:
                    view.fall_behind(lane.priority, lane.last_position)
                    continue
                delivery = lane.keep_ahead(message)
            self._put(view, delivery)

    def offer(self, deliveries: list[Delivery]) -> None:
        """Deliveries that are READY again may go to anybody."""
        for delivery in deliveries:
            if self.groups.by_key:
                group = self.groups.of(delivery)
                if group is not None and group.delayed:
                    for parked in group.parked.take_all():
                        self._offer(parked)
            self._offer(delivery)

    def _offer(self, delivery: Delivery) -> None:
        if self.exclusions is not None and self.exclusions.holds(delivery):
            self._offer_to_others(self.exclusions, delivery)
            return
        is_ahead = delivery.position >> SERIAL_BITS >= delivery.lane.next_load and delivery.message.queue_offset >= 0
        for view in self._views_of(delivery.message, delivery.failed_attempts + 1, delivery.is_redelivered):
            if not is_ahead or view.has_passed(delivery):
                self._put(view, delivery)  # else its reading will come upon it

    def _offer_to_others(self, exclusions: Exclusions, delivery: Delivery) -> None:
        for consumer in self.queue.consumers.values():
            seat = consumer.seat
            if seat is None or exclusions.excludes(delivery, consumer) or not self._matches(seat.view, delivery):
                continue
            seat.owned.push(delivery)
            self.wake(consumer)

    def page_read(
        self, lane: Lane, first: int, next_offset: int, messages: list[Message], wall_ms: int
    ) -> list[tuple[Delivery, Attempts]]:
        """Look at a page that was read ahead of what is in memory; return what was found that has failed before.

        What is not due again at ``wall_ms`` is DELAYED already.
        """
        priority = lane.priority
        low = max(first, lane.next_load) << SERIAL_BITS
        high = next_offset << SERIAL_BITS
        self.scan_from[priority] = next_offset
        taking: dict[int, int] = {}
        for view in self.by_number.values():
            if view.behind & lane.bit:
                self._scan_memory(view, lane)
                if view.behind & lane.bit and low <= view.cursor(priority) < high:
                    taking[view.number] = view.cursor(priority)
        failed: list[tuple[Delivery, Attempts]] = []
        for message in messages:
            offset = message.queue_offset
            position = offset << SERIAL_BITS
            if position < low or offset in lane.settled:
                continue
            delivery = lane.ahead.get(offset)
            known = lane.attempts.get(offset)
            if delivery is not None:
                views = self._views_of(message, delivery.failed_attempts + 1, delivery.is_redelivered)
            else:
                views = self._views_of(message, 1 if known is None else known.count + 1, known is not None)
            for view in views:
                cursor = taking.get(view.number)
                if cursor is None or cursor > position:
                    continue
                if delivery is None:
                    delivery = lane.keep_ahead(message)
                    if known is not None:
                        failed.append((delivery, known))
                        if known.due_ms > wall_ms:
                            delivery.state = DELAYED
                            lane.ahead_bytes -= message.size
                if delivery.state == READY:
                    self._put(view, delivery)
        for number, cursor in taking.items():
            view = self.by_number[number]
            view.looked_count += len(messages)
            view.cursors[priority] = high
            if self._look_at_volatile(view, lane, cursor, high):
                self._scan_memory(view, lane)
        return failed

    def scan_start(self, lane: Lane) -> int:
        """Return the entry from which a page is wanted for a view whose consumers have nothing to do, -1 for none.

        Reading goes on upwards from the last page and then begins anew, so that nobody waits for ever.
        """
        lowest = following = lane.tail
        scan_from = self.scan_from.get(lane.priority, 0)
        for view in self.by_number.values():
            if not view.behind & lane.bit or not view.idle or view.waiting.first() is not None:
                continue
            if self.active is not None and (self.active.seat is None or self.active.seat.view is not view):
                continue
            entry = max((view.cursor(lane.priority) + _ENTRY_MASK) >> SERIAL_BITS, lane.next_load)
            lowest = min(lowest, entry)
            if entry >= scan_from:
                following = min(following, entry)
        if following < lane.tail:
            return following
        return lowest if lowest < lane.tail else -1

    def feed_idle(self) -> None:
        """Look for something for those who found nothing."""
        for view in list(self.by_number.values()):
            if view.behind and view.idle:
                self._feed(view)
                first = view.waiting.first()
                if first is not None and view.has_passed(first):
                    while view.idle:
                        self.list_consumer(view.idle.popleft())

    # -- why

    def gate(self, consumer: Consumer) -> int:
        """Return what holds a consumer that has room, gates.OPEN for nothing."""
        held_by = self.held_by()
        if held_by != gates.OPEN:
            return held_by
        if self.active is not None and (self.active is not consumer or self.heir is not None):
            return gates.EXCLUSIVE_OWNER
        seat = consumer.seat
        assert seat is not None, "a consumer of this queue has a seat"
        view = seat.view
        if seat.owned.first() is not None or view.waiting.first() is not None:
            return gates.OPEN
        queue = self.queue
        for lane in queue.used_lanes:
            if view.behind & lane.bit and lane.next_load < lane.tail:
                if queue.fault():
                    return gates.STORE_DAMAGED
                return gates.LOOK_AHEAD if lane.ahead_bytes > AHEAD_BYTES else gates.PAGING
        if queue.depth <= queue.in_flight_count + queue.delayed_count:
            return gates.DELAYED if queue.delayed_count else gates.NOTHING_WAITING
        if self.exclusions is not None and self.exclusions.keep_from(consumer):
            return gates.EXCLUDED
        return gates.GROUP_OWNER if view.selector is None else gates.SELECTOR

    def describe(self, consumer: Consumer, gate: int) -> str:
        """Return in words what a gate of this queue is about, "" for any other gate."""
        queue = self.queue
        if gate == gates.EXCLUSIVE_OWNER and self.active is not None:
            if self.active is consumer:
                return "it hands over to a consumer of a higher priority"
            return f"consumer {self.active.consumer_id} has the queue"
        if gate == gates.CONSUMERS_BEFORE_DISPATCH:
            return f"{len(queue.consumers)} of {queue.settings.queue.consumers_before_dispatch} consumers"
        if gate == gates.DELAYED and self.held_by() == gates.DELAYED:
            return "what comes next waits for a redelivery, so that the order stays"
        if gate == gates.EXCLUDED:
            return "what waits, it has said it cannot take (undeliverable-here); another consumer may"
        if gate == gates.GROUP_OWNER:
            return "what waits belongs to groups of other consumers"
        if gate == gates.LOOK_AHEAD:
            return f"more than {AHEAD_BYTES:,} octets were found ahead for others, who do not take them"
        if gate == gates.SELECTOR and consumer.seat is not None:
            view = consumer.seat.view
            looked_count = view.looked_count + self.arrived_count - view.arrived_before
            return f"{looked_count:,} looked at, {f'{view.matched_count:,}' if view.matched_count else 'none'} matched"
        return ""

    # -- the steps

    def _properties(self, delivery: Delivery) -> Properties:
        return self.readers.properties(delivery.message, delivery.failed_attempts + 1, delivery.is_redelivered)

    def _views_of(self, message: Message, delivery_count: int, is_redelivered: bool) -> list[View]:
        """Return the views that a message belongs to."""
        found: list[View] = [] if self.all_view is None else [self.all_view]
        if self.table.selectors:
            properties = self.readers.properties(message, delivery_count, is_redelivered)
            by_number = self.by_number
            found += [by_number[number] for number in self.table.matching(properties)]
        return found

    def _matches(self, view: View, delivery: Delivery) -> bool:
        selector = view.selector
        if selector is None:
            return True
        return selector.matches(self._properties(delivery))

    def _is_excluded(self, consumer: Consumer, delivery: Delivery) -> bool:
        return self.exclusions is not None and self.exclusions.excludes(delivery, consumer)

    def _put(self, view: View, delivery: Delivery) -> None:
        if self.exclusions is not None and self.exclusions.holds(delivery):
            return  # it waits with each consumer that will have it
        view.matched_count += 1
        view.waiting.push(delivery)
        if view.idle:
            self._wake_one(view)

    def _look(self, view: View, delivery: Delivery) -> None:
        if delivery.state != READY:
            return
        self.budget -= 1
        view.looked_count += 1
        if self._matches(view, delivery):
            self._put(view, delivery)

    def _feed(self, view: View) -> None:
        """Look further where the view is behind: at higher priorities than what it has, and on, if it has nothing."""
        for lane in sorted(self.queue.used_lanes, key=_lane_rank):
            if not view.behind & lane.bit:
                continue
            first = view.waiting.first()
            if first is not None and (first.lane.priority > lane.priority or view.has_passed(first)):
                return
            self._scan_memory(view, lane)

    def _scan_memory(self, view: View, lane: Lane) -> None:
        """Look at what is in memory of a lane, from the view's cursor on."""
        priority = lane.priority
        cursor = view.cursor(priority)
        ready = lane.ready
        if ready and ready[-1].position >= cursor:
            start = bisect_left(ready, cursor, key=position_of) if ready[0].position < cursor else 0
            if not self._look_at(view, priority, ready, start, END):
                return
            cursor = ready[-1].position + 1
        entry = max((cursor + _ENTRY_MASK) >> SERIAL_BITS, lane.next_load)
        if not self._look_at_volatile(view, lane, cursor, END if entry >= lane.tail else entry << SERIAL_BITS):
            return
        if entry >= lane.tail:
            view.catch_up(priority)
        else:
            view.cursors[priority] = entry << SERIAL_BITS

    def _look_at_volatile(self, view: View, lane: Lane, first: int, end: int) -> bool:
        """Look at what waits behind entries on disk, at positions from ``first`` to ``end``."""
        volatile = lane.volatile
        if not volatile or volatile[-1].position < first:
            return True
        return self._look_at(view, lane.priority, volatile, bisect_left(volatile, first, key=position_of), end)

    def _look_at(self, view: View, priority: int, waiting: deque[Delivery], start: int, end: int) -> bool:
        """Look at ``waiting`` from index ``start`` to position ``end``; return False if that is too much for now."""
        for delivery in islice(waiting, start, None):
            if delivery.position >= end:
                break
            if self.budget <= 0 or view.is_full(priority):
                view.cursors[priority] = delivery.position
                return False
            self._look(view, delivery)
        return True


def _rank(consumer: Consumer) -> tuple[int, int]:
    return -consumer.priority, consumer.consumer_id


def _priority(consumer: Consumer) -> int:
    return -consumer.priority


def _lane_rank(lane: Lane) -> int:
    return -lane.priority
