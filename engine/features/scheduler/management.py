"""Clients manage the schedule with messages to ``ActiveMQ.Scheduler.Management`` (ActiveMQ SchedulerBroker).

    AMQ_SCHEDULER_ACTION: BROWSE     scheduled messages are sent to the reply-to, in the order of their times
    AMQ_SCHEDULER_ACTION: REMOVE     the schedule with the id in scheduledJobId is cancelled
    AMQ_SCHEDULER_ACTION: REMOVEALL  all are cancelled
    ACTION_START_TIME, ACTION_END_TIME   of BROWSE and REMOVEALL: only those due between these times, wall clock, ms

A client reaches the schedules of destinations that it may read (BROWSE) or write to (the others).  Of a temporary
destination it reaches the schedules of its own user, or all if the destination is its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from config.permissions import Action
from engine.backlog.context import Context
from engine.consumers.client import Client
from engine.consumers.permissions import Access
from engine.features.broker_questions import Answerer, Questions, Replies
from engine.features.scheduler.pending_schedules import Schedule, key_of, place_of
from engine.features.scheduler.plan import Plan
from engine.features.scheduler.schedule_record import ScheduleHeader, read_header
from engine.features.scheduler.scheduler import Scheduler
from engine.ports.timers import TimerTarget
from engine.sources.composite import Target
from engine.sources.queue import QuestionQueue
from engine.sources.registry import Destinations
from engine.values.destination import KIND_NAMES, QUEUE, TOPIC
from engine.values.errors import InvalidOption, LimitReached
from engine.values.message import (
    JOB_ID,
    ORIGINAL_DESTINATION,
    PERSISTENT,
    PLAIN,
    PRIORITY_SHIFT,
    SCHEDULED,
    Message,
    annotation,
)

ACTION: Final = "AMQ_SCHEDULER_ACTION"
START: Final = "ACTION_START_TIME"
END: Final = "ACTION_END_TIME"
BROWSE: Final = "BROWSE"
REMOVE: Final = "REMOVE"
REMOVE_ALL: Final = "REMOVEALL"
ALWAYS_MS: Final = 1 << 62

BROWSE_READER: Final = -4  # the reader to which the store answers
BROWSES_MAX: Final = 16
BROWSES_PER_USER_MAX: Final = 4  # of one user, so that others can look, too
STEP: Final = 256  # schedules examined at a time
REMOVED_AT_ONCE: Final = 1_000


@dataclass(slots=True)
class Question:
    """The request in one message; ``first_ms`` to ``last_ms``: due times, both included."""

    action: str
    place: int
    first_ms: int
    last_ms: int
    reply_to: object


class Management(Answerer):
    """browses: running browses; each reads one message of the store at a time."""

    __slots__ = ("context", "scheduler", "destinations", "access", "replies", "browses")

    def __init__(
        self,
        context: Context,
        scheduler: Scheduler,
        destinations: Destinations,
        access: Access,
        replies: Replies,
        questions: Questions,
    ) -> None:
        self.context = context
        self.scheduler = scheduler
        self.destinations = destinations
        self.access = access
        self.replies = replies
        questions.management.append(self)
        self.browses: list[Browse] = []

    def check(self, queue: QuestionQueue, message: Message) -> None:
        """Raises: LimitReached for one too many of a user; InvalidOption for an invalid question, or one too many."""
        if self._question(message).action != BROWSE:
            return
        if len(self.browses) >= BROWSES_MAX:
            raise InvalidOption(f"{BROWSES_MAX} browses of the schedule are running, which is the limit")
        client = self.replies.asker()
        if client is not None and self._browses_of(client) >= BROWSES_PER_USER_MAX:
            raise LimitReached(
                f"{BROWSES_PER_USER_MAX} browses of the schedule are running for {client.holder}, which is the limit"
            )

    def answer(self, queue: QuestionQueue, message: Message) -> None:
        """Carry out a message that was checked."""
        question = self._question(message)
        client = self.replies.asker()
        if question.action == BROWSE:
            target = self.replies.target(question.reply_to)
            # The rest of its transaction is accepted already, so one browse too many simply gets no answer.
            is_one_too_many = client is not None and self._browses_of(client) >= BROWSES_PER_USER_MAX
            if target is not None and len(self.browses) < BROWSES_MAX and not is_one_too_many:
                self.browses.append(Browse(self, target, client, question))
                self.browses[-1].go_on()
            return
        if client is not None:
            client.audit(question.action, f"{queue.uri()} {question.place or ''}".rstrip(), is_denied=False)
        if question.action == REMOVE:
            schedule = self.scheduler.pending.find(question.place)
            if schedule is not None and self.allows(client, "write", schedule):
                self.scheduler.cancel([schedule])
        else:
            Removal(self, client, question).go_on()

    def page_loaded(self, lane: int, first: int, messages: list[Message]) -> None:
        for browse in [one for one in self.browses if one.waits_for(lane, first)]:
            browse.came(messages)

    def allows(self, client: Client | None, action: Action, schedule: Schedule) -> bool:
        """Say whether a client reaches a schedule.

        Everybody may write to a temporary destination, so only the owner of the schedule or of the destination may
        cancel.  Permission to read is checked once the message is read.
        """
        access = self.access
        if access.is_open:
            return True
        if client is None:  # a schedule delayed the question, or its sender has gone
            return False
        target = self.destinations.by_id.get(schedule.target)
        if target is None or target.kind not in (QUEUE, TOPIC):
            is_receiver = target is not None and target.owner == client.client_number
            return action == "read" or is_receiver or self.scheduler.owners.is_of(schedule.owner, client)
        return access.allows(client, action, target.kind, target.name)

    def _browses_of(self, client: Client) -> int:
        """Return how many are under way for a client's user."""
        return sum(one.walk.client is not None and one.walk.client.holder == client.holder for one in self.browses)

    def _question(self, message: Message) -> Question:
        properties = self.context.readers.properties(message, 1, False)
        action = properties.get(ACTION)
        if action not in (BROWSE, REMOVE, REMOVE_ALL):
            raise InvalidOption(f"{ACTION} is {str(action)[:80]!r}; allowed are {BROWSE}, {REMOVE} and {REMOVE_ALL}")
        place = 0
        if action == REMOVE:
            job_id = properties.get(JOB_ID)
            place = self.scheduler.place_named(job_id if isinstance(job_id, str) else "")
            if not place:
                raise InvalidOption(f"{JOB_ID} is {str(job_id)[:80]!r}; allowed is the value of delivered messages")
        first_ms, last_ms = _time(START, properties.get(START)), _time(END, properties.get(END))
        if first_ms < 0 or last_ms < 0:  # as in ActiveMQ, one alone has no effect
            first_ms, last_ms = 0, ALWAYS_MS
        return Question(action, place, first_ms, last_ms, properties.get("JMSReplyTo"))


class Walk:
    """Visits the schedules due in a period, in order, unaffected by additions and removals meanwhile.

    is_over: nothing is left to visit.
    """

    __slots__ = ("management", "client", "action", "after", "last", "is_over")

    def __init__(self, management: Management, client: Client | None, action: Action, question: Question) -> None:
        self.management = management
        self.client = client
        self.action: Action = action
        self.after = key_of(question.first_ms, 0) - 1
        self.last = key_of(question.last_ms + 1, 0) - 1
        self.is_over = False

    def next(self, most: int) -> list[Schedule]:
        """Visit some more; return those of them that the client reaches, which may be none."""
        scheduler = self.management.scheduler
        keys = [key for key in scheduler.keys.after(self.after, most) if key <= self.last]
        if not keys:
            self.is_over = True
            return []
        self.after = keys[-1]
        found = [scheduler.pending.find(place_of(key)) for key in keys]
        return [one for one in found if one and self.management.allows(self.client, self.action, one)]


class Removal(TimerTarget):
    """Cancels the schedules due in a period, some in each turn."""

    __slots__ = ("management", "walk")

    def __init__(self, management: Management, client: Client | None, question: Question) -> None:
        self.management = management
        self.walk = Walk(management, client, "write", question)

    def go_on(self) -> None:
        schedules = self.walk.next(REMOVED_AT_ONCE)
        if schedules:
            self.management.scheduler.cancel(schedules)
        if not self.walk.is_over:
            self.management.context.call_later(0, self, 0)

    def timer_fired(self, key: int) -> None:
        self.go_on()


class Browse(TimerTarget):
    """Sends scheduled messages to a reply-to, one by one as the store reads them.

    Schedules that its client does not reach are skipped, some in each turn.
    """

    __slots__ = ("management", "target", "walk", "left")

    def __init__(self, management: Management, target: Target, client: Client | None, question: Question) -> None:
        self.management = management
        self.target = target
        self.walk = Walk(management, client, "read", question)
        self.left: list[Schedule] = []

    def go_on(self) -> None:
        """Request the next one that is still pending, or end."""
        scheduler = self.management.scheduler
        while not self.target.is_closed:
            if not self.left:
                self.left = self.walk.next(STEP)
                if self.walk.is_over:
                    break
                if not self.left:
                    self.management.context.call_later(0, self, 0)
                    return
            schedule = self.left[0]
            if scheduler.pending.find(schedule.place) is not None:
                store = self.management.context.store
                if schedule.place >= store.written_offset():
                    store.write()
                store.request(scheduler.number, schedule.lane, schedule.queue_offset, 1, 1, BROWSE_READER)
                return
            del self.left[0]
        self.management.browses.remove(self)

    def timer_fired(self, key: int) -> None:
        self.go_on()

    def waits_for(self, lane: int, queue_offset: int) -> bool:
        return bool(self.left) and (self.left[0].lane, self.left[0].queue_offset) == (lane, queue_offset)

    def came(self, messages: list[Message]) -> None:
        """Accept the store's answer; leave out unreadable messages, and those that only another client may see."""
        schedule = self.left.pop(0)
        if messages:
            try:
                header, own = read_header(messages[0].annotations)
            except (KeyError, ValueError):
                pass  # not written by this gateway
            else:
                if self._may_see(header):
                    self._send(schedule, messages[0], header, own)
        self.go_on()

    def _may_see(self, header: ScheduleHeader) -> bool:
        """Say whether a client may read the destination of a message.

        The schedule has no number of a temporary destination, or of one that was deleted.
        """
        management = self.management
        client = self.walk.client
        if management.access.is_open:
            return True
        if client is None:
            return False
        if header.kind in (QUEUE, TOPIC):
            return management.access.allows(client, "read", header.kind, header.name)
        owned = management.destinations.owned.get(client.client_number, [])
        return any(one.name == header.name for one in owned)

    def _send(self, schedule: Schedule, record: Message, header: ScheduleHeader, own: bytes) -> None:
        lines = [
            annotation(JOB_ID, self.management.scheduler.job_id(schedule.place)),
            annotation(ORIGINAL_DESTINATION, f"/{KIND_NAMES[header.kind]}/{header.name}"),
            annotation("AMQ_SCHEDULED_TIME", str(schedule.due_ms)),
            *_plan_lines(header.plan),
            own,
        ]
        message = Message(
            self.target.destination_id,
            record.encoding,
            record.flags & ((1 << PRIORITY_SHIFT) - 1) & ~(SCHEDULED | PERSISTENT | PLAIN),
            record.jms_priority(),
            header.tag_hash,
            0,
            0,
            b"".join(lines),
            record.headers,
            record.body,
        )
        self.management.replies.send(self.target, message)


def _plan_lines(plan: Plan) -> list[bytes]:
    values = (("DELAY", plan.delay_ms), ("PERIOD", plan.period_ms), ("REPEAT", plan.repeat), ("CRON", plan.cron))
    return [annotation(f"AMQ_SCHEDULED_{name}", str(value)) for name, value in values if value]


def _time(name: str, value: object) -> int:
    """Return wall-clock milliseconds, -1 for none.  Raises: InvalidOption."""
    if value is None:
        return -1
    text = str(value).strip()
    if text.isascii() and text.isdigit() and len(text) < 17:
        return int(text)
    raise InvalidOption(f"{name} is {text[:80]!r}; allowed is a wall-clock time in milliseconds")
