"""Subscriptions to several queues add their consumers, some in each turn.

A wildcard may match any number of queues, and any number of wildcards may match a new queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.consumers.consumer_owner import ConsumerOwner
from engine.consumers.turn_steps import Chore, Steps

if TYPE_CHECKING:
    from engine.consumers.composite_consumer import Siblings
    from engine.sources.queue import Queue

JOIN_STEPS: Final = 10  # for one more consumer; comparing the name of a queue costs one step


class Joins(Chore):
    """Lets each of ``several`` subscriptions take from each of ``queues``.

    is_asked: a subscription takes only from queues that match its wildcards.
    """

    __slots__ = ("owner", "several", "queues", "is_asked", "index")

    def __init__(self, owner: ConsumerOwner, several: list[Siblings], queues: list[Queue], is_asked: bool) -> None:
        self.owner = owner
        self.several = several
        self.queues = queues
        self.is_asked = is_asked
        self.index = 0

    def go_on(self, steps: Steps) -> bool:
        several = self.several
        end = len(several) * len(self.queues)
        least = steps.left_to_others()
        while self.index < end:
            if steps.left <= least:
                return False
            siblings = several[self.index % len(several)]
            queue = self.queues[self.index // len(several)]
            self.index += 1
            steps.left -= 1
            if not self.is_asked or siblings.wants(queue):
                steps.left -= JOIN_STEPS
                self.owner.join_one(siblings, queue)
        return True
