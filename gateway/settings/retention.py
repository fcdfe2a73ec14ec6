"""Retention of each destination as configured, as the store takes it."""

from __future__ import annotations

from collections.abc import Iterable
from time import time_ns
from typing import TYPE_CHECKING

from config.matching import AddressEntry, AddressMatcher, with_values
from config.model import ServerConfig
from config.policies import DEFAULT_ADDRESS_SETTINGS, RetentionPolicy
from engine.store.space.retention_rules import RetentionPolicies
from engine.values.destination import INTERNAL_QUEUES

if TYPE_CHECKING:
    from engine.store.space.retention_reasons import Keeping


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
        if name in INTERNAL_QUEUES:  # no addresses of users: a fired message is in its destination, too
            return DEFAULT_ADDRESS_SETTINGS.retention
        return self._matcher.settings_for(kind, name).retention

    def all_policies(self) -> list[RetentionPolicy]:
        return self._own


def keeping_of(config: ServerConfig) -> Keeping:
    """Return the configured retention as of now, for callers on another thread."""
    from engine.store.space.retention_reasons import Keeping

    policies = AddressPolicies(AddressMatcher(config.addresses), config.addresses)
    own = config.store.retention
    return Keeping(policies, own.time_ms, own.bytes, time_ns() // 1_000_000, own.lease_max_ms)
