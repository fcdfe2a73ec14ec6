"""Messages over AMQP that ask for a later delivery."""

from __future__ import annotations

from typing import Any

import pytest

from engine.features.scheduler.plan import Plan, ScheduleLimits
from protocols.amqp.v1_0.mapping.delayed_delivery import plan_in
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted, Rejected
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Disposition
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Byte, Int, Symbol, Timestamp, UInt, ULong
from tests.support.protocols.amqp_gateway import AmqpGateway, text

NOW_MS = 1_700_000_000_000


def annotated(**values: Any) -> bytes:
    """Return a section of message-annotations; in names ``_`` stands for ``-``."""
    return b"\x00\x53\x72" + encode({Symbol(name.replace("_", "-")): value for name, value in values.items()})


def properties(**values: Any) -> bytes:
    return b"\x00\x53\x74" + encode(values)


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        (annotated(x_opt_delivery_delay=UInt(5)), Plan(delay_ms=5)),
        (annotated(x_opt_delivery_delay=ULong(5)), Plan(delay_ms=5)),
        (annotated(x_opt_delivery_delay=5), Plan(delay_ms=5)),
        (annotated(x_opt_delivery_delay="5"), Plan(delay_ms=5)),
        (annotated(x_opt_delivery_delay=5.0), Plan(delay_ms=5)),
        (annotated(x_opt_delivery_time=NOW_MS + 5), Plan(time_ms=NOW_MS + 5, renews_expiry=False)),
        (annotated(x_opt_delivery_time=Timestamp(NOW_MS + 5)), Plan(time_ms=NOW_MS + 5, renews_expiry=False)),
        (annotated(x_opt_delivery_period=Int(500), x_opt_delivery_repeat=Int(-1)), Plan(0, 500, -1)),
        (annotated(x_opt_delivery_cron="0 * * * *"), Plan(cron="0 * * * *")),
        (properties(AMQ_SCHEDULED_DELAY=5, AMQ_SCHEDULED_PERIOD=100, AMQ_SCHEDULED_REPEAT=Int(2)), Plan(5, 100, 2)),
        (annotated(x_opt_delivery_delay=UInt(0)), None),
        (annotated(x_opt_delivery_delay=None), None),
        (annotated(x_opt_delivery_other=5), None),
        (properties(colour="AMQ_SCHEDULED_DELAY"), None),
    ],
)
def test_plans(sections: bytes, expected: Plan | None) -> None:
    assert plan_in(sections, ScheduleLimits(), NOW_MS)[0] == expected


def test_what_is_delivered_asks_for_nothing_any_more_and_keeps_the_rest() -> None:
    kept = annotated(x_opt_jms_dest=Byte(0), x_opt_delivery_time=NOW_MS + 5) + properties(colour="red")
    asked = (
        annotated(x_opt_jms_dest=Byte(0), x_opt_delivery_time=NOW_MS + 5)
        + b"\x00\x53\x73\xc0\x01\x00"
        + properties(colour="red", AMQ_SCHEDULED_CRON="0")
    )
    plan, sections = plan_in(asked, ScheduleLimits(), NOW_MS)
    assert plan is not None
    assert sections == kept.replace(b"\x00\x53\x74", b"\x00\x53\x73\xc0\x01\x00\x00\x53\x74")
    assert plan_in(annotated(x_opt_delivery_delay=5), ScheduleLimits(), NOW_MS)[1] == b""
    untouched = annotated(x_opt_delivery_delay=0)
    assert plan_in(untouched, ScheduleLimits(), NOW_MS) == (None, untouched)


def test_a_delayed_message_is_accepted_when_durable_and_comes_at_its_time() -> None:
    gateway = AmqpGateway()
    gateway.syncs = False
    peer = gateway.amqp_sender("q")
    peer.transfer(annotated(x_opt_delivery_delay=UInt(1_000)) + text("x"))
    assert peer.take() == []
    gateway.syncs = True
    gateway.sync()
    assert isinstance(peer.one(Disposition).state, Accepted)
    assert gateway.stats("q").depth == 0
    gateway.advance(1_100)
    assert gateway.stats("q").depth == 1


def test_a_link_that_desires_it_is_offered_it() -> None:
    peer = AmqpGateway().amqp_session()
    for handle, desired in enumerate((None, ["DELAYED_DELIVERY", "other"])):
        attach = Attach(
            f"s{handle}",
            handle,
            False,
            source=Source(),
            target=Target("q"),
            initial_delivery_count=0,
            desired_capabilities=desired,
        )
        peer.send(attach)
        answer = next(frame for frame in peer.take() if isinstance(frame, Attach))
        assert answer.offered_capabilities == (["DELAYED_DELIVERY"] if desired else None)


@pytest.mark.parametrize(
    "sections",
    [
        annotated(x_opt_delivery_cron="99 * * * *"),
        annotated(x_opt_delivery_time=2**60),
        properties(AMQ_SCHEDULED_DELAY="x"),
    ],
)
def test_what_cannot_be_is_rejected(sections: bytes) -> None:
    peer = AmqpGateway().amqp_sender("q")
    peer.transfer(sections + text("x"))
    state = peer.one(Disposition).state
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == "amqp:invalid-field"
