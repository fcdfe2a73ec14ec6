"""Origin, cause and history of dead letters as columns."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.values.destination import TOPIC
from engine.values.message import DEAD_LETTER, PERSISTENT
from engine.values.outcomes import ACKNOWLEDGED
from spark_bridge.arrow.schema import DEAD_LETTER_COLUMNS, DEAD_LETTERS, MESSAGE_COLUMNS
from tests.support.store.lake_rows import lake_rows
from tests.support.store.sample_store import SampleStore

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")

OWN = [name for name, *_ in DEAD_LETTER_COLUMNS[len(MESSAGE_COLUMNS) - 1 :]]
FAILED = b"""\
original-destination:/queue/orders
dlqDeliveryFailureCause:exhausted\\c delivery 3 failed, the redelivery policy allows 2 redeliveries; no\\ntable
originalMessageId:ID\\c0badcafe-72
originalDeliveryCount:3
_AMQ_ORIG_ADDRESS:orders
_AMQ_ORIG_QUEUE:orders
dlqCause:exhausted
dlqFirstFailureTime:1700000000001
dlqLastFailureTime:1700000000250
dlqConsumer:worker at 127.0.0.1\\c7
"""
OF_A_SUBSCRIPTION = b"""\
original-destination:/topic/news
dlqDeliveryFailureCause:nack\\c delivery 1 failed
originalMessageId:ID\\c0badcafe-1-n7
originalDeliveryCount:1
_AMQ_ORIG_ADDRESS:news
_AMQ_ORIG_QUEUE:crm\\cmail
dlqRetryCount:2
"""
EXPIRED = b"""\
original-destination:/queue/orders
dlqDeliveryFailureCause:Message Expired. Expiration\\c1700000000000
originalMessageId:ID\\c0badcafe-80
originalDeliveryCount:0
_AMQ_ORIG_ADDRESS:orders
_AMQ_ORIG_QUEUE:orders
_AMQ_ACTUAL_EXPIRY:1700000000500
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data") as sample:
        yield sample


def dead_letters(store: SampleStore) -> list[dict[str, Any]]:
    return [{name: row[name] for name in OWN} for row in lake_rows(store.directory, ">", DEAD_LETTERS)]


def at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(1_700_000_000, UTC).replace(microsecond=milliseconds * 1000)


@pytest.mark.parametrize("is_clean", [True, False], ids=["from consume queues", "tail scanned"])
def test_only_dead_letters_with_all_their_columns(store: SampleStore, is_clean: bool) -> None:
    queue = store.destination("ActiveMQ.DLQ")
    store.send(queue, b"sent by a client", FAILED)
    first = store.send(queue, b"a", b"n:1\n", FAILED, flags=PERSISTENT | DEAD_LETTER)
    second = store.send(store.destination("t", TOPIC), b"b", b"", OF_A_SUBSCRIPTION, flags=PERSISTENT | DEAD_LETTER)
    third = store.send(queue, b"c", b"", EXPIRED, flags=PERSISTENT | DEAD_LETTER)
    store.settle(queue, (1, 1), outcome=ACKNOWLEDGED)
    store.publish(is_clean=is_clean)
    rows = lake_rows(store.directory, ">", DEAD_LETTERS)
    assert [row["log_offset"] for row in rows] == [first, second, third]
    assert [row["delivery_state"] for row in rows] == ["acknowledged", "published", "pending"]
    assert [row["body_text"] for row in rows] == ["a", "b", "c"]
    assert dict(rows[0]["headers"])["n"] == "1"
    assert dead_letters(store) == [
        {
            "original_destination": "queue://orders",
            "original_subscription": None,
            "original_message_id": "ID:0badcafe-72",
            "cause": "exhausted",
            "failure": "exhausted: delivery 3 failed, the redelivery policy allows 2 redeliveries; no\ntable",
            "failed_attempts": 3,
            "first_failure": at(1),
            "last_failure": at(250),
            "last_consumer": "worker at 127.0.0.1:7",
            "retry_count": None,
        },
        {
            "original_destination": "topic://news",
            "original_subscription": "crm:mail",
            "original_message_id": "ID:0badcafe-1-n7",
            "cause": "nack",
            "failure": "nack: delivery 1 failed",
            "failed_attempts": 1,
            "first_failure": None,
            "last_failure": None,
            "last_consumer": None,
            "retry_count": 2,
        },
        {
            "original_destination": "queue://orders",
            "original_subscription": None,
            "original_message_id": "ID:0badcafe-80",
            "cause": "expired",
            "failure": "Message Expired. Expiration:1700000000000",
            "failed_attempts": 0,
            "first_failure": None,
            "last_failure": None,
            "last_consumer": None,
            "retry_count": None,
        },
    ]


def test_the_last_death_counts(store: SampleStore) -> None:
    queue = store.destination("Expired")
    store.send(queue, b"", b"", EXPIRED + FAILED, flags=PERSISTENT | DEAD_LETTER)
    store.publish()
    (row,) = dead_letters(store)
    assert (row["cause"], row["failed_attempts"], row["original_message_id"]) == ("expired", 0, "ID:0badcafe-80")
    assert (row["first_failure"], row["last_failure"], row["last_consumer"]) == (None, None, None)


def test_headers_of_a_client_do_not_count(store: SampleStore) -> None:
    queue = store.destination("DLQ")
    store.send(queue, b"", FAILED, b"dlqRetryCount:many\n", flags=PERSISTENT | DEAD_LETTER)
    store.publish()
    assert dead_letters(store) == [dict.fromkeys(OWN)]
