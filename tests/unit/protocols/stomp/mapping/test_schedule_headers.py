"""Headers of SEND that ask for a later delivery."""

from __future__ import annotations

import pytest

from engine.features.scheduler.plan import FOREVER, Plan, ScheduleLimits
from engine.values.errors import InvalidOption
from protocols.stomp.mapping.schedule_headers import plan_in, without_job_id, without_schedule
from tests.support.protocols.stomp_gateway import connected

NOW_MS = 1_700_000_000_000


def plan(**headers: str) -> Plan | None:
    """Return what headers ask for; in their names lower case stands for AMQ_SCHEDULED_ before."""
    named = {name if name.startswith("_") else f"AMQ_SCHEDULED_{name.upper()}": text for name, text in headers.items()}
    return plan_in(named, ScheduleLimits(), NOW_MS)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"delay": "0"}, None),
        ({"delay": "", "cron": " ", "period": "0"}, None),
        ({"repeat": "3"}, None),
        ({"delay": "5000"}, Plan(delay_ms=5_000)),
        ({"delay": " 5000 "}, Plan(delay_ms=5_000)),
        ({"period": "1000"}, Plan(period_ms=1_000)),
        ({"delay": "1", "period": "1000", "repeat": "-1"}, Plan(1, 1_000, FOREVER)),
        ({"cron": "0 * * * *"}, Plan(cron="0 * * * *")),
        ({"cron": "0 * * * *", "delay": "0", "repeat": "0"}, Plan(cron="0 * * * *")),
        ({"cron": "0", "delay": "7"}, Plan(delay_ms=7)),
        ({"time": str(NOW_MS + 5)}, Plan(time_ms=NOW_MS + 5, renews_expiry=False)),
        ({"_AMQ_SCHED_DELIVERY": str(NOW_MS + 5)}, Plan(time_ms=NOW_MS + 5, renews_expiry=False)),
        ({"time": str(NOW_MS - 5)}, Plan(time_ms=NOW_MS - 5, renews_expiry=False)),
    ],
)
def test_plans(headers: dict[str, str], expected: Plan | None) -> None:
    assert plan(**headers) == expected


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"delay": "soon"}, "AMQ_SCHEDULED_DELAY is 'soon'; allowed are whole numbers from 0 to 9007199254740992"),
        ({"delay": "-5"}, "AMQ_SCHEDULED_DELAY is '-5'; allowed are whole numbers from 0"),
        ({"delay": "1.5"}, "AMQ_SCHEDULED_DELAY is '1.5'"),
        ({"delay": "9" * 17}, "AMQ_SCHEDULED_DELAY is '9{17}'"),
        ({"period": "1e3"}, "AMQ_SCHEDULED_PERIOD is '1e3'"),
        ({"period": "50"}, "a period of 50 ms"),
        ({"delay": "5", "repeat": "-2"}, "AMQ_SCHEDULED_REPEAT is '-2'; allowed are whole numbers from -1"),
        ({"cron": "0 * * *"}, "cron expression '0 . . .' has 4 fields"),
        ({"time": "5", "delay": "5"}, "AMQ_SCHEDULED_DELAY and AMQ_SCHEDULED_TIME are given together; allowed is"),
        ({"_AMQ_SCHED_DELIVERY": "5", "cron": "* * * * *"}, "AMQ_SCHEDULED_CRON and _AMQ_SCHED_DELIVERY"),
    ],
)
def test_what_is_refused(headers: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidOption, match=text):
        plan(**headers)


def test_what_is_delivered_asks_for_nothing_any_more() -> None:
    block = b"a:AMQ_SCHEDULED_DELAY:1\nAMQ_SCHEDULED_CRON:0 * * * *\n_AMQ_SCHED_DELIVERY:1\nAMQ_SCHEDULED_X:1\n"
    assert without_schedule(block) == b"a:AMQ_SCHEDULED_DELAY:1\nAMQ_SCHEDULED_X:1\n"


def test_a_carriage_return_in_a_value_ends_no_line() -> None:
    block = b"a:1\rAMQ_SCHEDULED_DELAY:1\nscheduledJobId:2\n"
    assert without_schedule(block) == block
    assert without_job_id(block) == b"a:1\rAMQ_SCHEDULED_DELAY:1\n"


def test_a_scheduled_send_waits_at_the_gate_of_the_store_and_is_confirmed_once_it_is_durable() -> None:
    gateway, peer = connected()
    gateway.store.fail("full")
    peer.send("SEND", b"x", destination="/queue/q", receipt="r", AMQ_SCHEDULED_DELAY="1000")
    assert peer.take() == []
    assert len(gateway.schedule) == 0
    gateway.syncs = False
    with gateway.one_turn():
        gateway.store.heal()
    assert len(gateway.schedule) == 1
    assert peer.take() == []
    gateway.syncs = True
    gateway.sync()
    (receipt,) = peer.take()
    assert receipt["receipt-id"] == "r"
