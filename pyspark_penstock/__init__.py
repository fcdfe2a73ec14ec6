"""Spark finds its data sources in packages of this prefix: installing Penstock registers ``format("penstock")``."""

from spark_bridge.source import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
