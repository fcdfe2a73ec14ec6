"""The budget of each user: what a second gives, what later seconds pay, who is next."""

from __future__ import annotations

import pytest

from config.loader import merged
from config.sources import yaml
from engine.consumers.user_quota import UserLimits
from engine.limits.parked_producers import ProducerWaits
from engine.limits.user_rates import KEPT, UserRates
from engine.values import gates
from gateway.settings.engine_settings import user_limits
from tests.support.engine.engine_world import EngineWorld
from tests.support.fakes import FakeClient


class Rates(UserRates):
    """The rates of a world of their own, and its time."""

    def __init__(self, messages: int = 0, octets: int = 0) -> None:
        self.world = EngineWorld()
        self.waits = ProducerWaits(self.world.broker.context, [])
        super().__init__(self.world.broker.context, self.waits, {}, messages, octets)
        self.waits.user_rates = self

    def client(self, holder: str) -> FakeClient:
        client = self.world.client(holder)
        client.holder = holder
        return client

    def park(self, client: FakeClient) -> None:
        self.waits.park(client, gates.USER_RATE, self.world.queue("q"))

    def sends_until_refused(self, holder: str, octets: int = 10) -> int:
        count = 0
        while self.may_send(holder):
            self.charge(holder, 1, octets)
            count += 1
        return count


@pytest.mark.parametrize(("messages", "octets", "first"), [(3, 0, 3), (0, 30, 3), (0, 31, 4), (3, 20, 2), (2, 30, 2)])
def test_the_tighter_limit_counts(messages: int, octets: int, first: int) -> None:
    assert Rates(messages, octets).sends_until_refused("ann") == first


def test_each_holder_has_its_own() -> None:
    rates = Rates(messages=3)
    assert [rates.sends_until_refused(holder) for holder in ("ann", "bob", "ann")] == [3, 3, 0]


@pytest.mark.parametrize(("octets", "wait_s"), [(1_000, 1), (1_001, 1), (1_999, 1), (2_000, 2), (5_500, 5)])
def test_the_excess_is_paid_in_whole_seconds(octets: int, wait_s: int) -> None:
    rates = Rates(octets=1_000)
    rates.charge("ann", 1, octets)
    client = rates.client("ann")
    rates.park(client)
    rates.world.advance(wait_s * 1_000 - 1)
    assert client.admissions == 0
    rates.world.advance(1)
    assert client.admissions == 1


def test_clients_are_admitted_in_the_order_of_their_waits_while_something_is_left() -> None:
    rates = Rates(messages=1)
    rates.sends_until_refused("ann")
    clients = [rates.client("ann") for _ in range(3)]
    for client in clients:
        rates.park(client)
    rates.world.advance(1_000)
    assert [client.admissions for client in clients] == [1, 1, 1], "they have sent nothing"
    for client in clients:
        rates.park(client)
    rates.waits.forget(clients[0])
    rates.world.advance(1_000)
    assert [client.admissions for client in clients] == [1, 2, 2]


def test_budgets_that_are_whole_again_are_forgotten() -> None:
    rates = Rates(messages=3, octets=1_000)
    rates.charge("debtor", 100, 0)
    for number in range(3 * KEPT):
        rates.charge(f"user {number}", 1, 1)
        if number % (KEPT // 2) == 0:
            rates.world.advance(1_000)
    assert "debtor" in rates.budgets
    assert len(rates.budgets) <= 2 * KEPT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (0, 0)),
        ("limits: {messages-per-second-per-user: 50}\n", (50, 0)),
        ("limits: {bytes-per-second-per-user: 1MiB}\n", (0, 1 << 20)),
    ],
)
def test_they_come_from_the_configuration(text: str, expected: tuple[int, int]) -> None:
    limits = user_limits(merged([yaml.read("p.yaml", text.encode())]))
    assert (limits.messages_per_second, limits.bytes_per_second) == expected
    assert limits.has_rates() == any(expected)


def test_no_rates_by_default() -> None:
    assert not UserLimits().has_rates()
