"""Times that clients give, at the end of what can be written."""

from __future__ import annotations

import pytest

from engine.values.message import TIME_MOST_MS, annotation, later_ms
from tests.support.protocols.amqp_gateway import AmqpGateway


@pytest.mark.parametrize(
    ("since_ms", "wait_ms", "then_ms"),
    [(5, 7, 12), (5, 0, 5), (5, TIME_MOST_MS - 5, TIME_MOST_MS), (5, TIME_MOST_MS, TIME_MOST_MS)],
)
def test_time_ends_where_its_type_does(since_ms: int, wait_ms: int, then_ms: int) -> None:
    assert later_ms(since_ms, wait_ms) == then_ms


def test_a_message_that_lives_for_ever_is_fired_like_others() -> None:
    gateway = AmqpGateway(is_restartable=True)
    headers = {"AMQ_SCHEDULED_DELAY": "1000", "expires": str(TIME_MOST_MS), "persistent": "true"}
    gateway.connect().publish("/queue/q", b"late", **headers)
    gateway = AmqpGateway(earlier=gateway)
    receiver = gateway.amqp_session()
    receiver.attach_receiver("q", credit=5)
    gateway.advance(2_000)
    assert len(receiver.messages()) == 1
    assert gateway.stats("q").in_flight == 1


def test_an_annotation_is_one_line_whatever_is_in_it() -> None:
    assert annotation("cause", "plain") == b"cause:plain\n"
    assert annotation("a:b", "x\ny\r\\z:ü") == "a\\cb:x\\ny\\r\\\\z\\cü\n".encode()
    assert annotation("a\0b", "x\0ERROR") == b"a b:x ERROR\n"
