"""stomp.py against the real process: selectors, message groups, exclusive consumers, consumer priorities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from tests.support.process.gateway_process import GatewayProcess
from tests.support.process.stomp_py import Client

Unique = Callable[[str], str]
WINDOW = {"activemq.prefetchSize": "100"}


class Connect(Protocol):
    def __call__(self) -> Client: ...


@pytest.fixture
def connect(shared_gateway: GatewayProcess) -> Iterator[Connect]:
    """A function that connects clients; they are disconnected at the end of the test."""
    clients: list[Client] = []

    def connected() -> Client:
        client = Client(shared_gateway, "1.2")
        clients.append(client)
        return client.connect()

    yield connected
    for client in clients:
        client.close()


def test_each_consumer_gets_what_its_selector_matches(connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('selected')}"
    sender, large, red = connect(), connect(), connect()
    large.subscribe(queue, selector="size > 9")
    red.subscribe(queue, selector="colour = 'red' AND size <= 9")
    for number in range(12):
        sender.send(queue, str(number), colour="red" if number % 2 else "blue", size=number)
    assert large.bodies(2) == ["10", "11"]
    assert red.bodies(5) == ["1", "3", "5", "7", "9"]
    rest = connect()
    rest.subscribe(queue)
    assert rest.bodies(5) == ["0", "2", "4", "6", "8"]


def test_a_long_prefix_that_nobody_wants_keeps_nobody_waiting(connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('prefix')}"
    sender = connect()
    for _ in range(12_000):
        sender.connection.send(queue, "unwanted", headers={"persistent": "true", "colour": "blue"})
    sender.send(queue, "wanted", colour="red")
    receiver = connect()
    receiver.subscribe(queue, selector="colour = 'red'")
    assert receiver.message().body == "wanted"


def test_a_selector_that_is_none_is_refused_with_its_place(connect: Connect, unique: Unique) -> None:
    client = connect()
    queue = f"/queue/{unique('wrong')}"
    client.connection.subscribe(queue, id="1", ack="auto", headers={"selector": "colour == 'red'"})
    error = client.error()
    assert error.headers["message"] == "invalid selector"
    assert "character 9" in error.body


def test_a_group_goes_to_one_consumer_in_order(connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('groups')}"
    sender, first, second = connect(), connect(), connect()
    for client in (first, second):
        client.subscribe(queue, ack="client-individual", **WINDOW)
    for number in range(8):
        sender.send(queue, f"a{number}", JMSXGroupID="a")
        sender.send(queue, f"b{number}", JMSXGroupID="b")
    got = [first.bodies(8), second.bodies(8)]
    assert sorted(got) == [[f"a{number}" for number in range(8)], [f"b{number}" for number in range(8)]]
    first.drop()
    assert second.bodies(8) == got[0]


def test_one_exclusive_consumer_gets_everything_until_it_goes(connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('exclusive')}"
    sender, first, second = connect(), connect(), connect()
    for client in (first, second):
        client.subscribe(queue, ack="client-individual", **{"activemq.exclusive": "true"})
    for number in range(4):
        sender.send(queue, str(number))
    assert first.bodies(4) == ["0", "1", "2", "3"]
    first.drop()
    assert second.bodies(4) == ["0", "1", "2", "3"]


def test_a_higher_priority_is_served_first(connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('priority')}"
    sender, low, high = connect(), connect(), connect()
    low.subscribe(queue, ack="client-individual")
    high.subscribe(queue, ack="client-individual", **{"activemq.priority": "5", "activemq.prefetchSize": "3"})
    for number in range(5):
        sender.send(queue, str(number))
    assert (high.bodies(3), low.bodies(2)) == (["0", "1", "2"], ["3", "4"])
