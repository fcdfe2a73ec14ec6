"""What became of a destination's messages other than being acknowledged."""

from __future__ import annotations

from engine.backlog.settlement import SettlementBatch


class FateCounts:
    """How often, since the start."""

    __slots__ = ("redelivered_count", "dead_lettered_count", "expired_count")

    def __init__(self) -> None:
        self.redelivered_count = 0
        self.dead_lettered_count = 0
        self.expired_count = 0

    def add(self, other: FateCounts) -> None:
        self.redelivered_count += other.redelivered_count
        self.dead_lettered_count += other.dead_lettered_count
        self.expired_count += other.expired_count


class QueueFates(FateCounts):
    """delayed_count: messages that wait for their redelivery now.  expired_batch: what has expired, to be settled."""

    __slots__ = ("delayed_count", "expired_batch")

    def __init__(self, expired_batch: SettlementBatch) -> None:
        super().__init__()
        self.delayed_count = 0
        self.expired_batch = expired_batch
