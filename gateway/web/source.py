"""What the HTTP listener asks of the gateway.  Apart from ``api.py``, so that naming it does not load a web server."""

from __future__ import annotations

from abc import ABC, abstractmethod

from engine.stats import BrokerStats


class StatsSource(ABC):
    """Called on the event loop that owns the broker, so it needs no locks."""

    @abstractmethod
    def stats(self) -> BrokerStats:
        """Return everything at this moment."""
