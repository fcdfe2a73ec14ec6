"""Message groups: all messages of a group go to one consumer, in order, as long as it is there.

Source: ActiveMQ message groups (JMSXGroupID, JMSXGroupSeq); Artemis group-rebalance, group-buckets.  Stricter here:
a group that changes hands waits until its last owner has settled what it holds, and while a message of it waits for its
redelivery what comes after it waits, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.delivery import DELAYED, Delivery
from engine.waiting import Waiting, order_of

if TYPE_CHECKING:
    from engine.consumer import Consumer

GROUPS_MAX: Final = 10_000  # groups a queue remembers the owners of; beyond, those without messages are forgotten

GROUP_ID: Final = "JMSXGroupID"
GROUP_SEQUENCE: Final = "JMSXGroupSeq"


class Group:
    """One group.

    key: hash of its id, or its bucket.  text: the id of the first message that was seen of it, for ``why``.
    owner: who gets its messages, None while it is free.  unsettled: tags of its messages that are with a consumer.
    delayed: its messages that wait for their redelivery.  parked: its messages that wait for one of these.
    is_new: it has just got its owner.  used_ms: monotonic time of its last message.
    """

    __slots__ = ("key", "text", "owner", "unsettled", "delayed", "parked", "is_new", "used_ms")

    def __init__(self, key: int, text: str) -> None:
        self.key = key
        self.text = text
        self.owner: Consumer | None = None
        self.unsettled: set[int] = set()
        self.delayed: list[Delivery] = []
        self.parked = Waiting()
        self.is_new = False
        self.used_ms = 0

    def holds_back(self, delivery: Delivery) -> bool:
        """Say whether ``delivery`` must wait, whoever is to have it."""
        if self.owner is None and self.unsettled:
            return True
        if self.delayed:
            self.delayed = [one for one in self.delayed if one.state == DELAYED]
            order = order_of(delivery)
            return any(order_of(one) < order for one in self.delayed)
        return False

    def is_busy(self) -> bool:
        """Say whether forgetting the group would change the order of its messages."""
        return bool(self.unsettled) or bool(self.delayed) or self.parked.first() is not None


class Groups:
    """The groups of one queue, the one longest without a message first.

    buckets: -1 for a group an id, else ids are hashed into so many; 0 for no groups at all.
    """

    __slots__ = ("by_key", "buckets")

    def __init__(self, buckets: int) -> None:
        self.by_key: dict[int, Group] = {}
        self.buckets = buckets

    def key(self, delivery: Delivery) -> int:
        """Return the group that a message belongs to, 0 for none."""
        group_hash = delivery.message.group_hash
        if group_hash == 0 or self.buckets == 0:
            return 0
        return group_hash if self.buckets < 0 else group_hash % self.buckets + 1

    def of(self, delivery: Delivery) -> Group | None:
        """Return the group of a message, None if it has none or nobody has owned it."""
        return self.by_key.get(self.key(delivery)) if self.by_key else None

    def begin(self, key: int, text: str) -> Group:
        """Remember one more group, and forget some that have no messages if there are too many."""
        if len(self.by_key) >= GROUPS_MAX:
            self._forget_some()
        group = self.by_key[key] = Group(key, text)
        return group

    def use(self, group: Group, now_ms: int) -> None:
        """Note that a message of ``group`` has gone to its owner."""
        group.used_ms = now_ms
        self.by_key[group.key] = self.by_key.pop(group.key)

    def has_unsettled(self) -> bool:
        """Say whether some group waits for what a consumer holds of it."""
        return any(group.unsettled for group in self.by_key.values())

    def owned_by(self, consumer: Consumer) -> list[Group]:
        return [group for group in self.by_key.values() if group.owner is consumer]

    def _forget_some(self) -> None:
        """Forget those that have been without a message for longest, but none whose order that could change."""
        expected = {
            self.key(delivery)
            for group in self.by_key.values()
            if group.owner is not None and group.owner.seat is not None
            for delivery in group.owner.seat.owned.by_order.values()
        }
        idle = [key for key, group in self.by_key.items() if key not in expected and not group.is_busy()]
        for key in idle[: GROUPS_MAX // 4]:
            del self.by_key[key]
