"""The life of a message, read from the log that a real store wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.store.read.message_history import FAILED, SENT, SETTLED, Biography, biography
from engine.store.read.reader import StoreReader
from engine.store.read.records import UnknownMessage
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import StoreError
from engine.values.message import DEAD_LETTER, PERSISTENT, STOMP, Message, annotation
from engine.values.outcomes import (
    ACKNOWLEDGED,
    CAUSE_EXHAUSTED,
    CAUSE_NACK,
    CAUSE_NONE,
    CAUSE_NOT_SELECTED,
    DEAD_LETTERED,
    DROPPED,
)
from engine.values.stored import Range
from tests.support.store.store_home import FileHome


def reader_of(home: FileHome, directory: Path) -> StoreReader:
    home.flush()
    for path in home.files.paths():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(bytes(home.files.octets(path)))
    return StoreReader(directory / "data")


class Told:
    """A store with a queue ``orders``, and what it tells of a message."""

    def __init__(self) -> None:
        self.home = FileHome()
        self.store = self.home.store
        self.orders = self.store.open_destination(QUEUE, "orders")

    def send(self, body: bytes = b"body", **values: int) -> Message:
        message = Message(self.orders, STOMP, PERSISTENT, 4, 0, 0, values.get("expires_ms", 0), b"", b"a:1\n", body)
        self.store.append(message)
        return message

    def id_of(self, message: Message) -> str:
        return f"ID:{self.store.store_id()}-{message.log_offset}"

    def of(self, message: Message, directory: Path) -> Biography:
        return biography(reader_of(self.home, directory), self.id_of(message))


def test_a_message_that_waits_was_only_sent(tmp_path: Path) -> None:
    told = Told()
    told.send(b"other")
    message = told.send()
    told.send(b"another")
    found = told.of(message, tmp_path)
    assert (found.destination, found.is_persistent, found.priority) == ("queue://orders", True, 4)
    assert [event.kind for event in found.events] == [SENT]
    assert found.events[0].time_ms == message.store_time_ms
    assert found.size_bytes == len(b"a:1\n") + len(b"body")


@pytest.mark.parametrize("is_listed", [False, True], ids=["in-the-tail", "behind-the-consume-queue-offset"])
def test_failures_and_the_end_are_told_with_their_consumers(tmp_path: Path, is_listed: bool) -> None:
    told = Told()
    worker = told.store.open_consumer(told.orders, {"client_id": "worker", "address": "10.0.0.1:5"})
    message = told.send()
    told.send(b"other")
    told.store.fail_attempts(told.orders, worker, CAUSE_NACK, 5_000, [Range(4, message.queue_offset, 1, 1)])
    heir = told.store.open_consumer(told.orders, {"client_id": "heir"})
    told.store.settle(told.orders, heir, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, 2, 0, 17)])
    if is_listed:
        for _ in range(40):  # segments of 8 KiB: the records above lie far behind
            told.send(b"x" * 1_000)
            told.home.flush()
    found = told.of(message, tmp_path)
    assert [(event.kind, event.cause, event.outcome) for event in found.events] == [
        (SENT, "", ""),
        (FAILED, "nack", ""),
        (SETTLED, "none", "acknowledged"),
    ]
    assert (found.events[1].count, found.events[1].due_ms) == (1, 5_000)
    assert found.events[1].consumer["client_id"] == "worker"
    assert found.events[2].consumer == {"client_id": "heir"}
    assert found.events[2].due_ms == 0, "a settled message waits for nothing"


def test_each_durable_subscription_has_its_own_part(tmp_path: Path) -> None:
    told = Told()
    topic = told.store.open_destination(TOPIC, "news")
    mail = told.store.open_subscription(topic, "mail", {"client_id": "c1"})
    archive = told.store.open_subscription(topic, "archive", {"client_id": "c2"})
    message = Message(topic, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"a:1\n", b"body")
    told.store.append(message)
    told.store.fail_attempts(mail, 0, CAUSE_NACK, 5_000, [Range(4, 0, 1, 1)])
    told.store.settle(archive, 0, DROPPED, CAUSE_NOT_SELECTED, [Range(4, 0, 1, 0, message.size, (message.size,))])
    events = told.of(message, tmp_path).events
    assert [(event.kind, event.owner, event.cause) for event in events] == [
        (SENT, "topic://news", ""),
        (FAILED, "mail", "nack"),
        (SETTLED, "archive", "not-selected"),
    ]


def test_events_of_other_messages_are_not_told(tmp_path: Path) -> None:
    told = Told()
    first, second = told.send(), told.send()
    told.store.settle(told.orders, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, first.queue_offset, 1)])
    assert [event.kind for event in told.of(second, tmp_path).events] == [SENT]


def test_a_dead_letter_names_where_it_went(tmp_path: Path) -> None:
    told = Told()
    message = told.send()
    told.home.flush()
    dead_letters = told.store.open_destination(QUEUE, "DLQ")
    cause = "line\u2028 separator\nand colon: all one value"
    origin = annotation("originalMessageId", told.id_of(message)) + annotation("dlqCause", cause)
    moved = Message(dead_letters, STOMP, PERSISTENT | DEAD_LETTER, 4, 0, 0, 0, origin, b"a:1\n", b"body")
    told.store.begin()
    told.store.append(moved)
    told.store.settle(told.orders, 0, DEAD_LETTERED, CAUSE_EXHAUSTED, [Range(4, 0, 1, 7)])
    told.store.commit()
    reader = reader_of(told.home, tmp_path)
    found = biography(reader, told.id_of(message))
    assert (found.events[-1].outcome, found.events[-1].cause) == ("dead-lettered", "exhausted")
    assert found.events[-1].moved_to == told.id_of(moved)
    again = biography(reader, told.id_of(moved))
    assert again.is_dead_letter
    assert again.annotations == [("originalMessageId", told.id_of(message)), ("dlqCause", cause)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ID:ffffffff-12", "not an id of this store"),
        ("nonsense", "not an id of this store"),
        ("ID:{store}-1-n7", "was not logged"),
        ("ID:{store}-99999999", "not in the store yet"),
        ("ID:{store}-" + "9" * 5_000, "was not logged"),
        ("ID:{store}-41", "no message is at log offset 41"),
    ],
)
def test_what_names_no_message_is_refused_in_plain_words(tmp_path: Path, text: str, expected: str) -> None:
    told = Told()
    told.send()
    reader = reader_of(told.home, tmp_path)
    with pytest.raises(UnknownMessage, match=expected) as refused:
        biography(reader, text.format(store=told.store.store_id()))
    assert isinstance(refused.value, StoreError)
