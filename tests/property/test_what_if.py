"""Whatever the tables say and whatever is asked, a simulation ends, and every message is somewhere."""

from __future__ import annotations

import random
from typing import Any

import pytest

from config.matching import AddressEntry, AddressMatcher
from tests.support.engine.engine_world import address
from tests.support.fakes import START_WALL_MS
from tests.support.what_if.recorded_world import time_of
from tests.support.what_if.rows import TOPIC_ROW, delivery, made, message
from tests.support.what_if.scenarios import scenario
from what_if.model.simulation import simulate
from what_if.run import really
from what_if.trace.read import find_rollbacks
from what_if.trace.trace import Trace

Row = dict[str, Any]
QUEUES = [{"destination_kind": "queue", "destination_name": name} for name in ("a", "b", "ActiveMQ.DLQ")]
ENDINGS = [
    ("acknowledged", None),
    ("acknowledged", None),
    ("acknowledged", None),
    ("dead-lettered", "exhausted"),
    ("dead-lettered", "rejected"),
    ("expired", "expired"),
    ("dropped", "purged"),
    ("", None),
]


def ends(chance: random.Random, number: int, at_ms: int, destination: Row, subscription: str | None) -> list[Row]:
    """Return attempts with one message, in their order."""
    rows: list[Row] = []
    now_ms = at_ms + chance.choice([0, 1, 7, 400])
    named = {"subscription": subscription, "lane": 4, **destination}
    for _ in range(chance.choice([0, 0, 0, 1, 3])):
        cause = chance.choice(["nack", "nack", "connection-lost", "closed"])
        due = chance.choice([None, time_of(START_WALL_MS + now_ms + 10)])
        consumer = chance.randrange(1, 4)
        failed = {"outcome": "failed", "cause": cause, "attempt": len(rows) + 1, "next_attempt": due}
        rows.append(delivery(number, now_ms, at_ms, consumer, **named, **failed))
        now_ms += chance.choice([0, 5, 30])
    outcome, why = chance.choice(ENDINGS)
    if outcome:
        attempt = None if why in ("expired", "purged") else len(rows) + 1
        done = {"outcome": outcome, "cause": why, "attempt": attempt}
        rows.append(delivery(number, now_ms, at_ms, chance.randrange(1, 4), **named, **done))
    return rows


def tables(chance: random.Random) -> Trace:
    messages: list[Row] = []
    deliveries: list[Row] = []
    at_ms = 0
    for number in range(1, chance.randrange(2, 120)):
        at_ms += chance.choice([0, 0, 1, 5, 300])
        destination = chance.choice([*QUEUES, TOPIC_ROW])
        expires = chance.choice([None, None, None, time_of(START_WALL_MS + at_ms + 50)])
        group = chance.choice([None, None, "a", "b"])
        values = {"priority": chance.randrange(10), "expires": expires, "group_id": group}
        messages.append(message(number, at_ms, **(values | destination)))
        for subscription in ["a:s", "b:u", ":g"] if destination is TOPIC_ROW else [None]:
            deliveries += ends(chance, number, at_ms, destination, subscription)
    deliveries.sort(key=lambda row: row["log_offset"])
    return made(messages, deliveries, START_WALL_MS + chance.choice([0, 0, 50, 300]))


def settings(chance: random.Random) -> AddressEntry:
    return address(
        ">",
        redelivery__maximum_redeliveries=chance.choice([-1, 0, 1, 6]),
        redelivery__redelivery_delay_ms=chance.choice([0, 10, 1_000]),
        redelivery__initial_redelivery_delay_ms=chance.choice([0, 10, 1_000]),
        redelivery__non_blocking_redelivery=chance.choice([True, False]),
        blame=chance.choice(["all", "none", "acked+1"]),
        nack=chance.choice(["redeliver", "dead-letter", "requeue"]),
        full__max_size_messages=chance.choice([-1, 1, 5]),
        full__address_full_policy=chance.choice(["PAGE", "BLOCK", "FAIL"]),
        full__block_timeout_ms=chance.choice([0, 20]),
        prefetch__queue_prefetch=chance.choice([0, 1, 10, 1_000]),
        prefetch__durable_topic_prefetch=chance.choice([0, 1, 100]),
        queue__prioritized_messages=chance.choice([True, False]),
        dead_letters__strategy=chance.choice(["shared", "individual", "discard"]),
        expiry__expiry_delay_ms=chance.choice([-1, 30]),
    )


@pytest.mark.parametrize("seed", range(40))
def test_every_message_is_somewhere(seed: int) -> None:
    chance = random.Random(seed)
    trace = tables(chance)
    find_rollbacks(trace, AddressMatcher(()))
    asked = {"consumers": chance.choice([0, 0, 1, 5]), "is_drawn": chance.random() < 0.3, "seed": seed}
    found = simulate(trace, scenario(settings(chance), **asked))
    for figures in found.values():
        gone = figures.acknowledged + figures.dead + figures.expired + figures.dropped
        assert figures.came == gone + figures.depth
    assert really(trace).figures
