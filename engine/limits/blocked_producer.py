"""How much input of a connection may wait while its addresses are full.

Source: docs/reference/semantics.md, "Full addresses".
"""

from __future__ import annotations

from typing import Final

from engine.consumers.client import Client

READ_ON: Final = 0
PAUSE: Final = 1  # read nothing more until less waits
REFUSE: Final = 2


class BlockLimit:
    """pause_bytes: for a connection that only sends; reading it pauses above this.

    most_bytes: for one that also has consumers.  It must be read on, because its acknowledgements follow what it sends;
    messages above this are refused.  A single message may wait whatever its size, or it could never be sent.
    """

    __slots__ = ("pause_bytes", "most_bytes")

    def __init__(self, pause_bytes: int, most_bytes: int) -> None:
        self.pause_bytes = pause_bytes
        self.most_bytes = most_bytes

    def verdict(self, client: Client, waiting_bytes: int, more_bytes: int) -> int:
        """Return what to do with a connection of which ``waiting_bytes`` wait and ``more_bytes`` have arrived."""
        if client.consumers:
            return REFUSE if waiting_bytes and waiting_bytes + more_bytes > self.most_bytes else READ_ON
        return PAUSE if waiting_bytes + more_bytes >= self.pause_bytes else READ_ON
