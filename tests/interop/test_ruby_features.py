"""The Ruby gem ``stomp`` against the real process: one scenario for each kind of destination and subscription."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support.process.gateway_process import GatewayProcess

SCRIPT: Final = Path(__file__).with_name("ruby") / "features.rb"
LIMIT_S: Final = 120.0
SCENARIOS: Final = (
    "durable",
    "shared",
    "wildcard",
    "composite",
    "virtual topic",
    "advisory",
    "temporary",
    "browser",
    "retroactive",
    "no local",
    "selector",
    "exclusive",
    "priority",
    "groups",
    "prefetch",
    "redelivery",
    "schedule",
)


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(
    scenario: str, version: str, ruby: str, shared_gateway: GatewayProcess, unique: Callable[[str], str]
) -> None:
    command = [ruby, str(SCRIPT), shared_gateway.stomp_host, str(shared_gateway.stomp_port), version]
    done = subprocess.run(
        [*command, unique("ruby"), scenario], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.stdout == f"ok {scenario}\n", f"{done.stdout}{done.stderr}"
