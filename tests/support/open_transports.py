"""Names the test whose event loop ends with a connection open.

Otherwise the garbage collector finds the connection some hundred tests later, and an innocent test fails.
"""

from __future__ import annotations

import warnings
from asyncio.selector_events import BaseSelectorEventLoop
from typing import Any


class OpenTransport(UserWarning):
    """A loop has ended before one of its connections."""


def watch() -> None:
    """Warn whenever a loop of asyncio is closed with an open connection, and close that."""
    close = BaseSelectorEventLoop.close

    def watched(self: Any) -> None:
        left = [] if self.is_closed() else [one for one in self._transports.values() if not one.is_closing()]
        close(self)
        for transport in left:
            if transport._sock is not None:
                warnings.warn(f"a loop ends with {transport!r} of {transport.get_protocol()!r}", OpenTransport, 2)
                transport._sock.close()
                transport._sock = None  # so that the transport does not warn, too

    BaseSelectorEventLoop.close = watched  # type: ignore[method-assign]
