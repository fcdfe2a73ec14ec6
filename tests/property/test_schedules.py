"""Random schedules against a model: what fires, when, in which order, over restarts and with cancellations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import Plan
from engine.features.scheduler.scheduler import TICK_MS
from engine.values import gates
from engine.values.message import PERSISTENT, STOMP, Message
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import START_WALL_MS, FakeClient, VirtualClock

MINUTE_MS = 60_000
STEP_MS = 1_000
STEPS = 130


def plans(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Plan]:
    """Return plans with these fields drawn; the others are the defaults."""
    return st.fixed_dictionaries(dict[str, st.SearchStrategy[Any]](fields)).map(lambda drawn: Plan(**drawn))


PLANS = st.one_of(
    plans(delay_ms=st.integers(1, 60_000)),
    plans(delay_ms=st.integers(0, 5_000), period_ms=st.integers(STEP_MS, 20_000), repeat=st.integers(1, 5)),
    plans(time_ms=st.integers(START_WALL_MS + 1, START_WALL_MS + 90_000), renews_expiry=st.just(False)),
    plans(cron=st.sampled_from(("* * * * *", "*/2 * * * *"))),
    plans(
        delay_ms=st.integers(0, 3_000),
        period_ms=st.integers(STEP_MS, 4_000),
        repeat=st.integers(1, 3),
        cron=st.just("* * * * *"),
    ),
)


@dataclass
class Step:
    """At step ``at``: a message is scheduled, or the gateway is stopped and started (plan None)."""

    at: int
    plan: Plan | None
    cancel_at: int = STEPS


STEPS_OF_A_RUN = st.lists(
    st.builds(
        Step,
        at=st.integers(0, STEPS // 3),
        plan=st.one_of(PLANS, PLANS, st.none()),
        cancel_at=st.one_of(st.just(STEPS), st.just(STEPS), st.integers(1, STEPS)),
    ),
    min_size=1,
    max_size=12,
)


def expected(plan: Plan, sent_ms: int, end_ms: int) -> list[int]:
    """Return when a message fires that is sent then, by the words of docs/reference/schedule.md."""
    begins = [sent_ms]
    if plan.cron:
        every_ms = 2 * MINUTE_MS if plan.cron.startswith("*/2") else MINUTE_MS
        first_ms = (sent_ms // every_ms + 1) * every_ms
        begins = list(range(first_ms, end_ms + 1, every_ms))
        if not plan.delay_ms and not plan.repeat:
            return begins
    if plan.time_ms:
        return [max(plan.time_ms, sent_ms)]
    first_ms = plan.delay_ms or plan.period_ms
    found = [begin + first_ms + plan.period_ms * number for begin in begins for number in range(plan.repeat + 1)]
    return sorted(one for one in found if one <= end_ms)


@settings(max_examples=50, deadline=None)
@given(steps=STEPS_OF_A_RUN)
def test_what_fires_is_what_the_words_say(steps: list[Step]) -> None:
    world = RestartWorld()
    sent: dict[int, tuple[Plan, int, int]] = {}  # by number: plan, when it was sent, when it was cancelled
    places: dict[int, int] = {}
    fired: dict[int, list[int]] = {}
    client = world.consuming()
    for step in range(STEPS):
        for number, one in enumerate(steps):
            if one.plan is None and one.at == step:
                world.restart()
                client = world.consuming()
            elif one.plan is not None and one.at == step:
                places[number] = send(world, number, one.plan)
                sent[number] = (one.plan, world.broker.wall_ms, 0)
            if one.cancel_at == step and number in places:
                if world.schedule.cancel(places[number]):
                    plan, sent_ms, _ = sent[number]
                    sent[number] = (plan, sent_ms, world.broker.wall_ms)
        world.advance(STEP_MS)
        taken(world, client, fired)
    world.advance(TICK_MS * 4)
    taken(world, client, fired)
    end_ms = world.broker.wall_ms - TICK_MS * 4
    for number, (plan, sent_ms, cancelled_ms) in sent.items():
        wanted = expected(plan, sent_ms, end_ms)
        got = fired.get(number, [])
        if cancelled_ms and not plan.cron:
            wanted = wanted[: len(got)]
            assert all(one <= cancelled_ms + TICK_MS for one in wanted)
        elif cancelled_ms:
            continue  # what a time of its expression has begun goes on
        assert len(got) == len(wanted), (plan, sent_ms, wanted, got)
        for due_ms, seen_ms in zip(wanted, got, strict=True):
            assert due_ms <= seen_ms <= due_ms + STEP_MS + 4 * TICK_MS, (plan, due_ms, seen_ms)


def send(world: RestartWorld, number: int, plan: Plan) -> int:
    """Return the place of the schedule, -1 for what was due already."""
    broker = world.broker
    target = delayed(world.queue("q"), plan.checked(world.schedule.limits(), broker.wall_ms))
    message = Message(0, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", b"%d" % number)
    assert broker.send(target, message) == gates.OPEN
    world.turn()
    return message.log_offset


def taken(world: RestartWorld, client: FakeClient, fired: dict[int, list[int]]) -> None:
    handed, client.handed = client.handed, []
    for one in handed:
        fired.setdefault(int(one.body), []).append(world.broker.wall_ms)
    world.acknowledge(*[one.delivery for one in handed if one.delivery is not None])


def test_the_clock_of_the_model_is_the_world_s() -> None:
    assert VirtualClock().wall_ms() == START_WALL_MS
