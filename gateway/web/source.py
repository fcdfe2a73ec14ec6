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
        """Begin an inspection of everything."""

    @abstractmethod
    def store_stats(self) -> StoreStats:
        """Return the present state of the store."""

    @abstractmethod
    def counters(self) -> GatewayCounters:
        """Return the gateway's own counters."""

    @abstractmethod
    def has_failed(self) -> bool:
        """Say whether a fault of the gateway itself has stopped the engine; the other answers may then be stale."""
