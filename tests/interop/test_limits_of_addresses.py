"""stomp.py against addresses that refuse, drop, slow down or end those who ask too much, on the real process."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.stomp_py import VERSIONS, Client
from tests.support.process.waiting import wait_until

CONFIG: Final = """
addresses:
  - match: "failing.>"
    max-size-messages: 3
    address-full-policy: FAIL
  - match: "dropping.>"
    max-size-messages: 3
    address-full-policy: DROP
  - match: "impatient.>"
    max-size-messages: 3
    address-full-policy: BLOCK
    block-timeout-ms: 300
  - match: "killing.>"
    slow-consumer-threshold: 10
    slow-consumer-check-period-ms: 200
    slow-consumer-policy: KILL
  - match: "bytes.>"
    consumer-window-size: 1000
  - match: "rated.>"
    consumer-max-rate: 3
  - match: "paced.>"
    producer-max-rate: 20
"""


@pytest.fixture(scope="module")
def limited(start_session_gateway: StartGateway) -> GatewayProcess:
    return start_session_gateway(CONFIG)


@pytest.mark.parametrize("version", VERSIONS)
def test_fail_names_address_use_and_limit(version: str, limited: GatewayProcess) -> None:
    queue = f"/queue/failing.{version.replace('.', '-')}"
    client = Client(limited, version).connect()
    for number in range(3):
        client.send(queue, str(number))
    client.connection.send(queue, "one more", headers={"receipt": "refused", "persistent": "true"})
    error = client.error()
    assert error.headers["condition"] == "address-full"
    assert error.headers["receipt-id"] == "refused"
    assert "holds 3 of 3 messages (max-size-messages); its policy is FAIL" in error.body


def test_drop_confirms_and_discards(limited: GatewayProcess) -> None:
    client = Client(limited, "1.2").connect()
    for number in range(9):
        client.send("/queue/dropping.q", str(number))
    client.subscribe("/queue/dropping.q")
    assert client.bodies(3) == ["0", "1", "2"]
    (address,) = [one for one in limited.get_json("/api/stat")["addresses"] if one["address"] == "queue://dropping.q"]
    assert address["dropped"] == 6
    client.close()


def test_a_deadline_ends_the_wait(limited: GatewayProcess) -> None:
    client = Client(limited, "1.2").connect()
    for number in range(5):
        client.connection.send("/queue/impatient.q", str(number), headers={"receipt": str(number)})
    error = client.error()
    assert (error.headers["condition"], error.headers["receipt-id"]) == ("address-full", "3")
    assert "block-timeout-ms" in error.body


def test_a_slow_consumer_is_ended_and_its_messages_go_to_another(limited: GatewayProcess) -> None:
    sender, slow = Client(limited, "1.2").connect(), Client(limited, "1.2").connect()
    for number in range(20):
        sender.send("/queue/killing.q", str(number))
    slow.subscribe("/queue/killing.q", "client-individual")
    error = slow.error()
    assert error.headers["condition"] == "slow-consumer"
    assert "slow-consumer-threshold" in error.body
    quick = Client(limited, "1.2").connect()
    quick.subscribe("/queue/killing.q", "auto")
    assert sorted(quick.bodies(20), key=int) == [str(number) for number in range(20)]
    assert limited.get_json("/api/stat")["slow_consumers"]["ended"] >= 1
    sender.close()


def test_a_window_of_octets(limited: GatewayProcess) -> None:
    client = Client(limited, "1.2").connect()
    for _ in range(10):
        client.send("/queue/bytes.q", "x" * 400)
    client.subscribe("/queue/bytes.q", "client-individual")
    first = [client.message() for _ in range(3)]
    gate = next(
        one["gate"] for one in limited.get_json("/api/stat")["consumers"] if one["destination"] == "queue://bytes.q"
    )
    assert gate.startswith("bytes-full: ")
    client.send("/queue/other", "fence")
    assert client.nothing_came(), "1,000 octets are in flight, and a little more"
    for message in first:
        client.ack(message)
    for _ in range(7):
        client.ack(client.message())


def test_a_producer_is_paced_and_loses_nothing(limited: GatewayProcess) -> None:
    sender, receiver = Client(limited, "1.2").connect(), Client(limited, "1.2").connect()
    receiver.subscribe("/queue/paced.q")
    for number in range(50):
        sender.connection.send("/queue/paced.q", str(number))
    wait_until(
        lambda: any("producer-max-rate" in one["reason"] for one in limited.get_json("/api/stat")["blocked_producers"]),
        "the gate rate",
    )
    assert receiver.bodies(50) == [str(number) for number in range(50)]


def test_a_consumer_gets_so_many_a_second_and_loses_nothing(limited: GatewayProcess) -> None:
    sender, receiver = Client(limited, "1.2").connect(), Client(limited, "1.2").connect()
    for number in range(8):
        sender.send("/queue/rated.q", str(number))
    receiver.subscribe("/queue/rated.q")
    wait_until(
        lambda: any("consumer-max-rate" in one["gate"] for one in limited.get_json("/api/stat")["consumers"]),
        "the gate rate",
    )
    assert receiver.bodies(8) == [str(number) for number in range(8)]
    for client in (sender, receiver):
        client.close()
