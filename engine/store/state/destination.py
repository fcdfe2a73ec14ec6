"""A destination as the log knows it: its lanes and, of a topic, its durable subscriptions."""

from __future__ import annotations

import json

from engine.store.state.consume_queue import ConsumeQueue
from engine.store.state.subscription import Holders
from engine.values.destination import TOPIC


class LoggedDestination:
    """A destination and its lanes, by ascending priority; holders: of a topic, its durable subscriptions.

    head: the beginning of its description in snapshots.
    """

    __slots__ = ("destination_id", "kind", "name", "lanes", "holders", "head")

    def __init__(self, destination_id: int, kind: int, name: str) -> None:
        self.destination_id = destination_id
        self.lanes: list[ConsumeQueue] = []
        self.holders = Holders()
        self.rename(kind, name)

    def rename(self, kind: int, name: str) -> None:
        """Set its name, which replaces a placeholder."""
        self.kind = kind
        self.name = name
        # Made once for the snapshots, because encoding a name takes longer than all the rest of a destination.
        text = json.dumps(name, ensure_ascii=False)
        self.head = f'{{"id":{self.destination_id},"kind":{kind},"name":{text},"live_bytes":'

    def live_bytes(self) -> int:
        """Return the octets of its unsettled messages."""
        if self.kind == TOPIC and self.holders.is_empty():
            return 0
        return sum([lane.live_bytes for lane in self.lanes])

    def tails(self) -> dict[int, int]:
        """Return the length of each lane by priority."""
        return {lane.priority: lane.tail for lane in self.lanes}

    def first_needed(self, lane: ConsumeQueue) -> int:
        """Return the first entry of a lane that the queue, or a durable subscription, may still need."""
        if self.kind != TOPIC:
            return lane.settled.cursor
        members = self.holders.members
        return min([lane.tail, *(member.first_needed(lane.priority, lane.tail) for member in members)])
