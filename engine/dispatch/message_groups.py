"""Message groups: all messages of a group are sent to one consumer, in order, as long as it exists.

Source: ActiveMQ message groups (JMSXGroupID, JMSXGroupSeq); Artemis group-rebalance, group-buckets.  Two rules are
stricter here.  A group that changes hands waits until its last owner has settled what it holds.  While one of its
messages awaits redelivery, later ones wait as well.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice
from typing import Final

from engine.backlog.waiting_deliveries import Waiting, order_of
from engine.consumers.consumer import Consumer
from engine.dispatch.priority_and_exclusive import Turns
from engine.dispatch.selector_index import SelectorIndex
from engine.dispatch.selector_view import seat_of
from engine.sources.queue import Queue
from engine.values.delivery import DELAYED, READY, Delivery
from engine.values.stored import NEVER_MS

GROUPS_MAX: Final = 10_000  # groups whose owners a queue remembers; beyond, groups without messages are forgotten
ALL_GROUPS_MAX: Final = 50_000  # the same for all queues together; a group takes 1.7 KiB
SWEEP_GROUPS: Final = 4  # groups examined for each new one beyond these
TEXT_MOST: Final = 200  # characters of a group's id that are kept
NOTHING_DELAYED: Final = 1 << 128  # above every order

GROUP_ID: Final = "JMSXGroupID"
GROUP_SEQUENCE: Final = "JMSXGroupSeq"


@dataclass(slots=True, eq=False)
class Group:
    """One group.

    key: hash of its id, or its bucket.  text: the beginning of the id in the first message seen of it, for ``why``.
    unsettled: tags of its messages that consumers hold.
    delayed: its messages that await redelivery, by their order.  parked: messages that wait for one of these.
    expecting: messages put aside for its owner, until they are handed over.
    is_new: it has just got its owner.  used_ms: monotonic time of its last message.
    """

    key: int
    text: str
    _owner: Consumer | None = None
    unsettled: set[int] = field(default_factory=set)
    delayed: dict[int, Delivery] = field(default_factory=dict)
    parked: Waiting = field(default_factory=Waiting)
    is_new: bool = False
    expecting: deque[Delivery] = field(default_factory=deque)
    used_ms: int = 0
    _delayed_orders: list[int] = field(default_factory=list)

    def owner(self) -> Consumer | None:
        """Return the consumer that gets its messages, None if it is free: a consumer that has gone owns nothing."""
        owner = self._owner
        if owner is not None and owner.seat is None:
            self._owner = None
            return None
        return owner

    def give_to(self, owner: Consumer | None) -> None:
        self._owner = owner

    def holds_back(self, delivery: Delivery) -> bool:
        """Say whether ``delivery`` must wait, whichever consumer would get it."""
        if self.unsettled and self.owner() is None:
            return True
        return bool(self.delayed) and self.first_delayed() < order_of(delivery)

    def delay(self, delivery: Delivery) -> None:
        """Note a message that awaits redelivery."""
        order = order_of(delivery)
        if order not in self.delayed:
            heappush(self._delayed_orders, order)
        self.delayed[order] = delivery

    def first_delayed(self) -> int:
        """Return the order of the first message that still awaits redelivery, NOTHING_DELAYED for none."""
        orders = self._delayed_orders
        while orders:
            delivery = self.delayed.get(orders[0])
            if delivery is not None and delivery.state == DELAYED:
                return orders[0]
            self.delayed.pop(heappop(orders), None)
        return NOTHING_DELAYED

    def take_free(self) -> list[Delivery]:
        """Remove and return the parked messages that no longer wait for anything, in order."""
        taken: list[Delivery] = []
        while (delivery := self.parked.first()) is not None and not self.holds_back(delivery):
            taken.append(self.parked.pop())
        return taken

    def expect(self, delivery: Delivery) -> None:
        """Put a message aside for the owner."""
        self._forget_had()
        self.expecting.append(delivery)

    def _forget_had(self) -> None:
        while self.expecting and self.expecting[0].state != READY:
            self.expecting.popleft()

    def is_busy(self) -> bool:
        """Say whether forgetting the group would change the order of its messages."""
        self._forget_had()
        return (
            bool(self.unsettled)
            or bool(self.expecting)
            or self.first_delayed() != NOTHING_DELAYED
            or self.parked.first() is not None
        )


@dataclass(slots=True, eq=False)
class GroupTotal:
    """count: groups of all queues."""

    count: int = 0


@dataclass(slots=True, eq=False)
class Groups:
    """The groups of one queue, in the order of their last message, the oldest first.

    latest_ms: when one of them last had a message.  unsettled_count: their messages that consumers hold.
    buckets: -1 for a group per id, otherwise ids are hashed into this many groups; 0 for no groups at all.
    """

    buckets: int
    total: GroupTotal = field(default_factory=GroupTotal)
    by_key: OrderedDict[int, Group] = field(default_factory=OrderedDict)
    latest_ms: int = 0
    unsettled_count: int = 0

    def key(self, delivery: Delivery) -> int:
        """Return the group that a message belongs to, 0 for none."""
        group_hash = delivery.message.group_hash
        if group_hash == 0 or self.buckets == 0:
            return 0
        return group_hash if self.buckets < 0 else group_hash % self.buckets + 1

    def of(self, delivery: Delivery) -> Group | None:
        """Return the group of a message, None if it has none or the group never had an owner."""
        return self.by_key.get(self.key(delivery)) if self.by_key else None

    def begin(self, key: int, text: str) -> Group:
        """Add a group; if there are too many, forget some that have no messages."""
        if len(self.by_key) >= GROUPS_MAX or self.total.count >= ALL_GROUPS_MAX:
            self._forget_some()
        group = self.by_key[key] = Group(key, text)
        self.total.count += 1
        return group

    def close(self) -> None:
        """Forget all."""
        self.total.count -= len(self.by_key)
        self.by_key.clear()

    def delay(self, delivery: Delivery) -> None:
        """A delivery awaits its redelivery, and the later messages of its group wait with it."""
        key = self.key(delivery)
        if key:
            group = self.by_key.get(key) or self.begin(key, "")
            group.delay(delivery)

    def use(self, group: Group, now_ms: int) -> None:
        """Note that a message of ``group`` was sent to its owner."""
        group.used_ms = now_ms
        self.latest_ms = now_ms
        self.by_key.move_to_end(group.key)

    def add_unsettled(self, group: Group, tag: int) -> None:
        """Note that a consumer holds a message of ``group``, unless that message has ended the group."""
        if self.by_key.get(group.key) is group:
            group.unsettled.add(tag)
            self.unsettled_count += 1

    def remove_unsettled(self, group: Group, tag: int) -> None:
        """Note that a consumer no longer holds a message, if it was of this group."""
        if tag in group.unsettled:
            group.unsettled.discard(tag)
            self.unsettled_count -= 1

    def forget(self, group: Group) -> None:
        """Begin the group anew with its next message."""
        if self.by_key.pop(group.key, None) is not None:
            self.total.count -= 1
            self.unsettled_count -= len(group.unsettled)

    def unused_since(self, before_ms: int) -> list[Group]:
        """Return the groups whose last message went out no later than ``before_ms``."""
        unused: list[Group] = []
        for group in self.by_key.values():
            if group.used_ms > before_ms:
                break
            unused.append(group)
        return unused

    def _forget_some(self) -> None:
        """Forget the longest unused groups, except those whose messages could change order; these are retried later."""
        for key in list(islice(self.by_key, SWEEP_GROUPS)):
            group = self.by_key[key]
            if group.is_busy():
                group.used_ms = self.latest_ms  # keeps the groups ordered by time
                self.by_key.move_to_end(key)
            else:
                del self.by_key[key]
                self.total.count -= 1


RELEASE_STEPS: Final = 4  # for a group taken from its owner


@dataclass(slots=True, eq=False)
class GroupOwners:
    """release_from: groups to take from their owners.

    release_before_ms: only groups not used since then; NEVER_MS for all.
    offered: deliveries to offer to all consumers.  now_ms: of this turn.
    active: the only consumer that could get messages at the last look, None if all could.
    """

    queue: Queue
    groups: Groups
    index: SelectorIndex
    turns: Turns
    offered: deque[Delivery]
    now_ms: int
    release_from: deque[Group] = field(default_factory=deque)
    release_before_ms: int = 0
    active: Consumer | None = None

    def release_all(self) -> None:
        """Take all groups from their owners, some in each turn: there is one consumer more, or another is active."""
        self.release_from = deque(self.groups.by_key.values())
        self.release_before_ms = NEVER_MS

    def may_have(self, consumer: Consumer, delivery: Delivery) -> bool:
        """Say whether ``consumer`` may have ``delivery`` now, as far as its group decides; if not, park it."""
        group = self.groups.of(delivery)
        if group is None or not consumer.is_ruled:
            return True  # ``taken`` begins it
        if group.holds_back(delivery):
            group.parked.push(delivery)
            return False
        owner = group.owner()
        if owner is None or owner is consumer:
            return True
        seat = seat_of(owner)
        assert seat is not None, "the owner of a group has a seat"
        if not self.index.matches(seat.view, delivery) or self.index.is_excluded(owner, delivery):
            return True  # its owner does not want it, so any other consumer may have it
        seat.owned.push(delivery)
        group.expect(delivery)
        self.turns.wake(owner)
        return False

    def taken(self, consumer: Consumer, delivery: Delivery) -> Group | None:
        """Note that ``consumer`` gets ``delivery``; return its group if the consumer owns it, else None."""
        key = self.groups.key(delivery)
        if key == 0:
            return None
        group = self.groups.by_key.get(key)
        properties = self.index.properties(delivery)
        if group is None:
            group = self.groups.begin(key, "")
        if not group.text:
            value = properties.known(GROUP_ID)
            group.text = value[:TEXT_MOST] if isinstance(value, str) else f"#{key:x}"
        group.is_new = group.owner() is None and consumer.is_ruled
        if group.is_new:
            group.give_to(consumer)
        if group.owner() is not consumer:
            return None
        self.groups.use(group, self.now_ms)
        sequence = properties.known(GROUP_SEQUENCE)
        if isinstance(sequence, (int, float)) and sequence < 0:
            self._close(group)
        return group

    def _close(self, group: Group) -> None:
        """Forget a group whose sequence has ended; the next message with its id begins a new one."""
        self.groups.forget(group)
        self.release(group)

    def release(self, group: Group) -> None:
        """Take a group from its owner; the next owner gets it once the old one has settled what it holds."""
        owner = group.owner()
        waiting = group.parked.take_all()
        seat = None if owner is None else seat_of(owner)
        if seat is not None:
            waiting += [one for one in group.expecting if one.state == READY and seat.owned.remove(one)]
        group.expecting.clear()
        group.give_to(None)
        self.offered.extend(waiting)
        self.queue.mark_dirty()

    def release_idle(self, before_ms: int) -> None:
        """Take groups from their owners if the last message went out before ``before_ms`` and is settled."""
        if not self.release_from:
            self.release_from = deque(self.groups.unused_since(before_ms))
            self.release_before_ms = before_ms

    def go_on_releasing(self) -> None:
        """Take more groups from their owners while steps are left; the queue runs again for the rest."""
        if self.turns.active is not self.active:
            self.active = self.turns.active  # consumers that may get nothing own nothing
            self.release_all()
        while self.release_from and self.index.budget > 0:
            self.index.budget -= RELEASE_STEPS
            group = self.release_from.popleft()
            if self.release_before_ms == NEVER_MS:
                self.release(group)
            elif group.used_ms <= self.release_before_ms and not group.unsettled:
                self.release(group)
                if not group.is_busy():
                    self.groups.forget(group)
