"""Message groups: all messages of a group are sent to one consumer, in order, as long as it exists.

Source: ActiveMQ message groups (JMSXGroupID, JMSXGroupSeq); Artemis group-rebalance, group-buckets.  Two rules are
stricter here.  A group that changes hands waits until its last owner has settled what it holds.  While one of its
messages awaits redelivery, later ones wait as well.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, Final

from engine.backlog.waiting_deliveries import Waiting, order_of
from engine.values.delivery import DELAYED, READY, Delivery

if TYPE_CHECKING:
    from engine.consumers.consumer import Consumer

GROUPS_MAX: Final = 10_000  # groups whose owners a queue remembers; beyond, groups without messages are forgotten
SWEEP_GROUPS: Final = 4  # groups examined for each new one beyond these
NOTHING_DELAYED: Final = 1 << 128  # above every order

GROUP_ID: Final = "JMSXGroupID"
GROUP_SEQUENCE: Final = "JMSXGroupSeq"


class Group:
    """One group.

    key: hash of its id, or its bucket.  text: the id in the first message seen of it, for ``why``.
    unsettled: tags of its messages that consumers hold.
    delayed: its messages that await redelivery, by their order.  parked: messages that wait for one of these.
    expecting: messages put aside for its owner, until they are handed over.
    is_new: it has just got its owner.  used_ms: monotonic time of its last message.
    """

    __slots__ = (
        "key",
        "text",
        "_owner",
        "unsettled",
        "delayed",
        "parked",
        "expecting",
        "is_new",
        "used_ms",
        "_delayed_orders",
    )

    def __init__(self, key: int, text: str) -> None:
        self.key = key
        self.text = text
        self._owner: Consumer | None = None
        self.unsettled: set[int] = set()
        self.delayed: dict[int, Delivery] = {}
        self.parked = Waiting()
        self.is_new = False
        self.expecting: deque[Delivery] = deque()
        self.used_ms = 0
        self._delayed_orders: list[int] = []

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


class Groups:
    """The groups of one queue, in the order of their last message, the oldest first.

    latest_ms: when one of them last had a message.  unsettled_count: their messages that consumers hold.
    buckets: -1 for a group per id, otherwise ids are hashed into this many groups; 0 for no groups at all.
    """

    __slots__ = ("by_key", "latest_ms", "buckets", "unsettled_count")

    def __init__(self, buckets: int) -> None:
        self.by_key: OrderedDict[int, Group] = OrderedDict()
        self.latest_ms = 0
        self.unsettled_count = 0
        self.buckets = buckets

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
        if len(self.by_key) >= GROUPS_MAX:
            self._forget_some()
        group = self.by_key[key] = Group(key, text)
        return group

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

    def hold(self, group: Group, tag: int) -> None:
        """Note that a consumer holds a message of ``group``, unless that message has ended the group."""
        if self.by_key.get(group.key) is group:
            group.unsettled.add(tag)
            self.unsettled_count += 1

    def let_go(self, group: Group, tag: int) -> None:
        """Note that a consumer no longer holds a message, if it was of this group."""
        if tag in group.unsettled:
            group.unsettled.discard(tag)
            self.unsettled_count -= 1

    def forget(self, group: Group) -> None:
        """Begin the group anew with its next message."""
        if self.by_key.pop(group.key, None) is not None:
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
