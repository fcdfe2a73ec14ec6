"""@stomp/stompjs, the STOMP client of browsers, over WebSocket: one Node process runs all scenarios."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.interop.conftest import JAVASCRIPT
from tests.support.process.gateway_process import GatewayProcess
from tests.support.process.scenarios import run_scenarios

SCENARIOS = tuple(re.findall(r"^  async (\w+)\(client", (JAVASCRIPT / "stompjs.js").read_text(), re.MULTILINE))
RUN_LIMIT_S = 200


@pytest.fixture(scope="session")  # once a gateway: the scenarios leave messages behind
def outcomes(node: str, javascript: Path, shared_gateway: GatewayProcess) -> dict[str, str]:
    url = shared_gateway.http_url.replace("http:", "ws:")
    return run_scenarios([node, "stompjs.js", url], SCENARIOS, RUN_LIMIT_S, javascript)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name] == ""
