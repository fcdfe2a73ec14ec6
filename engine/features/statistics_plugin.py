"""Statistics that a client requests by a message to ``ActiveMQ.Statistics.*``, answered to its reply-to.

Source: ActiveMQ StatisticsBroker.  The answer is a map, in the JSON of the transformation ``jms-map-json``.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import Final

from engine.backlog.context import Context
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.consumers.permissions import Access
from engine.features.broker_questions import Answerer, Questions, Replies
from engine.ports.timers import TimerTarget
from engine.sources.queue import QuestionQueue, Queue
from engine.sources.registry import Destinations
from engine.sources.topics.topic import Topic
from engine.values.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, is_topic
from engine.values.errors import LimitReached
from engine.values.message import DEFAULT_PRIORITY, PLAIN, STOMP, TEXT, Message, annotation
from engine.values.wildcard import Wildcard, is_wildcard

BROKER: Final = "ActiveMQ.Statistics.Broker"
SUBSCRIPTION: Final = "ActiveMQ.Statistics.Subscription"
DESTINATION: Final = "ActiveMQ.Statistics.Destination."

QUESTIONS_MAX: Final = 1_000  # pending; one more is refused
QUESTIONS_PER_CLIENT_MAX: Final = 100  # pending per connection
QUESTIONS_PER_USER_MAX: Final = 900  # pending per user, or per address where logins are not checked
STEPS_AT_ONCE: Final = 1_024  # destinations or consumers examined per turn, for all questions together
ANSWER_STEPS: Final = 8  # cost of an answer, besides the examination
LISTED_AT_ONCE: Final = 64  # destinations or consumers listed per step

TOTALS: Final = ("size", "enqueueCount", "dequeueCount", "dispatchCount", "expiredCount", "inflightCount")

Values = dict[str, str | int]


class Question:
    """A pending question.

    asker: number of the client that asks, 0 if it is not connected.
    client: that client, to limit answers to what it may see; None if everybody may see everything.
    wildcard: of destinations, None for a single name.  headers: of each answer.
    left: what remains to be examined, the next one last; None before the first.
    totals: of the broker, counted so far.
    """

    __slots__ = ("name", "asker", "client", "target", "wildcard", "headers", "left", "totals")

    def __init__(self, name: str, asker: int, client: Client | None, target: Queue | Topic, headers: bytes) -> None:
        self.name = name
        self.asker = asker
        self.client = client
        self.target = target
        asked = name.removeprefix(DESTINATION)
        self.wildcard = Wildcard(QUEUE, asked) if is_wildcard(asked) else None
        self.headers = headers
        self.left: list[Queue | Topic | Consumer] | None = None
        self.totals: dict[str, int] = dict.fromkeys(TOTALS, 0)


class Statistics(Answerer):
    """Answers questions, a limited number of steps per turn; a step examines a destination or a consumer.

    Users take turns, a question each.
    asked: pending questions by holder, the next holder first.  count: of all; counts: by asker.
    steps_left: of this turn.  is_armed: a timer will give new ones.
    name: of the broker.
    """

    __slots__ = (
        "context",
        "destinations",
        "clients",
        "access",
        "replies",
        "name",
        "asked",
        "count",
        "counts",
        "steps_left",
        "is_armed",
        "_turns",
    )

    def __init__(
        self,
        context: Context,
        destinations: Destinations,
        access: Access,
        replies: Replies,
        questions: Questions,
        name: str,
    ) -> None:
        self.context = context
        self.destinations = destinations
        self.clients = replies.clients
        self.access = access
        self.replies = replies
        self.name = name
        questions.statistics.append(self)
        self._turns = _Turns(self)
        self.asked: dict[str, deque[Question]] = {}
        self.count = 0
        self.counts: dict[int, int] = {}
        self.steps_left = STEPS_AT_ONCE
        self.is_armed = False

    def check(self, queue: QuestionQueue, question: Message) -> None:
        """Raises: LimitReached for one question too many; AccessDenied for a question about more than is allowed."""
        client = self.replies.asker()
        if client is not None and queue.name == BROKER:
            self.access.require_sight_of_all(client, queue.uri())
        if self.count >= QUESTIONS_MAX:
            raise LimitReached(
                f"{QUESTIONS_MAX} questions for statistics wait for their answers, which is the limit; "
                "ask again once some are answered"
            )
        if client is not None and self._has_many(client.holder):
            raise LimitReached(
                f"{QUESTIONS_PER_USER_MAX} questions for statistics of {client.holder} wait for their answers, which "
                "is the limit; ask again once some are answered"
            )
        if self.counts.get(self.context.sender, 0) >= QUESTIONS_PER_CLIENT_MAX:
            raise LimitReached(
                f"{QUESTIONS_PER_CLIENT_MAX} questions for statistics of this connection wait for their answers, which "
                "is the limit; ask again once some are answered"
            )

    def answer(self, queue: QuestionQueue, question: Message) -> None:
        """Send the answers to the question's reply-to; without one, or if it is gone, there is nothing to do."""
        properties = self.context.readers.properties(question, 1, False)
        target = self.replies.target(properties.get("JMSReplyTo"))
        # The rest of its transaction is accepted already, so one question too many simply gets no answer.
        asker = self.context.sender
        count = self.counts.get(asker, 0)
        if target is None or self.count >= QUESTIONS_MAX or count >= QUESTIONS_PER_CLIENT_MAX:
            return
        client = self.replies.asker()
        holder = "" if client is None else client.holder
        if self._has_many(holder):
            return
        if client is None and not self.access.is_open:
            return  # a schedule delayed the question, or its sender has gone: its permissions are unknown
        correlation_id = properties.get("JMSCorrelationID")
        headers = {"transformation": "jms-map-json", "content-type": "application/json"}
        if isinstance(correlation_id, str):
            headers["correlation-id"] = correlation_id
        lines = b"".join(annotation(name, value) for name, value in headers.items())
        seen_by = None if self.access.is_open else client
        self.asked.setdefault(holder, deque()).append(Question(queue.name, asker, seen_by, target, lines))
        self.count += 1
        self.counts[asker] = count + 1
        self._go_on()

    def go_on(self) -> None:
        """Continue in a turn with new steps."""
        self.is_armed = False
        self.steps_left = STEPS_AT_ONCE
        if self.asked:
            self._go_on()

    # -- the steps

    def _go_on(self) -> None:
        while self.asked and self.steps_left > 0:
            holder, questions = next(iter(self.asked.items()))
            question = questions[0]
            if self._is_answered(question):
                questions.popleft()
                del self.asked[holder]
                if questions:
                    self.asked[holder] = questions  # behind the others
                self.count -= 1
                left = self.counts.pop(question.asker) - 1
                if left:
                    self.counts[question.asker] = left
        if not self.is_armed:
            self.is_armed = True
            self.context.call_later(0, self._turns, 0)

    def _has_many(self, holder: str) -> bool:
        return bool(holder) and len(self.asked.get(holder, ())) >= QUESTIONS_PER_USER_MAX

    def _is_answered(self, question: Question) -> bool:
        """Continue with a question while steps are left; say whether it is done."""
        self.steps_left -= 1
        if question.left is None:
            question.left = self._asked_for(question.name)
            question.left.reverse()
            self.steps_left -= len(question.left) // LISTED_AT_ONCE
        while question.left and not question.target.is_closed:
            if self.steps_left <= 0:
                return False
            self.steps_left -= 1
            self._answer_about(question, question.left.pop())
        if question.name == BROKER:
            self._send(question, self._of_broker(question.totals))
        return True

    def _asked_for(self, name: str) -> list[Queue | Topic | Consumer]:
        """Return what must be examined for an answer."""
        destinations = self.destinations
        if name == BROKER:
            return [*destinations.all_queues()]
        if name == SUBSCRIPTION:
            return [consumer for client in self.clients.values() for consumer in client.consumers.values()]
        asked = name.removeprefix(DESTINATION)
        if is_wildcard(asked):
            return [*destinations.queues.values(), *destinations.topics.values()]
        found = (destinations.queues.get(asked), destinations.topics.get(asked))
        return [one for one in found if one is not None]

    def _answer_about(self, question: Question, one: Queue | Topic | Consumer) -> None:
        if one.is_closed:
            return  # gone since it was listed
        client = question.client
        if client is not None and not self._may_see(client, one):
            return
        if isinstance(one, Consumer):
            self._send(question, self._of_consumer(one))
        elif question.name != BROKER:
            if question.wildcard is None or question.wildcard.matches(one.name):
                self._send(question, self._of_destination(one))
        elif isinstance(one, Queue):
            _add_up(question.totals, one)

    def _may_see(self, client: Client, one: Queue | Topic | Consumer) -> bool:
        if isinstance(one, Consumer):
            return one.client is client or self.access.may_see(client, one.queue)
        # A question about all was checked before, and their values are summed.
        return one.kind in (TEMP_QUEUE, TEMP_TOPIC) or self.access.may_see(client, one)

    def _send(self, question: Question, values: Values) -> None:
        self.steps_left -= ANSWER_STEPS
        lines = question.headers
        flags = TEXT if b"\\" in lines else TEXT | PLAIN
        body = json.dumps(_as_map(values), separators=(",", ":"), ensure_ascii=False).encode()
        number = question.target.destination_id
        message = Message(number, STOMP, flags, DEFAULT_PRIORITY, 0, 0, 0, b"", lines, body)
        self.replies.send(question.target, message)

    def _of_broker(self, totals: dict[str, int]) -> Values:
        memory = self.context.memory
        return {
            "brokerName": self.name,
            "brokerId": self.context.store.store_id(),
            "size": totals["size"],
            "memoryUsage": memory.held_bytes(),
            "memoryLimit": memory.limit_bytes,
            "memoryPercentUsage": memory.held_bytes() * 100 // max(1, memory.limit_bytes),
            **{name: totals[name] for name in TOTALS if name != "size"},
            "consumerCount": sum(len(client.consumers) for client in self.clients.values()),
            "connectionCount": len(self.clients),
        }

    def _of_destination(self, destination: Queue | Topic) -> Values:
        queues = [destination] if isinstance(destination, Queue) else list(destination.subscriptions.values())
        # A topic counts what was published; each of its subscriptions would count every message again.
        past = destination.fates if isinstance(destination, Topic) else None
        return {
            "destinationName": destination.uri(),
            "brokerName": self.name,
            "size": sum(queue.depth for queue in queues),
            "enqueueCount": destination.enqueued_count,
            "dequeueCount": sum(one.acknowledged_count for one in queues) + (past.acknowledged_count if past else 0),
            "dispatchCount": sum(one.delivered_count for one in queues) + (past.delivered_count if past else 0),
            "expiredCount": sum(one.fates.expired_count for one in queues) + (past.expired_count if past else 0),
            "inflightCount": sum(queue.in_flight_count for queue in queues),
            "consumerCount": sum(queue.consumer_count() for queue in queues),
        }

    def _of_consumer(self, consumer: Consumer) -> Values:
        queue = consumer.queue
        return {
            "destinationName": queue.uri(),
            "connectionId": str(consumer.client.client_number),
            "clientId": consumer.client.describe().get("client_id", ""),
            "subscriptionName": consumer.name,
            "isDurable": str(is_topic(queue.kind) and queue.is_logged).lower(),
            "prefetchSize": consumer.window.prefetch,
            "dispatchedQueueSize": len(consumer.ledger),
            "pendingQueueSize": queue.depth - queue.in_flight_count,
            "dequeueCounter": consumer.acknowledged_count,
        }


@dataclass(slots=True, eq=False)
class _Turns(TimerTarget):
    _statistics: Statistics

    def timer_fired(self, key: int) -> None:
        self._statistics.go_on()


def _add_up(totals: dict[str, int], queue: Queue) -> None:
    totals["size"] += queue.depth
    totals["enqueueCount"] += queue.enqueued_count
    totals["dequeueCount"] += queue.acknowledged_count
    totals["dispatchCount"] += queue.delivered_count
    totals["expiredCount"] += queue.fates.expired_count
    totals["inflightCount"] += queue.in_flight_count


def _as_map(values: Values) -> dict[str, object]:
    """Return a MapMessage as ActiveMQ writes it in JSON."""
    entries: list[object] = []
    for name, value in values.items():
        if isinstance(value, str):
            entries.append({"string": [name, value]})
        else:
            entries.append({"string": name, "long": value})
    return {"map": {"entry": entries}}
