"""Says why a consumer of a queue with a Selection gets nothing, and which consumer owns which group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.backlog.lane_entries import AHEAD_BYTES
from engine.consumers.consumer import Consumer
from engine.dispatch.selector_view import SPILLED, seat_of
from engine.sources.queue_rules import SelectionReasonsBase
from engine.values import gates
from engine.values.delivery import ConsumerBase, Delivery

if TYPE_CHECKING:
    from engine.dispatch.message_selection import Selection

GROUPS_NAMED: Final = 5  # in words about groups


class SelectionReasons(SelectionReasonsBase):
    __slots__ = ("selection", "queue", "turns", "index", "groups")

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.queue = selection.queue
        self.turns = selection.turns
        self.index = selection.index
        self.groups = selection.groups

    def gate(self, consumer: ConsumerBase) -> int:
        assert isinstance(consumer, Consumer), "only consumers take turns"
        held_by = self.selection.held_by()
        if held_by != gates.OPEN:
            return held_by
        if self.turns.is_shut_for(consumer):
            return gates.EXCLUSIVE_OWNER
        seat = seat_of(consumer)
        assert seat is not None, "a consumer of this queue has a seat"
        view = seat.view
        if seat.owned.first() is not None or view.waiting.first() is not None:
            return gates.OPEN
        queue = self.queue
        for lane in queue.used_lanes:
            if view.is_behind(lane.priority) and lane.next_load < lane.tail:
                if queue.fault():
                    return gates.STORE_DAMAGED
                return gates.LOOK_AHEAD if lane.is_ahead_full() else gates.PAGING
            if view.is_behind(lane.priority + SPILLED) and lane.spill is not None and queue.spiller is not None:
                return gates.PAGING if queue.spiller.may_search(lane) else gates.LOOK_AHEAD
        fates = queue.fates
        if queue.depth <= queue.in_flight_count + fates.enlisted_count + fates.delayed_count:
            return gates.DELAYED if fates.delayed_count else gates.NOTHING_WAITING
        if self.index.budget <= 0 and any(view.is_behind(lane.priority) for lane in queue.used_lanes):
            return gates.PAGING  # the search of the messages in memory goes on in the next turn
        if self.index.exclusions is not None and self.index.exclusions.keep_from(consumer):
            return gates.EXCLUDED
        return gates.GROUP_OWNER if view.selector is None else gates.SELECTOR

    def describe(self, consumer: ConsumerBase, gate: int) -> str:
        assert isinstance(consumer, Consumer), "only consumers take turns"
        queue = self.queue
        active = self.turns.active
        if gate == gates.EXCLUSIVE_OWNER and active is not None:
            if active is consumer:
                return "it hands over to a consumer of a higher priority"
            return f"consumer {active.consumer_id} has the queue"
        if gate == gates.CONSUMERS_BEFORE_DISPATCH:
            return f"{len(queue.consumers)} of {queue.settings.queue.consumers_before_dispatch} consumers"
        if gate == gates.DELAYED and self.selection.held_by() == gates.DELAYED:
            return "the next message waits for a redelivery, so that the order stays"
        if gate == gates.REFUSING:
            count = queue.fates.refused_count
            return f"{count:,} messages that a consumer has refused are put back first, some in each turn"
        if gate == gates.EXCLUDED:
            return "it has refused the waiting messages (undeliverable-here); other consumers may take them"
        if gate == gates.GROUP_OWNER:
            return f"the waiting messages belong to groups of other consumers{self._owners_words(consumer)}"
        if gate == gates.LOOK_AHEAD:
            return (
                f"messages found ahead for consumers that do not take them fill their memory ({AHEAD_BYTES:,} octets)"
            )
        seat = seat_of(consumer)
        if gate == gates.SELECTOR and seat is not None:
            view = seat.view
            examined_count = view.examined_by(self.index.arrived_count)
            return (
                f"{examined_count:,} looked at, {f'{view.matched_count:,}' if view.matched_count else 'none'} matched"
            )
        return ""

    def describe_group(self, delivery: Delivery) -> str:
        group = self.groups.of(delivery)
        if group is None:
            return ""
        owner = group.owner()
        if owner is not None:
            return f"its group {group.text!r} belongs to consumer {owner.consumer_id}"
        if group.unsettled:
            return f"its group {group.text!r} waits for {len(group.unsettled)} messages with its last owner"
        return ""

    def owners(self) -> dict[str, int]:
        owned = [(group.text, group.owner()) for group in self.groups.by_key.values()]
        return {text: owner.consumer_id for text, owner in owned if owner is not None}

    def _owners_words(self, consumer: Consumer) -> str:
        """Name the groups of other owners that have waiting messages."""
        waiting = {
            self.groups.key(delivery)
            for seat in [seat_of(other) for other in self.queue.consumers.values() if other is not consumer]
            if seat is not None
            for delivery in seat.owned.by_order.values()
        }
        owned = [(group.text, group.owner()) for group in self.groups.by_key.values() if group.key in waiting]
        named = [f"{text!r} of consumer {owner.consumer_id}" for text, owner in owned if owner is not None]
        more = f" and {len(named) - GROUPS_NAMED} more" if len(named) > GROUPS_NAMED else ""
        return f": {', '.join(named[:GROUPS_NAMED])}{more}" if named else ""
