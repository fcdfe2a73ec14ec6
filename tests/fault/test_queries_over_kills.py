"""``kill -9`` while messages with keys are sent: queries by key, id and destination find what was confirmed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import quote

import pytest

from gateway.cli.shared.blocking_client import ConnectionLost
from protocols.stomp.codec.frames import RECEIPT, SEND
from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.command import answer
from tests.support.process.gateway_process import GatewayProcess, StartGateway

KILLS: Final = 3
KEYS: Final = 7
AT_ONCE: Final = 500  # in flight when the process is killed
CONFIRMED: Final = 700
LIMIT_S: Final = 60.0


def send_some(gateway: GatewayProcess, queue: str, first: int) -> Iterator[int]:
    """Send keyed messages until the connection is lost; yield the number of each whose receipt has come."""
    client = raw_stomp.client(gateway)
    number = first
    try:
        while True:
            for _ in range(AT_ONCE):
                headers = [("destination", queue), ("persistent", "true"), ("receipt", str(number))]
                headers += [("keys", f"order-{number} group-{number % KEYS}"), ("correlation-id", f"c{number}")]
                client.send(SEND, headers, b"%d" % number)
                number += 1
            for _ in range(AT_ONCE):
                frame = client.next_frame()
                assert frame.command == RECEIPT
                yield int(frame.head.headers["receipt-id"])
    except ConnectionLost:
        pass
    finally:
        client.close()


def query_stopped(gateway: GatewayProcess, *asked: str) -> list[dict[str, Any]]:
    command = ["store", "query", "--json", "--body", "--limit", "10000", *asked, "--data", str(gateway.data)]
    return [json.loads(line) for line in answer(*command).splitlines()]


def query_running(gateway: GatewayProcess, **asked: str) -> list[dict[str, Any]]:
    parameters = "&".join(f"{name}={quote(value)}" for name, value in asked.items())
    found: list[dict[str, Any]] = gateway.get_json(f"/api/store/query?limit=10000&body=true&{parameters}")["messages"]
    return found


@pytest.mark.parametrize("slots", [0, 100_000], ids=["without-index", "with-index"])
def test_what_was_confirmed_is_found(slots: int, start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    name = unique("keyed")
    gateway = start_gateway(f"{configurations.small_segments()}  index:\n    slots: {slots}\n    entries: 1000\n")
    confirmed: set[int] = set()
    first = 0
    for _ in range(KILLS):
        wanted = len(confirmed) + CONFIRMED
        for number in send_some(gateway, f"/queue/{name}", first):
            confirmed.add(number)
            if len(confirmed) == wanted:
                gateway.kill9()  # what else it has answered may still come
        first = max(confirmed) + 2 * AT_ONCE
        by_key = query_stopped(gateway, "--key", "group-3")
        check(by_key, {number for number in confirmed if number % KEYS == 3})
        gateway.start()
    check(query_running(gateway, key="group-3"), {number for number in confirmed if number % KEYS == 3})
    check(query_running(gateway, destination=name), confirmed)
    for number in sorted(confirmed)[:: len(confirmed) // 10]:
        (found,) = query_running(gateway, key=f"order-{number}")
        assert found["body"] == str(number)
        assert [found] == query_running(gateway, key=f"c{number}")
        assert [one["body"] for one in query_running(gateway, id=found["id"])] == [str(number)]


def check(found: list[dict[str, Any]], wanted: set[int]) -> None:
    """What was confirmed is there once, newest first; of what was not some may be."""
    numbers = [int(one["body"]) for one in found]
    assert len(set(numbers)) == len(numbers)
    assert wanted <= set(numbers), f"confirmed, not found: {sorted(wanted - set(numbers))[:20]}"
    offsets = [one["log_offset"] for one in found]
    assert offsets == sorted(offsets, reverse=True)
