"""Consumers that one thing holds together: an outlet that takes nothing now, a window that several share.

They stand in no rotation while it lasts.  Once it is over they are woken one after the other, only as many as there is
room for, and the next ones if those found nothing: so what a message costs does not depend on how many there are.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from engine.consumers.consumer import Consumer
    from engine.consumers.outlet import Outlet
    from engine.consumers.turn_steps import Steps

WAKES_AT_ONCE: Final = 256  # consumers of one room, before those are asked that were woken


class Resting:
    """A room of such consumers, the one that came first in front.

    lead: of those that share its window; None for those that share the outlet.
    is_waking: the condition is over, and ``Wakes`` goes through them.
    """

    __slots__ = ("outlet", "lead", "consumers", "is_waking")

    def __init__(self, outlet: Outlet, lead: Consumer | None) -> None:
        self.outlet = outlet
        self.lead = lead
        self.consumers: OrderedDict[int, Consumer] = OrderedDict()
        self.is_waking = False

    def add(self, consumer: Consumer) -> None:
        if consumer.resting is None:
            consumer.resting = self
            self.consumers[consumer.consumer_id] = consumer

    def remove(self, consumer: Consumer) -> None:
        consumer.resting = None
        del self.consumers[consumer.consumer_id]

    def room(self) -> int:
        """Return how many may be woken now."""
        if self.outlet.is_output_full:
            return 0
        if self.lead is None:
            return WAKES_AT_ONCE
        window = self.lead.window
        return 0 if window.is_full else min(max(1, window.room()), WAKES_AT_ONCE)


class Wakes:
    """The rooms whose consumers may take their turns again."""

    __slots__ = ("rooms", "steps")

    def __init__(self, steps: Steps) -> None:
        self.rooms: list[Resting] = []
        self.steps = steps

    def open(self, room: Resting) -> None:
        """What held the consumers of ``room`` is over."""
        if room.consumers and not room.is_waking:
            room.is_waking = True
            self.rooms.append(room)
            self.steps.agenda.is_open = True

    def run(self) -> None:
        """Wake as many of each room as may have something now; call it again once they have looked."""
        rooms, self.rooms = self.rooms, []
        for room in rooms:
            room.is_waking = False
            self._wake(room)
        if self.rooms and self.steps.left <= 0:
            self.steps.need_a_turn()

    def _wake(self, room: Resting) -> None:
        count = room.room()
        if count == 0:
            if room.lead is not None and room.outlet.is_output_full:
                room.outlet.resting.add(room.lead)  # which opens this room again
            return
        steps = self.steps
        while count > 0 and room.consumers and steps.left > 0:
            steps.left -= 1
            consumer = next(iter(room.consumers.values()))
            room.remove(consumer)
            siblings = consumer.siblings
            if room.lead is None and siblings is not None and siblings.lead is consumer:
                siblings.opened()
                continue
            consumer.queue.list_one(consumer)
            if consumer.is_listed:
                count -= 1
        self.open(room)
