from __future__ import annotations

import pytest

from engine.features.scheduler.plan import FOREVER, Plan
from engine.features.scheduler.schedule_record import read_header, standing_lines, to_message, to_record
from engine.values.destination import QUEUE, TEMP_QUEUE, TOPIC
from engine.values.message import AMQP_1_0, KEYED, PERSISTENT, PLAIN, PRIORITY_SHIFT, SCHEDULED, STOMP, TEXT, Message

NOW_MS = 1_700_000_000_000
FLAGS = PERSISTENT | TEXT | PLAIN | KEYED


def sent(expires_ms: int = 0, annotations: bytes = b"", encoding: int = STOMP, priority: int = 7) -> Message:
    return Message(5, encoding, FLAGS, priority, 11, 12, expires_ms, annotations, b"a:1\n", b"body")


def record(message: Message, plan: Plan, kind: int = QUEUE, name: str = "q") -> Message:
    return to_record(message, 9, 3, NOW_MS + 1_000, 5, standing_lines(kind, name, plan), NOW_MS, plan)


def test_a_record_says_where_and_when_and_keeps_what_it_is() -> None:
    found = record(sent(), Plan(delay_ms=1_000))
    assert (found.destination_id, found.priority, found.expires_ms, found.tag_hash) == (9, 3, NOW_MS + 1_000, 5)
    assert found.flags == FLAGS | SCHEDULED | 8 << PRIORITY_SHIFT
    assert found.jms_priority() == 7
    assert found.annotations == b"schedule-queue:q\nschedule-tag:11\n"
    assert (found.headers, found.body, found.group_hash) == (b"a:1\n", b"body", 12)


@pytest.mark.parametrize("encoding", [STOMP, AMQP_1_0])
@pytest.mark.parametrize("own", [b"", b"x:y\n"])
@pytest.mark.parametrize("kind", [QUEUE, TOPIC, TEMP_QUEUE])
def test_what_is_delivered_is_what_was_sent(kind: int, own: bytes, encoding: int) -> None:
    waiting = record(sent(0, own, encoding), Plan(delay_ms=1_000), kind, "a:b\\c")
    header, rest = read_header(waiting.annotations)
    assert (header.kind, header.name, rest) == (kind, "a:b\\c", own)
    message = to_message(waiting, header, rest, 5, "ID:x-1", NOW_MS + 1_000)
    assert (message.destination_id, message.priority, message.tag_hash, message.group_hash) == (5, 7, 11, 12)
    assert message.flags == FLAGS & ~PLAIN
    assert message.encoding == encoding
    assert message.annotations == b"scheduledJobId:ID\\cx-1\n" + own
    assert (message.headers, message.body, message.expires_ms) == (b"a:1\n", b"body", 0)


@pytest.mark.parametrize(
    ("expires_ms", "renews", "expected_ms"),
    [
        (NOW_MS + 500, True, NOW_MS + 1_500),
        (NOW_MS + 500, False, NOW_MS + 500),
        (NOW_MS - 1, True, NOW_MS - 1),
        (0, True, 0),
        (0, False, 0),
    ],
)
def test_expiry(expires_ms: int, renews: bool, expected_ms: int) -> None:
    waiting = record(sent(expires_ms), Plan(delay_ms=1_000, renews_expiry=renews))
    header, rest = read_header(waiting.annotations)
    assert to_message(waiting, header, rest, 5, "ID:x-1", NOW_MS + 1_000).expires_ms == expected_ms


@pytest.mark.parametrize(
    "plan",
    [
        Plan(period_ms=100, repeat=FOREVER, renews_expiry=False),
        Plan(delay_ms=3, period_ms=100, repeat=7, cron="0 * * * *", renews_expiry=False),
        Plan(cron="*/5 1,2 * * MON-FRI", renews_expiry=False),
    ],
)
def test_the_plan_of_what_repeats_is_kept(plan: Plan) -> None:
    assert read_header(record(sent(), plan).annotations)[0].plan == plan


def test_escapes_in_a_name_are_not_plain() -> None:
    assert not record(sent(), Plan(delay_ms=1), QUEUE, "a:b").flags & PLAIN
