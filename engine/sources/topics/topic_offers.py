"""Messages of a topic with too many selectors to evaluate in one turn: each turn evaluates some.

The waiting messages of a topic keep their order.  A subscription does not get messages older than itself.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from engine.backlog.memory_budget import MemoryBudget
from engine.consumers.turn_steps import Chore, Steps
from engine.selector.properties import Properties, PropertyReaders
from engine.selector.table import ASKED_AT_ONCE
from engine.sources.queue import Queue
from engine.values.message import Message

if TYPE_CHECKING:
    from engine.sources.topics.topic import LateMessage, SelectedQueues

FEW_CONDITIONS: Final = 50  # selectors of a topic evaluated at once, whatever is left of the turn; without XPath


def give(queue: Queue, message: Message, memory: MemoryBudget) -> None:
    """Give a message to the queue in memory of a subscription that wants it."""
    memory.hold(message)
    queue.enqueue(message)
    if queue.rotation:
        queue.mark_dirty()


class TopicOffers(Chore):
    """waiting: messages, each with the number of the newest subscription at its arrival.

    unasked: numbers of subscriptions that were not asked about the first message yet, None for all.
    """

    __slots__ = ("selected", "readers", "memory", "waiting", "unasked", "properties")

    def __init__(self, selected: SelectedQueues, readers: PropertyReaders, memory: MemoryBudget) -> None:
        self.selected = selected
        self.readers = readers
        self.memory = memory
        self.waiting: deque[tuple[Message, int]] = deque()
        self.unasked: list[int] | None = None
        self.properties: Properties | None = None

    def offer(self, message: Message, steps: Steps, late: LateMessage | None) -> None:
        """Evaluate the selectors for ``message`` as far as the turn allows; it waits behind earlier messages.

        late: about a message of an earlier turn.
        """
        newest = self.selected.newest if late is None else min(late.newest, self.selected.newest)
        if self.waiting:
            self._keep(message, newest)
            return
        few = FEW_CONDITIONS
        if (steps.left <= 0 and self.selected.selectors.cost() > few) or not self._ask(
            message, newest, max(few, min(steps.left, ASKED_AT_ONCE)), steps
        ):
            self._keep(message, newest)
        if self.waiting:
            steps.begin(self)
            steps.need_a_turn()

    def go_on(self, steps: Steps) -> bool:
        waiting = self.waiting
        if self.memory.is_relieved:
            return not waiting
        least = steps.left_to_others()
        while waiting:
            if steps.left <= least:
                return False
            message, newest = waiting[0]
            if self._ask(message, newest, steps.left - least, steps):
                waiting.popleft()
                self.memory.release(message)
        return True

    def _keep(self, message: Message, newest: int) -> None:
        self.memory.hold(message)
        self.waiting.append((message, newest))

    def _ask(self, message: Message, newest: int, most: int, steps: Steps) -> bool:
        """Evaluate up to ``most`` conditions, or go on with them; say whether all were evaluated."""
        selected = self.selected
        selectors = selected.selectors
        properties = self.properties
        if properties is None:
            properties = self.readers.properties(message, 1, False)
        if self.unasked is None:
            found = selectors.matching(properties, most)
        else:
            found = selectors.ask(self.unasked, properties, most)
        steps.left -= selectors.take_asked()
        if len(found) > FEW_CONDITIONS:
            steps.left -= len(found)
        for number in found:
            queue = selected.queues.get(number)
            # The queue of a wildcard that has ended leaves its topics over several turns.
            if queue is not None and not queue.is_closed and number <= newest:
                give(queue, message, self.memory)
        is_done = not selectors.unasked
        self.unasked = None if is_done else selectors.unasked
        self.properties = None if is_done else properties
        return is_done
