"""What Penstock offers to programs: ``penstock.scan`` reads a store, without a gateway, Spark and a JVM."""

from spark_bridge.read.scan import scan

__all__ = ["scan"]
