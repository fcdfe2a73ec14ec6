"""What is remembered of a message's failed deliveries, for its dead letter and for ``why``."""

from __future__ import annotations


class FailureHistory:
    """first_ms, last_ms: wall clock of the first and the last failure.  consumer: who had it last, in words."""

    __slots__ = ("first_ms", "last_ms", "cause", "consumer")

    def __init__(self, first_ms: int, last_ms: int, cause: int, consumer: str) -> None:
        self.first_ms = first_ms
        self.last_ms = last_ms
        self.cause = cause
        self.consumer = consumer
