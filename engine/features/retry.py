"""Sends dead letters back to where they came from: one, all that a selector matches, or all; at a rate.

A retry is a consumer of the dead-letter queue like any other: no other consumer has the messages it holds, messages
that it does not want stay in place, and others may consume the queue meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.backlog.context import Context
from engine.backlog.intake import moved
from engine.backlog.memory_budget import MESSAGE_OVERHEAD_BYTES
from engine.clients.connections import Connections
from engine.clients.consumer_registry import Subscribing
from engine.consumers.consumer import INDIVIDUAL, Consumer
from engine.fate.redelivery import Redelivery
from engine.features.queue_run import QueueRun
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.sources.topics.topic import Topic
from engine.values.delivery import ACKNOWLEDGE, IN_FLIGHT, Delivery, advance
from engine.values.errors import EngineError
from engine.values.message import DEAD_LETTER, ORIGINAL_DESTINATION, Message, annotation, split_annotations
from engine.values.options import SubscribeOptions
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_RETRIED
from engine.values.wildcard import is_wildcard

HELD_MAX: Final = 1_000  # messages that the retry holds at a time to move them
SKIPPED_BYTES: Final = 64 * 1024 * 1024  # of messages without an origin, which it holds until its end
TICK_MS: Final = 100

# Headers added by dead-lettering; a retried message keeps none of them except its retry count and dead-letter id.  The
# origin that it had before, as a copy of a virtual topic, stands behind that of its dead-lettering and stays.
ADDED_PREFIXES: Final = ("dlq", "original", "_AMQ_ORIG_", "_AMQ_ACTUAL_EXPIRY")
RETRY_COUNT: Final = "dlqRetryCount"
RETRIED_ID: Final = "dlqRetriedMessageId"  # id of the dead letter


class Retry(QueueRun):
    """One run.  moved_count: sent back so far; skipped_count: left in place because they name no origin.

    It holds skipped messages until its end, so that they are not handed over again; they take no place in its window.

    rate: messages a second at most, 0 for no limit.  limit: messages in all, 0 for no limit.
    is_done: it moves nothing more; ``failure`` says why it ended early, "" if it did not.
    """

    __slots__ = (
        "retries",
        "rate",
        "limit",
        "held",
        "moved_count",
        "skipped_count",
        "skipped_bytes",
        "failure",
        "end_offset",
    )

    def __init__(self, retries: Retries, queue: Queue, selector: str, rate: int, limit: int) -> None:
        """Raises: InvalidSelector."""
        # Messages that fail again meanwhile come back behind this offset, and are not part of this run.
        self.end_offset = retries.context.store.append_offset()
        options = SubscribeOptions(INDIVIDUAL, prefetch=HELD_MAX, name="retry", selector=selector, is_taking=True)
        super().__init__(retries.context, retries.connections, retries.subscribing, queue, options)
        self.retries = retries
        self.rate = rate
        self.limit = limit
        self.held: list[Delivery] = []
        self.moved_count = 0
        self.skipped_count = 0
        self.skipped_bytes = 0
        self.failure = ""
        self.consumer.start()
        self._wait()

    def stop(self, failure: str = "") -> None:
        """End it; what it holds returns to its place."""
        if not self.is_done:
            self.failure = failure
            self.held.clear()
            self.end()

    # -- the engine's side

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        if delivery.message.log_offset < self.end_offset:
            self.held.append(delivery)

    def deliver_settled(self, consumer: Consumer, message: Message, is_redelivered: bool, delivery_count: int) -> None:
        raise AssertionError("a retry acknowledges each message individually")

    def expel(self, consumer: Consumer, error: EngineError, with_connection: bool) -> None:
        self.stop(str(error))

    def describe(self) -> dict[str, str]:
        return {"address": "retry", "client_id": f"retry of {self.queue.name}"}

    def tick(self) -> None:
        allowance = HELD_MAX if self.rate == 0 else max(1, self.rate * TICK_MS // 1_000)
        if self.limit:
            allowance = min(allowance, self.limit - self.moved_count)
        for delivery in self.held[:allowance]:
            if delivery.state == IN_FLIGHT:
                self._send_back(delivery)
        del self.held[:allowance]
        if self.skipped_bytes > SKIPPED_BYTES:
            self.stop(
                f"{self.skipped_count} messages that name no original destination take {self.skipped_bytes} octets of "
                f"memory, the limit is {SKIPPED_BYTES}; a selector can leave them out"
            )
        elif (self.limit and self.moved_count >= self.limit) or (not self.held and self.is_idle()):
            self.stop()
        else:
            self._wait()

    # -- the steps

    def is_idle(self) -> bool:
        """Say whether no more messages will come; a window full of newer messages counts as that."""
        return self.consumer.window.is_full or super().is_idle()

    def _wait(self) -> None:
        # Below one message per tick the ticks are further apart.
        self.call_again(TICK_MS if self.rate == 0 else max(TICK_MS, 1_000 // self.rate))

    def _send_back(self, delivery: Delivery) -> None:
        added = split_annotations(delivery.message.annotations)
        target = self._origin(dict(reversed(added)).get(ORIGINAL_DESTINATION, ""))
        if target is None:
            self._skip(delivery)
            return
        redelivery = self.retries.redelivery
        redelivery.leave(delivery)
        delivery.state = advance(delivery.state, ACKNOWLEDGE)
        self.queue.acknowledged_count += 1
        moved = self._moved(delivery.message, target, added)
        self.context.begin_batch()
        redelivery.dead_letters.moves.relocation.move(delivery, target, moved, ACKNOWLEDGED, CAUSE_RETRIED)
        redelivery.dead_letters.send_on()
        self.context.commit_batch()
        self.moved_count += 1

    def _skip(self, delivery: Delivery) -> None:
        message = delivery.message
        self.skipped_count += 1
        self.skipped_bytes += message.content_bytes() + MESSAGE_OVERHEAD_BYTES
        if self.consumer.window.give_back(message.size):
            self.queue.list_consumer(self.consumer)

    def _origin(self, name: str) -> Queue | Topic | None:
        """Return the first destination that a dead letter names, where it failed last; None if it keeps nothing."""
        destinations = self.retries.destinations
        target: Queue | Topic | None = None
        if is_wildcard(name):
            return None
        if name.startswith("/queue/"):
            target = destinations.own_queue(name.removeprefix("/queue/"))
        elif name.startswith("/topic/"):
            target = destinations.own_topic(name.removeprefix("/topic/"))
        return target if target is not None and target.is_logged else None

    def _moved(self, message: Message, target: Queue | Topic, added: list[tuple[str, str]]) -> Message:
        count = next((int(value) for name, value in added if name == RETRY_COUNT and value.isdigit()), 0)
        before = [(name, value) for name, value in added if name == ORIGINAL_DESTINATION][1:]
        kept = before + [(name, value) for name, value in added if not name.startswith(ADDED_PREFIXES)]
        lines = [annotation(RETRY_COUNT, str(count + 1)), annotation(RETRIED_ID, self.context.message_id(message))]
        lines += [annotation(name, value) for name, value in kept]
        return moved(message, target.destination_id, b"".join(lines), 0, 0, DEAD_LETTER)


@dataclass(slots=True, eq=False)
class Retries:
    """Starts retries; it has the parts that they use."""

    context: Context
    destinations: Destinations
    connections: Connections
    subscribing: Subscribing
    redelivery: Redelivery

    def begin(self, queue: Queue, selector: str, rate: int, limit: int) -> Retry:
        """Send dead letters of ``queue`` back.  Raises: InvalidSelector."""
        return Retry(self, queue, selector, rate, limit)
