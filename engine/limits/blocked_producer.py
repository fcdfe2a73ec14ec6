"""How much of what a connection sends may wait while its addresses take nothing.

Source: docs/reference/semantics.md, "Full addresses".
"""

from __future__ import annotations

from typing import Final

from engine.consumers.client import Client

READ_ON: Final = 0
PAUSE: Final = 1  # nothing more is read until less waits
REFUSE: Final = 2


class BlockLimit:
    """pause_bytes: of a connection that only sends; it is read no further.

    most_bytes: of one that also has consumers; it is read on, for its acknowledgements come behind what it sends, and
    refused what would be more.  A single message waits whatever its size, or it could never be sent.
    """

    __slots__ = ("pause_bytes", "most_bytes")

    def __init__(self, pause_bytes: int, most_bytes: int) -> None:
        self.pause_bytes = pause_bytes
        self.most_bytes = most_bytes

    def verdict(self, client: Client, waiting_bytes: int, more_bytes: int) -> int:
        """Return what becomes of a connection of which ``waiting_bytes`` wait and ``more_bytes`` are to."""
        if client.consumers:
            return REFUSE if waiting_bytes and waiting_bytes + more_bytes > self.most_bytes else READ_ON
        return PAUSE if waiting_bytes + more_bytes >= self.pause_bytes else READ_ON
