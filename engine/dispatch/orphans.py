"""Messages found ahead for consumers that are gone since: they leave memory, some in each turn, and stay on disk."""

from __future__ import annotations

from typing import Final

from engine.backlog.lane import Lane, lane_of
from engine.backlog.waiting_deliveries import order_of
from engine.consumers.turn_steps import Chore, Steps
from engine.dispatch.message_selection import selection_of
from engine.sources.queue import Queue
from engine.values.delivery import READY, Delivery

KEEPERS_A_STEP: Final = 10  # selectors, consumers and groups that may want some of them


class Orphans(Chore):
    """Forgets messages found ahead in a queue that nobody waits for.

    suspects: those that have not been checked.
    """

    __slots__ = ("queue", "suspects")

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.suspects: list[Delivery] = []
        for lane in queue.used_lanes:
            self.suspects += lane.ahead.by_offset.values()
        self.suspects.reverse()

    def go_on(self, steps: Steps) -> bool:
        queue = self.queue
        if queue.is_closed:
            return True
        count = steps.left - steps.left_to_others()
        if count <= 0:
            return False
        part = self.suspects[-count:]
        del self.suspects[-count:]
        steps.left -= len(part)
        suspects = {order_of(one): one for one in reversed(part) if one.state == READY and not one.is_redelivered}
        selection = selection_of(queue)
        if selection is not None:
            selection.keep_wanted(suspects)
            keeper_count = len(selection.index.by_number) + len(queue.consumers) + len(selection.groups.by_key)
            steps.left -= keeper_count // KEEPERS_A_STEP
        for delivery in suspects.values():
            _forget(lane_of(delivery), delivery)
        if self.suspects:
            return False
        if selection is not None:
            selection.is_checked = False
        queue.mark_dirty()  # there may be room to read on
        return True


def _forget(lane: Lane, delivery: Delivery) -> None:
    """Forget a delivery that was never handed over; it can be found again or loaded in its turn."""
    if lane.ahead.holds(delivery):
        lane.ahead.remove(delivery)
        lane.memory.unload(delivery.message)
        if delivery.message.expires_ms:
            lane.note_expiry(delivery.message)
