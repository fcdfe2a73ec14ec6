"""Questions of tests to a broker's schedules, and changes to them: only this file knows their parts."""

from __future__ import annotations

from engine.broker import Broker
from engine.features.scheduler.firing import Firing
from engine.features.scheduler.held_back import HeldBack
from engine.features.scheduler.pending_schedules import Schedule
from engine.features.scheduler.plan import Plan, ScheduleLimits
from engine.features.scheduler.read_ahead import ReadAhead


class ScheduleView:
    """place: the log offset of a schedule, which names it.

    held: due messages that wait at a shut gate.  read_ahead: messages in memory because they are due soon.
    """

    def __init__(self, broker: Broker) -> None:
        self._scheduler = broker.scheduler
        self._broker = broker
        self.firing: Firing = self._scheduler.firing
        self.held: HeldBack = self.firing.held
        self.read_ahead: ReadAhead = self._scheduler.ahead

    def browse_count(self) -> int:
        """Return how many browsers of the schedule have not seen all of it."""
        return len(self._broker.management.browses)

    def __len__(self) -> int:
        """Return how many schedules are pending."""
        return len(self._scheduler.pending)

    def places(self) -> list[int]:
        return [one.place for one in self._scheduler.pending]

    def due_times(self) -> list[int]:
        return sorted(one.due_ms for one in self._scheduler.pending)

    def targets(self) -> list[int]:
        """Return the destination's number of each pending schedule."""
        return [one.target for one in self._scheduler.pending]

    def find(self, place: int) -> Schedule | None:
        return self._scheduler.pending.find(place)

    def counts(self) -> dict[int, int]:
        """Return how many schedules are pending for each destination, by its number."""
        return self._scheduler.counts

    def limits(self) -> ScheduleLimits:
        return self._scheduler.limits

    def checked(self, plan: Plan) -> Plan:
        """Return ``plan`` as an adapter would pass it on."""
        return plan.checked(self._scheduler.limits, self._broker.wall_ms)

    def job_id(self, place: int) -> str:
        return self._scheduler.job_id(place)

    def place_named(self, job_id: str) -> int:
        return self._scheduler.place_named(job_id)

    def scheduled_count(self) -> int:
        """Return how many messages were scheduled since the start."""
        return self._scheduler.scheduled_count

    def fired_count(self) -> int:
        return self.firing.fired_count

    def cancelled_count(self) -> int:
        return self._scheduler.cancelled_count

    def is_cancelling(self) -> bool:
        """Say whether schedules of a destination that has ended are still looked for."""
        return bool(self._scheduler.ending.ended)

    # -- actions of a test

    def limit(self, limits: ScheduleLimits) -> None:
        self._scheduler.limits = limits

    def cancel(self, place: int) -> bool:
        """Cancel one; return whether it was pending."""
        found = self.find(place)
        if found is not None:
            self._scheduler.cancel([found])
        return found is not None

    def fire_due(self) -> None:
        """Fire the due messages, as the timer would."""
        self._scheduler.run()

    def set_fired(self, place: int, count: int) -> None:
        """Set how often a repeating one has fired."""
        self._scheduler.fired[place] = count

    def damage(self, place: int, reason: str) -> None:
        """Make the store report that a schedule's record is unreadable."""
        self._scheduler.damaged(place, reason)

    def put_aside(self, place: int, reason: str) -> None:
        """Make the firing of one fail."""
        self._scheduler.aside[place] = reason

    def take_back(self) -> None:
        """Clear the list of those put aside."""
        self._scheduler.aside.clear()

    def break_down(self) -> None:
        """Make every check of those put aside fail with a defect of ours."""
        self._scheduler.aside = None  # type: ignore[assignment]
