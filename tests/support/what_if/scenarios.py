"""Scenarios of simulations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from config.matching import AddressEntry
from config.model import ServerConfig
from what_if.model.scenario import Scenario, scenario_of


def scenario(*addresses: AddressEntry, **values: Any) -> Scenario:
    """Return one with these addresses.  values: other fields."""
    present = replace(ServerConfig(), addresses=addresses)
    return replace(scenario_of("test", present, {}, 1, False), **values)
