"""One simulation to run: a configuration, and what replaces the measured consumers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from config.matching import BOTH, REST, AddressEntry, Pattern
from config.model import ServerConfig

AS_MEASURED: Final = 0
AS_THE_ADDRESS_SAYS: Final = -1


@dataclass(frozen=True, slots=True)
class Scenario:
    """What the engine gets of a configuration; it can be sent to another process.

    name: for reports.  consumers: of each queue and subscription, AS_MEASURED for those of the trace.
    prefetch: of each consumer, AS_THE_ADDRESS_SAYS for the configuration's.
    is_drawn: each time that a message takes is drawn, also where it was measured.
    """

    name: str
    addresses: tuple[AddressEntry, ...]
    memory_limit_bytes: int
    global_max_bytes: int
    global_max_messages: int
    expire_period_ms: int
    consumers: int = AS_MEASURED
    prefetch: int = AS_THE_ADDRESS_SAYS
    seed: int = 1
    is_drawn: bool = False


def scenario_of(name: str, config: ServerConfig, values: Mapping[str, object], seed: int, is_drawn: bool) -> Scenario:
    """Return the scenario of a configuration.  values: settings of every destination, by path, instead of its own."""
    addresses = with_everywhere(config, values) if values else config.addresses
    return Scenario(
        name,
        tuple(replace(entry, values=dict(entry.values), sources={}) for entry in addresses),
        config.memory_limit_bytes,
        config.limits.global_max_size_bytes,
        config.limits.global_max_messages,
        config.expire_messages_period_ms,
        seed=seed,
        is_drawn=is_drawn,
    )


def with_everywhere(config: ServerConfig, values: Mapping[str, object]) -> tuple[AddressEntry, ...]:
    """Return the addresses of a configuration with some values set for every destination.  values: by path."""
    kept = [
        replace(entry, values={path: value for path, value in entry.values.items() if path not in values})
        for entry in config.addresses
    ]
    return (AddressEntry(Pattern.parse(REST), BOTH, dict(values)), *kept)
