"""What the configuration says of the retention of each destination, as the store wants to know it."""

from __future__ import annotations

from collections.abc import Iterable

from config.matching import AddressEntry, AddressMatcher, with_values
from config.policies import DEFAULT_ADDRESS_SETTINGS, RetentionPolicy
from engine.store.retention_rules import RetentionPolicies


class AddressPolicies(RetentionPolicies):
    """By the patterns of addresses."""

    def __init__(self, matcher: AddressMatcher, entries: Iterable[AddressEntry]) -> None:
        self._matcher = matcher
        self._own = [
            with_values(DEFAULT_ADDRESS_SETTINGS, entry.values).retention
            for entry in entries
            if any(path.startswith("retention.") for path in entry.values)
        ]

    def policy_for(self, kind: int, name: str) -> RetentionPolicy:
        return self._matcher.settings_for(kind, name).retention

    def all_policies(self) -> list[RetentionPolicy]:
        return self._own
