"""Searches a lane's temporary files for its selection: blocks, matched against all selectors at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.dispatch.selector_cursor import END, SPILLED
from engine.dispatch.selector_index import EVALUATIONS_A_STEP, READING_STEPS, SelectorIndex
from engine.dispatch.selector_view import View
from engine.values.delivery import READY, Delivery
from engine.values.message import Message

if TYPE_CHECKING:
    from engine.backlog.lane import Lane
    from engine.backlog.spilled_blocks import LaneBlock


class SpilledScan:
    __slots__ = ("index",)

    def __init__(self, index: SelectorIndex) -> None:
        self.index = index

    def next_block(self, lane: Lane) -> LaneBlock | None:
        """Return the block to search for idle consumers, None for none.

        Reading continues upwards from the last block and then starts over, so that no view waits for ever.
        """
        spill = lane.spill
        assert spill is not None, "something is spilled"
        positions = [one.position for one in self.index.wanting(self.index.cursors_of(lane.priority + SPILLED))]
        if not positions:
            return None
        return spill.block_from(min((one for one in positions if one >= spill.look_from), default=min(positions)))

    def read(
        self, lane: Lane, block: LaneBlock, positions: list[int], messages: list[Message], is_short: bool
    ) -> list[tuple[Delivery, list[View]]]:
        """Offer a block to all views that have seen everything before it; return what they want of it.

        is_short: only to views with idle consumers, as there is no room for more.
        """
        priority = lane.priority
        spill = lane.spill
        assert spill is not None, "something is spilled"
        cursors = self.index.cursors_of(priority + SPILLED)
        taking: dict[int, View] = {}
        for cursor in cursors.behind():
            if spill.block_from(cursor.position) is block:
                for view in cursor.views.values():
                    if view.wants_more() or not (is_short or view.is_full(priority)):
                        taking[view.number] = view
        self.index.budget -= len(taking) // EVALUATIONS_A_STEP
        found: list[tuple[Delivery, list[View]]] = []
        for position, message in zip(positions, messages, strict=True):
            if not block.is_left(position):
                continue
            self.index.budget -= READING_STEPS
            views = [
                view
                for view in self.index.views_of(message, 1, False)
                if view.number in taking and view.cursors[cursors.key].position <= position
            ]
            for view in self.index.unasked():
                if taking.pop(view.number, None) is not None:
                    self._show_taken_out(view, lane, position)
                    cursors.move(view, max(view.cursors[cursors.key].position, position))
            self.index.budget -= self.index.table.take_asked() // EVALUATIONS_A_STEP
            if views:
                found.append((Delivery(message, lane, position), views))
        spill.look_from = block.last_position + 1
        for view in taking.values():
            self._show_taken_out(view, lane, spill.look_from)
            view.looked_count += len(messages)
            cursors.move(view, spill.look_from)
        return found

    def pass_on(self, lane: Lane) -> None:
        """Move on past what has come back to memory since, and wake consumers that have reached what they found."""
        cursors = self.index.cursors_of(lane.priority + SPILLED)
        spill = lane.spill
        for cursor in cursors.behind():
            if spill is None or spill.block_from(cursor.position) is None:
                end = END
            else:
                end = max(cursor.position, spill.first_position())
            self.index.budget -= 1
            idle = list(cursor.idle.values())
            if end != cursor.position:
                for view in list(cursor.views.values()):
                    self._show_taken_out(view, lane, end)
                cursors.advance(cursor, end)
            for view in idle:
                self.index.budget -= 1
                self._wake(view)

    def _show_taken_out(self, view: View, lane: Lane, end: int) -> None:
        """Show a view the messages, up to ``end``, that others took out of temporary files before it read there."""
        if not lane.returned:
            return
        first = view.cursors[lane.priority + SPILLED].position
        for delivery in lane.returned_from(first):
            if delivery.position >= end:
                break
            self.index.budget -= READING_STEPS
            if delivery.state == READY and self.index.matches(view, delivery):
                self.index.add(view, delivery)

    def _wake(self, view: View) -> None:
        """Wake idle consumers if found messages may be given to them now."""
        if view.idle and not view.wants_more():
            for _ in range(min(len(view.idle), len(view.waiting))):
                self.index.turns.wake_one(view)
