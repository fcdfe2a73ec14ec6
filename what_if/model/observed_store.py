"""The simulated store counts what its records say, as the table deliveries does with those of a real one."""

from __future__ import annotations

from engine.ports.workers import Workers
from engine.values.destination import TOPIC
from engine.values.message import Message
from engine.values.stored import Range, single_ranges
from what_if.figures import Figures, Period
from what_if.ports.virtual_store import VirtualStore
from what_if.trace.trace import Owner


class ObservedStore(VirtualStore):
    """figures: of queues and durable subscriptions.  events: each settlement and failed attempt, None to keep none."""

    __slots__ = ("figures", "events", "_period", "_by_number")

    def __init__(self, workers: Workers, period: Period) -> None:
        super().__init__(workers)
        self.figures: dict[Owner, Figures] = {}
        self.events: list[tuple[int, Owner, Message, int, int]] | None = None
        self._period = period
        self._by_number: dict[int, tuple[int, Owner, Figures]] = {}

    def append(self, message: Message) -> None:
        super().append(message)
        number = message.destination_id
        destination = self._state.destinations[number]
        if destination.kind == TOPIC:
            for subscription in destination.holders.members:
                if not subscription.is_closing:
                    self._found(subscription.number)[2].come(self._time_ms)
        else:
            self._found(number)[2].come(self._time_ms)

    def settle(self, destination_id: int, consumer_id: int, outcome: int, cause: int, ranges: list[Range]) -> None:
        origin, owner, figures = self._found(destination_id)
        now_ms = self._time_ms
        for one in single_ranges(ranges):
            for entry in range(one.first, one.first + one.count):
                message = self.message_at(origin, one.priority, entry)
                assert message is not None, "a message is settled once"
                figures.leave(now_ms, now_ms - message.store_time_ms, outcome)
                if self.events is not None:
                    self.events.append((now_ms, owner, message, outcome, cause))
        super().settle(destination_id, consumer_id, outcome, cause, ranges)

    def fail_attempts(
        self, destination_id: int, consumer_id: int, cause: int, due_ms: int, ranges: list[Range]
    ) -> None:
        origin, owner, figures = self._found(destination_id)
        for one in ranges:
            for entry in range(one.first, one.first + one.count):
                figures.fail()
                if self.events is not None:
                    message = self.message_at(origin, one.priority, entry)
                    assert message is not None, "a message that fails is not settled"
                    self.events.append((self._time_ms, owner, message, 0, cause))
        super().fail_attempts(destination_id, consumer_id, cause, due_ms, ranges)

    def of_owner(self, owner: Owner) -> Figures:
        """Return the figures of a queue or subscription."""
        found = self.figures.get(owner)
        if found is None:
            found = self.figures[owner] = Figures(self._period)
        return found

    def _found(self, number: int) -> tuple[int, Owner, Figures]:
        """Return the number of the queue or topic whose messages it settles, what it is, and its figures."""
        known = self._by_number.get(number)
        if known is None:
            state = self._state
            subscription = state.subscriptions.get(number)
            if subscription is None:
                origin = state.destinations[number]
                owner = Owner(origin.kind, origin.name)
            else:
                origin = state.destinations[subscription.topic_id]
                owner = Owner(origin.kind, origin.name, subscription.name)
            known = self._by_number[number] = (origin.destination_id, owner, self.of_owner(owner))
        return known
