"""Lines of the log: one each, and not too many from one address."""

from __future__ import annotations

import json
import logging

import pytest

from gateway.process.counters import GatewayCounters
from gateway.process.log_lines import (
    ADDRESSES_KEPT,
    LINES_MAX,
    PERIOD_MS,
    JsonFormatter,
    LineFormatter,
    LineLimit,
    PeerLines,
    one_line,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/queue/a", "/queue/a"),
        ("a\n2026-11-22 CRITICAL penstock the disk is gone", "a\\n2026-11-22 CRITICAL penstock the disk is gone"),
        ("a\rb\tc\x1b[31m", "a\\rb\\tc\\x1b[31m"),
        ("a\u2028b\x85c\u202ed\ud800", "a\\u2028b\\x85c\\u202ed\\ud800"),
        ("Grüße, 😀", "Grüße, 😀"),
    ],
)
def test_a_line_stays_one(text: str, expected: str) -> None:
    assert one_line(text) == expected


def test_the_formatter_escapes_what_came_from_a_peer_and_keeps_a_traceback() -> None:
    record = logging.LogRecord("penstock", logging.WARNING, "", 0, "%s: %s", ("peer", "a\nb"), None)
    record.exc_text = "Traceback\n  of two lines"
    assert LineFormatter("%(levelname)s %(message)s").format(record) == "WARNING peer: a\\nb\nTraceback\n  of two lines"


def test_no_line_of_a_traceback_looks_like_one_of_the_log() -> None:
    try:
        raise ValueError("'a\n2026-11-22 CRITICAL penstock the disk is gone\u20282026-11-22 INFO x\x1b[2J'")
    except ValueError as error:
        record = logging.LogRecord("penstock", logging.ERROR, "", 0, "a fault", (), (type(error), error, None))
    lines = LineFormatter("%(levelname)s %(message)s").format(record).splitlines()
    assert lines[0] == "ERROR a fault"
    assert all(line.startswith("  ") for line in lines[1:]) and "the disk is gone" in lines[2]
    assert "\x1b" not in "".join(lines)


def test_a_line_of_json_is_one_object() -> None:
    try:
        raise ValueError("of\ntwo lines")
    except ValueError as error:
        record = logging.LogRecord("penstock", logging.ERROR, "", 0, "%s ü", ("a\nb",), (type(error), error, None))
    record.created = 0.25
    line = JsonFormatter().format(record)
    assert "\n" not in line
    entry = json.loads(line)
    assert "ValueError: of" in entry.pop("exception")
    assert entry == {
        "time": "1970-01-01T00:00:00.250+00:00",
        "level": "ERROR",
        "logger": "penstock",
        "message": "a\\nb ü",
    }


def test_an_address_may_cause_so_many_lines_in_a_period() -> None:
    limit = LineLimit()
    assert [limit.left("a", 0) for _ in range(LINES_MAX)] == list(range(LINES_MAX - 1, -1, -1))
    assert limit.left("a", PERIOD_MS - 1) == -1
    assert limit.left("b", PERIOD_MS - 1) == LINES_MAX - 1
    assert limit.left("a", PERIOD_MS) == LINES_MAX - 1


def test_not_every_address_is_remembered_for_ever() -> None:
    limit = LineLimit()
    for number in range(ADDRESSES_KEPT + 1):
        limit.left(str(number), 0)
    assert limit.left("0", 1) == LINES_MAX - 1
    assert limit.left(str(ADDRESSES_KEPT), 1) == LINES_MAX - 2


def test_the_last_line_of_an_address_says_that_more_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    counters = GatewayCounters()
    now_s = [0.0]
    lines = PeerLines(counters, lambda: now_s[0])
    log = logging.getLogger("penstock.listener")
    for _ in range(LINES_MAX + 2):
        lines.warn(log, "10.0.0.1", "refused")
    lines.warn(log, "10.0.0.2", "said a thing", "10.0.0.2:99")
    now_s[0] = PERIOD_MS / 1_000
    lines.warn(log, "10.0.0.1", "again")
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "10.0.0.1: refused"
    assert said[LINES_MAX - 1 :] == [
        "10.0.0.1: refused; more of 10.0.0.1 is left out for 60 s",
        "10.0.0.2:99: said a thing",
        "10.0.0.1: again",
    ]
    assert counters.left_out_lines == 2
