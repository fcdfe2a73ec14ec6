"""The messages that an id means, in a store on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.store.read.reader import StoreReader
from engine.store.read.records import UnknownMessage
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE
from engine.values.message import KEYED, PERSISTENT, STOMP, Message
from gateway.answers.message_lives import SENDER_ID_MAX, SearchGoesOn, lives_of, search_lines
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import FileHome


class Sent:
    """A store with messages; the index follows the log."""

    def __init__(self) -> None:
        self.home = FileHome(StoreSettings(segment_bytes=8192, index_slots=8, index_entries=20))
        self.queue = self.home.store.open_destination(QUEUE, "orders")

    def send(self, headers: bytes, flags: int = PERSISTENT) -> str:
        message = Message(self.queue, STOMP, flags, 4, 0, 0, 0, b"", headers, b"body")
        self.home.store.append(message)
        return f"ID:{self.home.store.store_id()}-{message.log_offset}"

    def fill(self) -> None:
        for _ in range(40):
            self.send(b"a:" + b"x" * 1_000 + b"\n")
            self.home.flush()
        self.home.pass_time(1_000)

    def reader(self, directory: Path) -> StoreReader:
        self.home.flush()
        self.home.stop()
        return copy_to(directory, self.home.files)


def test_the_ids_of_the_store_need_no_search(tmp_path: Path) -> None:
    sent = Sent()
    message_id = sent.send(b"a:1\n")
    found = lives_of(sent.reader(tmp_path), message_id)
    assert [life.message_id for life in found.lives] == [message_id]
    assert found.search is None


def test_an_id_of_the_sender_is_searched_for(tmp_path: Path) -> None:
    sent = Sent()
    first = sent.send(b"amqp-message-id:mine\n")
    second = sent.send(b"amqp-message-id:mine\n")
    reply = sent.send(b"correlation-id:mine\n", PERSISTENT | KEYED)
    found = lives_of(sent.reader(tmp_path), "mine")
    assert [life.message_id for life in found.lives] == [second, first]
    assert found.search is not None and found.search.is_whole and found.search.named_by == [reply]
    lines = search_lines(found.search, len(found.lives))
    assert lines[0].startswith("2 messages, the newest first, have the id 'mine' from the sender; all of the log below")
    assert lines[1] == f"  it is a key or the correlation id of {reply}"


def test_the_limit_is_said_with_where_to_go_on(tmp_path: Path) -> None:
    sent = Sent()
    message_id = sent.send(b"amqp-message-id:mine\n")
    sent.fill()
    reader = sent.reader(tmp_path)
    with pytest.raises(SearchGoesOn, match=r"has it from its sender: the log was searched from offset \d+") as refused:
        lives_of(reader, "mine", most_bytes=10_000)
    at = int(str(refused.value).rpartition("--before ")[2].removesuffix(" goes on"))
    assert refused.value.before == at
    found = lives_of(reader, "mine", before=at)
    assert [life.message_id for life in found.lives] == [message_id]


def test_an_id_that_is_a_key_is_found_beyond_the_limit(tmp_path: Path) -> None:
    sent = Sent()
    message_id = sent.send(b"amqp-message-id:mine\nkeys:mine\n", PERSISTENT | KEYED)
    named_by = sent.send(b"keys:other mine\n", PERSISTENT | KEYED)
    sent.fill()
    found = lives_of(sent.reader(tmp_path), "mine", most_bytes=10_000)
    assert [life.message_id for life in found.lives] == [message_id]
    assert found.search is not None and not found.search.is_whole and found.search.named_by == [named_by]


@pytest.mark.parametrize(
    ("message_id", "expected"),
    [
        ("nobody", "'nobody' is not an id of this store, .*all of the log below offset .*; the log has no non-pers"),
        ("a\ud800", "not an id of this store"),
        ("x" * (SENDER_ID_MAX + 1), "the id has 1025 characters; allowed are 1024"),
    ],
)
def test_what_is_not_found_is_said(tmp_path: Path, message_id: str, expected: str) -> None:
    sent = Sent()
    sent.send(b"amqp-message-id:mine\n")
    with pytest.raises(UnknownMessage, match=expected):
        lives_of(sent.reader(tmp_path), message_id)
