"""What the table deliveries tells: times of consumers, when they were there, kinds of attempts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spark_bridge.arrow.schema import DELIVERIES
from tests.support.fakes import START_WALL_MS
from tests.support.what_if.recorded_world import batch_of, time_of
from what_if.trace.deliveries import attempts_of, ends_of, read_deliveries, since_of
from what_if.trace.tables import DELIVERY_COLUMNS
from what_if.trace.trace import ALWAYS_MS, AT_ONCE, CLOSED, FAILED, GIVEN_UP, LOST, NEVER_MS, REJECTED, WORKED


def row(at_ms: int, message: int, came_ms: int, consumer: int | None = 1, **values: Any) -> dict[str, Any]:
    """Return a row; times are since the start, and the offset of the record is ``at_ms``."""
    due_ms = values.pop("due_ms", None)
    return {
        "destination_kind": "queue",
        "destination_name": "q",
        "log_offset": at_ms,
        "store_time": time_of(START_WALL_MS + at_ms),
        "message_offset": message,
        "message_time": time_of(START_WALL_MS + came_ms),
        "outcome": "acknowledged",
        "attempt": 1,
        "next_attempt": None if due_ms is None else time_of(START_WALL_MS + due_ms),
        "consumer": consumer,
        **values,
    }


def worked(*rows: dict[str, Any]) -> Any:
    return attempts_of(read_deliveries(iter([batch_of(list(rows), DELIVERIES, DELIVERY_COLUMNS)])))


def services(*rows: dict[str, Any]) -> list[list[int]]:
    return [list(one.services_us) for one in worked(*rows).consumers]


def test_a_message_takes_from_its_coming_or_from_the_one_before() -> None:
    assert services(row(10, 1, 5), row(30, 2, 6), row(40, 3, 36)) == [[4_000, 5_000, 20_000]]


def test_messages_settled_at_one_moment_share_the_time() -> None:
    assert services(row(10, 1, 7), *(row(20, number, 0) for number in (2, 3, 4))) == [[3_000, 3_333, 3_333, 3_334]]


def test_a_redelivered_message_takes_from_the_time_when_it_was_due() -> None:
    failed = row(10, 1, 8, outcome="failed", cause="nack", due_ms=110)
    assert services(failed, row(115, 1, 8, attempt=2)) == [[2_000, 5_000]]


def test_the_first_message_counts_as_long_as_others_if_it_waited_for_its_consumer() -> None:
    assert services(row(5_000, 1, 0), row(5_004, 2, 0), row(5_010, 3, 0)) == [[4_000, 5_000, 6_000]]


def test_a_consumer_that_came_late_and_left_early() -> None:
    early = [row(number * 10, number, number * 10 - 3, 1) for number in range(1, 1_001)]
    late = [row(number * 10 + 5, number + 5_000, number * 10, 2) for number in range(500, 1_001)]
    left = [row(number * 10 + 6, number + 9_000, number * 10, 3) for number in range(1, 200)]
    first, second, third = worked(*sorted(early + late + left, key=lambda one: one["log_offset"])).consumers
    assert (first.from_ms, first.to_ms) == (ALWAYS_MS, NEVER_MS)
    assert (second.from_ms, second.to_ms) == (START_WALL_MS + 5_000, NEVER_MS)
    assert (third.from_ms, third.to_ms) == (ALWAYS_MS, START_WALL_MS + 1_996)


def test_an_idle_consumer_is_there_while_no_message_comes() -> None:
    fast = [row(number, number, 0, 1) for number in range(1, 200)]
    slow = [row(number * 1_000, number + 500, 0, 2) for number in range(1, 20)]
    found = worked(*sorted(fast + slow, key=lambda one: one["log_offset"])).consumers
    assert [one.to_ms for one in found] == [NEVER_MS, NEVER_MS]


@pytest.mark.parametrize(
    ("outcome", "cause", "kind"),
    [
        ("acknowledged", None, WORKED),
        ("failed", "nack", AT_ONCE),
        ("failed", "connection-lost", LOST),
        ("failed", "closed", CLOSED),
        ("dead-lettered", "rejected", REJECTED + GIVEN_UP),
        ("dead-lettered", "nack", FAILED + GIVEN_UP),
        ("dead-lettered", "exhausted", FAILED + GIVEN_UP),
    ],
)
def test_kinds_of_attempts(outcome: str, cause: str | None, kind: int) -> None:
    assert list(worked(row(10, 1, 0, outcome=outcome, cause=cause)).attempts.kinds) == [kind]


def test_an_exhausted_message_fails_as_it_did_before() -> None:
    lost = row(10, 1, 0, outcome="failed", cause="connection-lost")
    last = row(20, 1, 0, 2, outcome="dead-lettered", cause="exhausted", attempt=2)
    assert list(worked(lost, last).attempts.kinds) == [LOST, LOST + GIVEN_UP]


def test_a_lost_connection_ends_its_consumer_and_one_message_is_the_cause() -> None:
    lost = [row(10, number, 0, outcome="failed", cause="connection-lost") for number in (1, 2)]
    found = worked(*lost)
    assert list(found.attempts.kinds) == [LOST]
    assert found.consumers[0].to_ms == START_WALL_MS + 10


def test_what_was_with_no_consumer_is_no_attempt() -> None:
    expired = row(10, 1, 0, None, outcome="expired", cause="expired", attempt=None)
    rows = read_deliveries(iter([batch_of([expired, row(20, 2, 0)], DELIVERIES, DELIVERY_COLUMNS)]))
    assert list(attempts_of(rows).messages) == [2]
    assert list(ends_of(rows, np.array([1, 2]), 0).outcomes) == [3, 1]
    assert list(ends_of(rows, np.array([2]), 0).waits_ms) == [20]
    assert list(ends_of(rows, np.array([2]), START_WALL_MS + 5).waits_ms) == [15]


def test_a_subscription_begins_with_its_first_message() -> None:
    topic = {"destination_kind": "topic", "destination_name": "t", "subscription": "app:sub"}
    rows = read_deliveries(
        iter(
            [
                batch_of(
                    [row(10, 7, 0), row(20, 5, 0, 2, **topic), row(30, 9, 0, 2, **topic)], DELIVERIES, DELIVERY_COLUMNS
                )
            ]
        )
    )
    assert since_of(rows, 2) == [0, 5]
    assert rows.owner_of(list(rows.owners)[1]).label() == "topic://t app:sub"


def test_an_empty_table() -> None:
    rows = read_deliveries(iter([]))
    found = attempts_of(rows)
    assert (found.consumers, len(found.messages), len(ends_of(rows, np.array([1]), 0).times_ms)) == ([], 0, 0)
