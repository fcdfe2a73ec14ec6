"""Wakes resting consumers: as many of each room as there is room for, some in each turn."""

from __future__ import annotations

from engine.consumers.consumer import Consumer
from engine.consumers.resting import Resting
from engine.consumers.turn_steps import Steps


class Wakes:
    """The rooms whose consumers may take turns again."""

    __slots__ = ("rooms", "steps")

    def __init__(self, steps: Steps) -> None:
        self.rooms: list[Resting] = []
        self.steps = steps

    def open(self, room: Resting) -> None:
        """Wake the consumers of ``room``: the cause that held them is over."""
        if room.consumers and not room.is_waking:
            room.is_waking = True
            self.rooms.append(room)
            self.steps.agenda.is_open = True

    def run(self) -> None:
        """Wake as many of each room as may get a message now; call it again once they have been dispatched."""
        rooms, self.rooms = self.rooms, []
        for room in rooms:
            room.is_waking = False
            self._wake(room)
        if self.rooms and self.steps.left <= 0:
            self.steps.need_a_turn()

    def _wake(self, room: Resting) -> None:
        count = room.room()
        if count == 0:
            lead = room.lead
            if lead is not None and room.outlet.is_output_full:
                if lead.resting is room:
                    room.remove(lead)
                room.outlet.resting.add(lead)  # which opens this room again
            return
        steps = self.steps
        while count > 0 and room.consumers and steps.left > 0:
            steps.left -= 1
            consumer = next(iter(room.consumers.values()))
            assert isinstance(consumer, Consumer), "only consumers rest"
            room.remove(consumer)
            siblings = consumer.siblings
            if room.lead is None and siblings is not None and siblings.lead is consumer:
                siblings.opened()
                continue
            consumer.queue.list_one(consumer)
            if consumer.is_listed:
                count -= 1
        self.open(room)
