"""Retention as addresses set it, as the store asks for it."""

from __future__ import annotations

from config.matching import AddressMatcher
from config.model import ServerConfig
from config.policies import RetentionPolicy
from engine.values.destination import QUEUE, SCHEDULE_QUEUE, TOPIC
from gateway.settings.retention import AddressPolicies, keeping_of
from tests.support.engine.engine_world import address

ENTRIES = (
    address("orders.>", retention__time_ms=1000),
    address("orders.eu", retention__until_exported=True),
    address("bills", nack="requeue"),
)


def test_each_field_is_that_of_the_most_specific_entry_that_sets_it() -> None:
    policies = AddressPolicies(AddressMatcher(ENTRIES), ENTRIES)
    assert policies.policy_for(QUEUE, "orders.eu") == RetentionPolicy(time_ms=1000, until_exported=True)
    assert policies.policy_for(TOPIC, "orders.us") == RetentionPolicy(time_ms=1000)
    assert policies.policy_for(QUEUE, "bills") == RetentionPolicy()
    assert policies.all_policies() == [RetentionPolicy(time_ms=1000), RetentionPolicy(until_exported=True)]


def test_the_schedule_is_as_the_store_whatever_is_said_of_all_addresses() -> None:
    entries = (address(">", retention__until_exported=True, retention__time_ms=1000),)
    policies = AddressPolicies(AddressMatcher(entries), entries)
    assert policies.policy_for(QUEUE, SCHEDULE_QUEUE) == RetentionPolicy()
    assert policies.policy_for(QUEUE, "orders").until_exported


def test_what_du_is_told() -> None:
    keeping = keeping_of(ServerConfig(addresses=ENTRIES))
    assert keeping.policies.policy_for(QUEUE, "orders.eu").until_exported
    assert keeping.time_ms == 72 * 3_600_000
