"""What is found out about a gateway that hangs."""

from __future__ import annotations

import pytest

from tests.support.hostile import aftermath
from tests.support.process.gateway_process import GatewayProcess, StartGateway


def test_a_gateway_that_does_not_answer_says_where_it_is(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def timed_out(gateway: GatewayProcess, path: str) -> tuple[int, str]:
        raise TimeoutError("timed out")

    gateway = start_gateway()
    monkeypatch.setattr(GatewayProcess, "get", timed_out)
    state = aftermath.state_of(gateway)
    assert "does not answer (timed out)" in state
    assert "most recent call first" in state and "gateway/app.py" in state
    assert aftermath.state_of(gateway) == "the gateway has ended"
