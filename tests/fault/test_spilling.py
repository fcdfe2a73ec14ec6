"""Non-persistent messages past their budget, in the real process: to files, back in order, gone with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from gateway.process import exit_codes
from protocols.stomp.codec.frames import ACK, SEND, SUBSCRIBE
from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import StartGateway
from tests.support.process.waiting import wait_until

COUNT: Final = 20_000
BODY: Final = b"x" * 1000
LIMIT_S: Final = 60.0

SMALL_MEMORY: Final = "memory-limit-bytes: 4 MiB\n"


def test_more_than_memory_may_hold_waits_in_files_and_comes_in_order(
    start_gateway: StartGateway, unique: Callable[[str], str]
) -> None:
    destination = f"/queue/{unique('spilled')}"
    gateway = start_gateway(configurations.small_segments() + SMALL_MEMORY)
    producer = raw_stomp.client(gateway)
    for number in range(COUNT):
        producer.send(SEND, [("destination", destination), ("n", str(number))], BODY)
        if number % 500 == 499:
            raw_stomp.call(producer, SEND, [("destination", f"{destination}.mark")])
    assert list((gateway.data / "spill").iterdir()) != []
    stats = gateway.get_json("/api/stat")
    assert stats["memory_bytes"] < 4 << 20
    consumer = raw_stomp.client(gateway)
    raw_stomp.call(consumer, SUBSCRIBE, [("id", "s"), ("destination", destination)])
    for number in range(COUNT):
        assert raw_stomp.message(consumer).head.headers["n"] == str(number)
    wait_until(lambda: list((gateway.data / "spill").iterdir()) == [], "files are removed", limit_s=LIMIT_S)
    fresh = raw_stomp.client(gateway)
    for _ in range(5_000):
        fresh.send(SEND, [("destination", f"{destination}.again")], BODY)
    raw_stomp.call(fresh, SEND, [("destination", f"{destination}.again")])
    for each in (producer, consumer, fresh):
        each.close()
    gateway.kill9()
    gateway.restart()
    assert list((gateway.data / "spill").iterdir()) == []
    assert gateway.terminate() == exit_codes.OK


@pytest.mark.parametrize(
    ("kind", "sent", "asked"),
    [
        ("queue", [], [("selector", "which = 'mine'")]),
        ("queue", [("JMSXGroupID", "g")], [("activemq.prefetchSize", "1")]),
        ("topic", [], [("activemq.prefetchSize", "1")]),
        ("topic", [("persistent", "true")], [("activemq.prefetchSize", "1")]),
    ],
    ids=["selector", "group", "topic", "logged-topic"],
)
def test_who_takes_little_makes_nobody_wait(
    start_gateway: StartGateway,
    unique: Callable[[str], str],
    kind: str,
    sent: list[tuple[str, str]],
    asked: list[tuple[str, str]],
) -> None:
    destination = f"/{kind}/{unique('slow')}"
    gateway = start_gateway(configurations.small_segments() + SMALL_MEMORY)
    consumer = raw_stomp.client(gateway)
    raw_stomp.call(
        consumer, SUBSCRIBE, [("id", "s"), ("destination", destination), ("ack", "client-individual"), *asked]
    )
    producer = raw_stomp.client(gateway)
    for number in range(COUNT // 2):
        which = "mine" if number % 1_000 == 0 else "others'"
        producer.send(SEND, [("destination", destination), ("n", str(number)), ("which", which), *sent], BODY)
        if number % 500 == 499:
            raw_stomp.call(producer, SEND, [("destination", f"/queue/{unique('mark')}")])
    assert list((gateway.data / "spill").iterdir()) != []
    assert gateway.get_json("/api/stat")["memory_bytes"] < 4 << 20
    step = 1_000 if asked[0][0] == "selector" else 1
    for number in range(0, COUNT // 2, step):
        message = raw_stomp.message(consumer)
        assert message.head.headers["n"] == str(number)
        consumer.send(ACK, [("id", message.head.headers["ack"])])
    for each in (producer, consumer):
        each.close()
    assert gateway.terminate() == exit_codes.OK
