"""The gateway as the HTTP listener sees it.  Apart from ``api.py``, so that naming it does not load a web server."""

from __future__ import annotations

from abc import ABC, abstractmethod

from engine.inspection import Inspection
from engine.values.broker_stats import StoreStats
from gateway.process.counters import GatewayCounters


class StatsSource(ABC):
    """Called on the event loop that owns the broker, so it needs no locks."""

    @abstractmethod
    def inspection(self) -> Inspection:
        """Begin a look at everything."""

    @abstractmethod
    def store_stats(self) -> StoreStats:
        """Return how the store is at this moment."""

    @abstractmethod
    def counters(self) -> GatewayCounters:
        """Return what the gateway counts besides."""

    @abstractmethod
    def has_failed(self) -> bool:
        """Say whether a fault of the gateway itself has stopped the engine; the others may then be of no use."""
