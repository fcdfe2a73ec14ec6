"""Rows as SEND frames."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from spark_bridge.arrow.schema import TABLES, readable
from spark_bridge.write.rows import check_columns, frame_of


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("a", "/queue/a"),
        ("queue://a", "/queue/a"),
        ("topic://a.b", "/topic/a.b"),
        ("/topic/a", "/topic/a"),
        ("/queue/a", "/queue/a"),
    ],
)
def test_destinations(name: str, spelled: str) -> None:
    assert frame_of({"destination": name}, "other")[0] == frame_of({}, name)[0] == spelled


def test_a_row_needs_a_destination() -> None:
    with pytest.raises(ValueError, match="a row has no destination; give the column destination or the option"):
        frame_of({"destination": None}, "")


@pytest.mark.parametrize(
    ("row", "body", "headers"),
    [
        ({"body_text": "ä"}, "ä".encode(), {"amq-msg-type": "text"}),
        ({"body_text": "", "body": None}, b"", {"amq-msg-type": "text"}),
        ({"body": bytearray(b"\x00")}, b"\x00", {"content-length": "1"}),
        ({}, b"", {"content-length": "0"}),
        ({"body": b"", "persistent": False, "priority": 0}, b"", {"content-length": "0", "priority": "0"}),
    ],
)
def test_bodies(row: dict[str, Any], body: bytes, headers: dict[str, str]) -> None:
    expected = {"persistent": "false" if row.get("persistent") is False else "true", **headers}
    assert frame_of(row, "q")[1:] == (body, expected)


def test_headers() -> None:
    row = {
        "headers": {"colour": "red", "type": "old", "receipt": "r", "_AMQ_DUPL_ID": "1", "JMSXDeliveryCount": "2"},
        "type": "order",
        "correlation_id": None,
        "group_id": "g",
        "group_sequence": 3,
        "expires": datetime(2040, 1, 1, tzinfo=UTC),
        "message_id": "ID:a-1",
        "log_offset": 7,
    }
    _, _, headers = frame_of(row, "q")
    assert headers == {
        "colour": "red",
        "type": "order",
        "JMSXGroupID": "g",
        "JMSXGroupSeq": "3",
        "expires": "2208988800000",
        "replayed-message-id": "ID:a-1",
        "persistent": "true",
        "content-length": "0",
    }


def test_every_column_of_a_read_may_be_given() -> None:
    for table in TABLES:
        check_columns([name for name, _, _, _ in readable(table)])
    with pytest.raises(ValueError, match="unknown column 'text'; a write takes destination, body"):
        check_columns(["body", "text"])
