"""The failure history of a delivery, and the policy that applies to it."""

from __future__ import annotations

from config.redelivery_policy import RedeliveryPolicy
from engine.consumers.consumer import Consumer, consumer_of
from engine.sources.queue import queue_of
from engine.values.delivery import Delivery, FailureHistory, consumer_words


def policy_of(delivery: Delivery) -> RedeliveryPolicy:
    """Return the policy of the consumer that has the delivery, else that of its queue."""
    consumer = delivery.consumer
    if isinstance(consumer, Consumer) and consumer.redelivery is not None:
        return consumer.redelivery
    return queue_of(delivery.lane).settings.redelivery


def history_with(delivery: Delivery, cause: int, now_ms: int) -> FailureHistory:
    """Return the history after the delivery has failed now for ``cause``."""
    known = delivery.history
    if delivery.consumer is None:
        return added(known, cause, "" if known is None else known.consumer, now_ms)
    return added(known, cause, consumer_words(consumer_of(delivery).description()), now_ms)


def added(known: FailureHistory | None, cause: int, words: str, now_ms: int) -> FailureHistory:
    """Return ``known`` with one more failure.  words: the consumer that had the message."""
    if known is None:
        return FailureHistory(now_ms, now_ms, cause, words)
    return FailureHistory(known.first_ms, now_ms, cause, words, known.annotations)
