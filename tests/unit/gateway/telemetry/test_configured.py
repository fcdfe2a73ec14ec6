"""What the settings of traces ask for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from config.errors import ConfigError
from config.loader import load_config
from config.model import ServerConfig
from gateway.process.counters import GatewayCounters
from gateway.telemetry.configured import tracing_of

WITHOUT = """
import sys
sys.modules["opentelemetry"] = None
from config.errors import ConfigError
from config.model import ServerConfig, TelemetryConfig
from gateway.process.counters import GatewayCounters
from gateway.telemetry.configured import tracing_of
try:
    tracing_of(ServerConfig(telemetry=TelemetryConfig(traces=True)), GatewayCounters())
except ConfigError as error:
    print(error)
"""


def test_off_needs_no_library() -> None:
    assert tracing_of(ServerConfig(), GatewayCounters()) is None


def test_a_missing_extra_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert "telemetry.traces" in done.stdout
    assert "needs an extra that is not installed: pip install 'penstock[otel]'" in done.stdout


def test_an_endpoint_is_a_url(tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text('telemetry: {traces: true, sampling-ratio: 0.5, endpoint: "127.0.0.1:4318"}')
    with pytest.raises(ConfigError, match="'127.0.0.1:4318' is no URL of a collector"):
        load_config([str(file)])
    file.write_text('telemetry: {traces: true, sampling-ratio: 0.5, endpoint: "http://127.0.0.1:4318/v1/traces"}')
    telemetry = load_config([str(file)]).telemetry
    assert (telemetry.traces, telemetry.sampling_ratio) == (True, 0.5)
