"""What the machine refuses when a connection is accepted: no descriptors, no memory.  The log has beginning and end."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final

CALM_S: Final = 10.0  # without a failure until it is over: at the limit each client that leaves lets one more in

log: Final = logging.getLogger("penstock.listener")


@dataclass(slots=True, eq=False)
class AcceptFailures:
    """count: since the first one that the log has.  calm_s: a failure within this time belongs to the last one."""

    calm_s: float = CALM_S
    count: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _calm: asyncio.TimerHandle | None = None

    def failed(self, address: object, error: OSError, retry_s: float) -> None:
        """Note one failure; ``address`` is that of the listener."""
        self.count += 1
        self.stop()
        if self.count == 1:
            log.warning("cannot accept at %s, trying again every %g s: %s", address, retry_s, error.strerror or error)

    def accepted(self, address: object) -> None:
        """Note that nothing waits to be accepted, or one was."""
        if self.count and self._calm is None:
            self._calm = self._loop.call_later(self.calm_s, self._end, address)

    def stop(self) -> None:
        if self._calm is not None:
            self._calm.cancel()
            self._calm = None

    def _end(self, address: object) -> None:
        self._calm = None
        log.info("connections are accepted at %s again; accepting failed %d times", address, self.count)
        self.count = 0
