"""A message's failed deliveries, remembered for its dead letter and for ``why``."""

from __future__ import annotations

from collections.abc import Mapping

from engine.values.stored import Attempts


class FailureHistory:
    """first_ms, last_ms: wall clock of the first and the last failure.  consumer: the last consumer, in words.

    annotations: what consumers added to the message when they returned it, in their protocol's encoding; not in the
    log.
    """

    __slots__ = ("first_ms", "last_ms", "cause", "consumer", "annotations")

    def __init__(self, first_ms: int, last_ms: int, cause: int, consumer: str, annotations: bytes = b"") -> None:
        self.first_ms = first_ms
        self.last_ms = last_ms
        self.cause = cause
        self.consumer = consumer
        self.annotations = annotations


def restored(attempts: Attempts, consumer: Mapping[str, str]) -> FailureHistory:
    """Return what the log remembers of failures before the last start.  consumer: its description in the store."""
    who = consumer_words(consumer)
    return FailureHistory(attempts.first_ms, attempts.last_ms, attempts.cause, who)


def consumer_words(description: Mapping[str, str]) -> str:
    """Return a consumer in words: client id or login, address, subscription; "" if nothing is known."""
    who = description.get("client_id") or description.get("login") or ""
    words = " at ".join(word for word in (who, description.get("address", "")) if word)
    subscription = description.get("subscription", "")
    return ", ".join(word for word in (words, f"subscription {subscription}" if subscription else "") if word)
