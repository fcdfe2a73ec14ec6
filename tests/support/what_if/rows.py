"""Rows of the tables messages and deliveries, and traces of them."""

from __future__ import annotations

from typing import Any, Final

from spark_bridge.arrow.schema import DELIVERIES, MESSAGES
from tests.support.fakes import START_WALL_MS
from tests.support.what_if.recorded_world import batch_of, time_of
from what_if.trace.read import trace_of
from what_if.trace.tables import DELIVERY_COLUMNS, MESSAGE_COLUMNS
from what_if.trace.trace import Trace

TOPIC_ROW: Final = {"destination_kind": "topic", "destination_name": "t"}
QUEUE_ROW: Final = {"destination_kind": "queue", "destination_name": "q"}


def message(number: int, at_ms: int, **values: Any) -> dict[str, Any]:
    return {
        "log_offset": number,
        "store_time": time_of(START_WALL_MS + at_ms),
        "priority": 4,
        "headers": [],
        "body": b"12345",
        **values,
    }


def delivery(number: int, at_ms: int, came_ms: int, consumer: int, **values: Any) -> dict[str, Any]:
    return {
        "log_offset": 100_000 + at_ms,
        "store_time": time_of(START_WALL_MS + at_ms),
        "message_offset": number,
        "message_time": time_of(START_WALL_MS + came_ms),
        "outcome": "acknowledged",
        "attempt": 1,
        "consumer": consumer,
        **values,
    }


def made(messages: list[dict[str, Any]], deliveries: list[dict[str, Any]], from_ms: int = 0) -> Trace:
    return trace_of(
        iter([batch_of(messages, MESSAGES, MESSAGE_COLUMNS)]),
        iter([batch_of(deliveries, DELIVERIES, DELIVERY_COLUMNS)]),
        from_ms,
    )
