"""Searches a lane's temporary files for its selection: blocks, matched against many selectors at once.

A turn searches as much of a block as it has steps for.  The rest is at hand in the next turn.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from engine.dispatch.selector_cursor import END, SPILLED
from engine.dispatch.selector_index import EVALUATIONS_A_STEP, FINDING_STEPS, READING_STEPS, SelectorIndex
from engine.dispatch.selector_view import View
from engine.values.delivery import READY, Delivery
from engine.values.message import Message

if TYPE_CHECKING:
    from engine.backlog.lane import Lane
    from engine.backlog.spilled_blocks import LaneBlock


class BlockAtHand:
    """A block that has been read, or is still in memory.  A lane has at most one."""

    __slots__ = ("block", "positions", "messages")

    def __init__(self, block: LaneBlock, positions: list[int], messages: list[Message]) -> None:
        self.block = block
        self.positions = positions
        self.messages = messages


class SpilledScan:
    """at_hand: by priority."""

    __slots__ = ("index", "at_hand")

    def __init__(self, index: SelectorIndex) -> None:
        self.index = index
        self.at_hand: dict[int, BlockAtHand] = {}

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

    def read(self, lane: Lane, at_hand: BlockAtHand, is_short: bool) -> list[tuple[Delivery, list[View]]]:
        """Offer part of a block to views that have seen everything before it; return what they want of it.

        is_short: only to views with idle consumers, as there is no room for more.
        """
        spill = lane.spill
        assert spill is not None, "something is spilled"
        index = self.index
        key = lane.priority + SPILLED
        taking = self._readers(lane, at_hand.block, is_short)
        end = at_hand.block.last_position + 1
        finding_steps = 0  # of what is found; charged when it is added to its views
        looked_count = 0
        found: list[tuple[Delivery, list[View]]] = []
        first = min([view.cursors[key].position for view in taking.values()], default=end)
        start = bisect_left(at_hand.positions, first)
        for place in range(start, len(at_hand.positions)):
            position = at_hand.positions[place]
            if not taking or (looked_count and index.budget <= finding_steps):
                end = position
                break
            if not at_hand.block.is_left(position):
                continue
            message = at_hand.messages[place]
            looked_count += 1
            index.budget -= READING_STEPS
            views = [
                view
                for view in index.views_of(message, 1, False)
                if view.number in taking and view.cursors[key].position <= position
            ]
            for view in index.unasked():
                if taking.pop(view.number, None) is not None:
                    self._go_on_from(view, lane, position)
            index.budget -= index.table.take_asked() // EVALUATIONS_A_STEP
            if views:
                finding_steps += FINDING_STEPS * len(views)
                found.append((Delivery(message, lane, position), views))
        spill.look_from = end
        for view in taking.values():
            view.looked_count += looked_count
            self._go_on_from(view, lane, end)
        return found

    def _readers(self, lane: Lane, block: LaneBlock, is_short: bool) -> dict[int, View]:
        """Return the views to which a block is offered, by number: idle ones first, at most one per two steps left."""
        index = self.index
        most = max(1, index.budget // 2)
        spill = lane.spill
        assert spill is not None, "something is spilled"
        cursors = index.cursors_of(lane.priority + SPILLED).behind()
        cursors = [one for one in cursors if spill.block_from(one.position) is block]
        taking: dict[int, View] = {}
        for cursor in cursors:
            for view in cursor.idle.values():
                if len(taking) < most and view.wants_more():
                    taking[view.number] = view
        for cursor in cursors if not is_short else ():
            for view in cursor.views.values():
                if len(taking) >= most:
                    break
                if not view.is_full(lane.priority):
                    taking[view.number] = view
        index.budget -= len(taking)
        return taking

    def _go_on_from(self, view: View, lane: Lane, position: int) -> None:
        """Let a view find what others have taken out before ``position``; it continues there later."""
        cursors = self.index.cursors_of(lane.priority + SPILLED)
        self._show_taken_out(view, lane, position)
        cursors.move(view, max(view.cursors[cursors.key].position, position))

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
