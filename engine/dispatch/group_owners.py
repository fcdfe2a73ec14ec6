"""Assigns message groups to consumers, and takes them away again."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from engine.consumers.consumer import Consumer
from engine.dispatch.message_groups import GROUP_ID, GROUP_SEQUENCE, Group, Groups
from engine.dispatch.seat import seat_of
from engine.dispatch.selector_index import SelectorIndex
from engine.dispatch.turn_order import Turns
from engine.values.delivery import READY, Delivery
from engine.values.stored import NEVER_MS

if TYPE_CHECKING:
    from engine.sources.queue import Queue

RELEASE_STEPS: Final = 4  # for a group taken from its owner


class GroupOwners:
    """release_from: groups to take from their owners.

    release_before_ms: only groups not used since then; NEVER_MS for all.
    offered: deliveries to offer to all consumers.  now_ms: of this turn.
    active: the only consumer that could get messages at the last look, None if all could.
    """

    __slots__ = (
        "queue",
        "groups",
        "index",
        "turns",
        "offered",
        "now_ms",
        "release_from",
        "release_before_ms",
        "active",
    )

    def __init__(
        self,
        queue: Queue,
        groups: Groups,
        index: SelectorIndex,
        turns: Turns,
        offered: deque[Delivery],
        now_ms: int,
    ) -> None:
        self.queue = queue
        self.groups = groups
        self.index = index
        self.turns = turns
        self.offered = offered
        self.now_ms = now_ms
        self.release_from: deque[Group] = deque()
        self.release_before_ms = 0
        self.active: Consumer | None = None

    def release_all(self) -> None:
        """Take all groups from their owners, some in each turn: there is one consumer more, or another is active."""
        self.release_from = deque(self.groups.by_key.values())
        self.release_before_ms = NEVER_MS

    def may_have(self, consumer: Consumer, delivery: Delivery) -> bool:
        """Say whether ``consumer`` may have ``delivery`` now, as far as its group decides; if not, park it."""
        group = self.groups.of(delivery)
        if group is None:
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
            group.text = value if isinstance(value, str) else f"#{key:x}"
        group.is_new = group.owner() is None and consumer.owns_groups
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
