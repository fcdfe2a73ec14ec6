"""The tracer that a configuration asks for, and what it needs installed."""

from __future__ import annotations

from config.errors import ConfigError, Problem
from config.loader import place_of
from config.model import ServerConfig
from gateway.process.counters import GatewayCounters
from gateway.telemetry.guarded_tracing import GuardedTracing, Tracer


def tracing_of(config: ServerConfig, counters: GatewayCounters) -> Tracer | None:
    """Return the tracer, None where traces are off.  Raises: ConfigError without the libraries."""
    if not config.telemetry.traces:
        return None
    try:
        from gateway.telemetry.export import ExportedSpans
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        key = "telemetry.traces"
        text = "needs an extra that is not installed: pip install 'penstock[otel]'"
        raise ConfigError([Problem(*place_of(config.sources.get(key, "")), key, text)]) from None
    return GuardedTracing(ExportedSpans(config.telemetry, counters), counters)
