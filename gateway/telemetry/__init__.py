"""The way of messages as spans of OpenTelemetry; only ``spans`` and ``export`` need its libraries."""
