"""The order of the differing consumers of a queue: priorities, idle ones, the exclusive one.

It is the order of the queue's ``rotation``; the dispatcher serves the first consumer of it.
Message groups: message_groups.py.
"""

from __future__ import annotations

from bisect import bisect_right, insort

from engine.consumers.consumer import Consumer
from engine.dispatch.selector_view import RankedConsumers, View, seat_of
from engine.sources.queue import Queue


class Turns:
    """The order of one queue's consumers, and which of them to wake for a new message.

    A consumer woken for a message may turn out to be unable to take it: its window or socket is full, or it closes.
    Then its view is owed a wake, until one of its consumers has searched and found nothing.

    The queue's ``rotation`` holds the consumers that may find something, higher priorities first, each priority in
    turn.  A consumer that found nothing is ``idle`` in its view until a message comes.
    active: the only consumer that gets messages, if the queue or a consumer is exclusive.
    heir: the consumer that replaces it once it holds nothing.
    exclusive: consumers that asked to be the only one.  candidates: all, if the address is exclusive.
    is_in_turn: False if each consumer keeps its place (strict order).
    owed: views, by number, whose consumers may have left a message that an idle one could take.
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
        """Say whether another consumer has the queue, or soon will."""
        return self.active is not None and consumer.is_ruled and (self.active is not consumer or self.heir is not None)

    def choose_active(self) -> None:
        """Choose the only consumer that gets messages: the highest priority, then the oldest.

        A consumer of a higher priority takes over once the active one holds nothing, so that the order is kept.
        """
        candidates = self.exclusive or self.candidates
        best = candidates.first()
        active = self.active
        had_heir = self.heir is not None
        self.heir = None
        if active is best:
            if active is not None and had_heir:
                self.wake(active)  # it found nothing while the heir waited
            return
        if active is not None and active in candidates and active.ledger:
            self.heir = best
            return
        self.active = best
        if best is not None:
            self.wake(best)

    def add(self, consumer: Consumer) -> None:
        if consumer.priority:
            self.has_priorities = True
        is_exclusive = consumer.is_exclusive
        if is_exclusive:
            self.exclusive.add(consumer)
        if self.queue.settings.queue.exclusive_consumer and consumer.is_ruled:
            self.candidates.add(consumer)
            is_exclusive = True
        if is_exclusive:
            self.choose_active()

    def remove(self, consumer: Consumer) -> bool:
        """Remove a consumer; say whether it was the last one with precedence over others."""
        self.exclusive.remove(consumer)
        self.candidates.remove(consumer)
        if consumer is not self.active and consumer is not self.heir:
            return False
        self.choose_active()
        return self.active is None

    def let_rest(self, consumer: Consumer) -> None:
        """Let the consumer in front, which found nothing, rest until a message comes."""
        seat = seat_of(consumer)
        assert seat is not None, "a consumer of this queue has a seat"
        self.take_turn_from(consumer)
        seat.view.rest(consumer)
        self.owed.pop(seat.view.number, None)

    def leave(self, consumer: Consumer) -> None:
        """Remove the consumer in turn, which can take nothing now; others must look at what it leaves."""
        consumer.is_listed = False
        self.take_turn_from(consumer)
        self._owe(consumer)

    def take_turn_from(self, consumer: Consumer) -> None:
        """Remove the consumer in turn, which may no longer be the first if one of a higher priority has woken."""
        rotation = self.queue.rotation
        if rotation[0] is consumer:
            rotation.popleft()
        else:
            rotation.remove(consumer)

    def list_consumer(self, consumer: Consumer) -> None:
        """List a consumer as the last of its priority, or in its own place if there are no turns."""
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
        """The consumer in front has got a message; the next one of its priority comes first now."""
        rotation = self.queue.rotation
        if len(rotation) < 2 or not self.is_in_turn:
            return
        if not self.has_priorities:
            rotation.rotate(-1)
        else:
            self.list_consumer(rotation.popleft())

    def wake(self, consumer: Consumer) -> None:
        """Let an idle consumer search again."""
        seat = seat_of(consumer)
        if seat is not None and consumer.is_listed and seat.view.rouse(consumer):
            self.list_consumer(consumer)
            self.queue.mark_dirty()

    def wake_one(self, view: View) -> None:
        """Let one consumer of ``view`` search again, as a message has come.

        While an heir waits nobody may have it: ``choose_active`` wakes the active consumer, or the heir, after that.
        """
        active = self.active
        if active is not None and view.is_ruled:
            if self.heir is None and active in view.idle:
                self.wake(active)
        elif view.idle:
            self.list_consumer(view.rouse_first())
            self.queue.mark_dirty()

    def pay_owed(self) -> bool:
        """Wake one more consumer that may find a message left by another; return False if there is none."""
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
