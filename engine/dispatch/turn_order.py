"""Whose turn it is among the consumers of a queue that are not all alike: priorities, idle ones, the exclusive one."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING

from engine.dispatch.ranked_consumers import RankedConsumers
from engine.dispatch.seat import seat_of

if TYPE_CHECKING:
    from engine.consumers.consumer import Consumer
    from engine.dispatch.selector_view import View
    from engine.sources.queue import Queue


class Turns:
    """The order of one queue's consumers, and who is to look when something comes.

    Whoever is woken for a message may turn out to be unable to take it: its window is full, its socket, or it closes.
    Then its view is owed a wake, until somebody of it has looked and found nothing.

    The queue's ``rotation`` holds those that may find something, higher priorities first, each priority in turn; who
    found nothing is ``idle`` in its view until something comes.
    active: the one consumer that gets anything, where the queue or a consumer is exclusive.
    heir: who takes over from it, once it holds nothing.
    exclusive: consumers that asked to be the only one.  candidates: all, where the address has only one get anything.
    is_in_turn: False where each keeps its place (strict order).
    owed: views, by number, whose consumers may have left something that an idle one could take.
    """

    __slots__ = ("queue", "active", "heir", "exclusive", "candidates", "has_priorities", "is_in_turn", "owed")

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.active: Consumer | None = None
        self.heir: Consumer | None = None
        self.exclusive = RankedConsumers(True)
        self.candidates = RankedConsumers(True)
        self.has_priorities = False
        self.is_in_turn = not queue.settings.queue.strict_order_dispatch
        self.owed: dict[int, View] = {}

    def is_shut_for(self, consumer: Consumer) -> bool:
        """Say whether another consumer has the queue, or is about to."""
        return self.active is not None and (self.active is not consumer or self.heir is not None)

    def choose_active(self) -> None:
        """Where one consumer gets everything, choose it: the highest priority, then the one that came first.

        One of a higher priority takes over once the active one holds nothing any more, so that the order stays.
        """
        candidates = self.exclusive or self.candidates
        best = candidates.first()
        active = self.active
        self.heir = None
        if active is best:
            return
        if active is not None and active in candidates and active.ledger:
            self.heir = best
            return
        self.active = best
        if best is not None:
            self.wake(best)

    def add(self, consumer: Consumer) -> None:
        """A consumer has come."""
        if consumer.priority:
            self.has_priorities = True
        is_exclusive = consumer.is_exclusive
        if is_exclusive:
            self.exclusive.add(consumer)
        if self.queue.settings.queue.exclusive_consumer:
            self.candidates.add(consumer)
            is_exclusive = True
        if is_exclusive:
            self.choose_active()

    def remove(self, consumer: Consumer) -> bool:
        """A consumer has closed; say whether it was the last one that others had to make way for."""
        self.exclusive.remove(consumer)
        self.candidates.remove(consumer)
        if consumer is not self.active and consumer is not self.heir:
            return False
        self.choose_active()
        return self.active is None

    def let_rest(self, consumer: Consumer) -> None:
        """The consumer in front has found nothing: it takes no turns until something comes."""
        seat = seat_of(consumer)
        assert seat is not None, "a consumer of this queue has a seat"
        self.take_turn_from(consumer)
        seat.view.rest(consumer)
        self.owed.pop(seat.view.number, None)

    def leave(self, consumer: Consumer) -> None:
        """The consumer whose turn it was can take nothing now: others are to look at what it leaves."""
        consumer.is_listed = False
        self.take_turn_from(consumer)
        self._owe(consumer)

    def take_turn_from(self, consumer: Consumer) -> None:
        """Take out the consumer whose turn it was: not always the first still, for a higher priority may have woken."""
        rotation = self.queue.rotation
        if rotation[0] is consumer:
            rotation.popleft()
        else:
            rotation.remove(consumer)

    def list_consumer(self, consumer: Consumer) -> None:
        """Let a consumer take its turn: the last one of its priority, or in its own place where there are no turns."""
        rotation = self.queue.rotation
        if not self.is_in_turn:
            insort(rotation, consumer, key=_rank)
            return
        if not self.has_priorities or not rotation or rotation[-1].priority >= consumer.priority:
            rotation.append(consumer)
            return
        rotation.insert(bisect_right(rotation, -consumer.priority, key=_descending), consumer)

    def unlist_consumer(self, consumer: Consumer) -> None:
        seat = seat_of(consumer)
        if seat is not None and seat.view.rouse(consumer):
            return
        self.queue.rotation.remove(consumer)
        self._owe(consumer)
        self.queue.mark_dirty()

    def next_turn(self) -> None:
        """The consumer in front has got a message: the next one of its priority comes before it."""
        rotation = self.queue.rotation
        if len(rotation) < 2 or not self.is_in_turn:
            return
        if not self.has_priorities:
            rotation.rotate(-1)
        else:
            self.list_consumer(rotation.popleft())

    def wake(self, consumer: Consumer) -> None:
        """Let a consumer that found nothing look again."""
        seat = seat_of(consumer)
        if seat is not None and consumer.is_listed and seat.view.rouse(consumer):
            self.list_consumer(consumer)
            self.queue.mark_dirty()

    def wake_one(self, view: View) -> None:
        """Something has come for ``view``: let one of its consumers look again."""
        active = self.active
        if active is not None:
            if active in view.idle:
                self.wake(active)
        elif view.idle:
            self.list_consumer(view.rouse_first())
            self.queue.mark_dirty()

    def pay_owed(self) -> bool:
        """Wake one more where something may have been left; return False if nothing was."""
        while self.owed:
            _, view = self.owed.popitem()
            if view.idle and view.waiting.first() is not None:
                self.wake_one(view)
                if self.queue.rotation:
                    return True
        return False

    def _owe(self, consumer: Consumer) -> None:
        seat = seat_of(consumer)
        if seat is not None and seat.view.idle:
            self.owed[seat.view.number] = seat.view


def _rank(consumer: Consumer) -> tuple[int, int]:
    return -consumer.priority, consumer.consumer_id


def _descending(consumer: Consumer) -> int:
    return -consumer.priority
