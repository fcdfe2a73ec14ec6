"""A topic: every subscription gets its own delivery of each message published while it is there."""

from __future__ import annotations

from config.policies import AddressSettings
from engine.accounts import Account
from engine.consumer import AUTO
from engine.destination import TOPIC, uri
from engine.intake import intake_for
from engine.memory import MemoryBudget
from engine.message import Message
from engine.queue import Queue


class Topic:
    """Fan-out to subscriptions, each a queue of its own with exactly one consumer, held in memory.

    account: what all subscriptions together hold against the limits of the address, None where it has none.
    A persistent message is in the log even if nobody subscribes; a subscription only ever holds references.
    """

    __slots__ = (
        "destination_id",
        "kind",
        "name",
        "settings",
        "account",
        "intake",
        "subscriptions",
        "enqueued_count",
        "delivered_count",
        "acknowledged_count",
        "redelivered_count",
        "dead_lettered_count",
        "expired_count",
    )

    def __init__(self, destination_id: int, name: str, settings: AddressSettings) -> None:
        self.destination_id = destination_id
        self.kind = TOPIC
        self.name = name
        self.settings = settings
        self.account: Account | None = None
        self.intake = intake_for(settings)
        self.subscriptions: dict[int, Queue] = {}
        self.enqueued_count = 0
        self.delivered_count = 0  # the counts of subscriptions that have ended; those that live count for themselves
        self.acknowledged_count = 0
        self.redelivered_count = 0
        self.dead_lettered_count = 0
        self.expired_count = 0

    def uri(self) -> str:
        return uri(TOPIC, self.name)

    def publish(self, message: Message, memory: MemoryBudget) -> None:
        """Give ``message`` to each subscription: straight to the socket where nothing waits, else behind what does.

        One that is in the log waits for the end of the turn in any case, when it has been written.
        """
        self.enqueued_count += 1
        is_direct = message.log_offset < 0 and not message.expires_ms
        for queue in self.subscriptions.values():
            if is_direct and queue.rotation and not queue.mask:
                consumer = queue.rotation[0]
                if (
                    consumer.ack_mode == AUTO
                    and not consumer.client.is_output_full
                    and message.size <= consumer.window.counted_above
                ):
                    consumer.client.deliver_settled(consumer, message, False, 1)
                    queue.enqueued_count += 1
                    queue.delivered_count += 1
                    queue.acknowledged_count += 1
                    consumer.acknowledged_count += 1
                    continue
            memory.hold(message)
            queue.enqueue(message)
            if queue.rotation:
                queue.mark_dirty()

    def add(self, number: int, queue: Queue) -> None:
        self.subscriptions[number] = queue

    def remove(self, number: int) -> None:
        """End a subscription; its counts stay with the topic."""
        queue = self.subscriptions.pop(number)
        self.delivered_count += queue.delivered_count
        self.acknowledged_count += queue.acknowledged_count
        self.redelivered_count += queue.redelivered_count
        self.dead_lettered_count += queue.dead_lettered_count
        self.expired_count += queue.expired_count
