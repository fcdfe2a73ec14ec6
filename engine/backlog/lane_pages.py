"""How much a lane asks for at a time of what it has on disk, and what is under way."""

from __future__ import annotations

from typing import Final

PAGE_MESSAGES: Final = 1_024  # entries asked for at a time
PAGE_BYTES: Final = 4 * 1024 * 1024


class LanePages:
    """size_bytes, count: what is asked for at a time.

    fault: why the disk refused the last page, "" if it did not.
    is_loading: a page is asked for that comes next; is_scanning: one ahead of it, for a selection.
    awaits_retry: the last page was refused or empty, and none is asked for before the engine tries again, however often
    somebody wants one.
    """

    __slots__ = ("size_bytes", "count", "fault", "is_loading", "is_scanning", "awaits_retry")

    def __init__(self) -> None:
        self.size_bytes = PAGE_BYTES
        self.count = PAGE_MESSAGES
        self.fault = ""
        self.is_loading = False
        self.is_scanning = False
        self.awaits_retry = False

    def limit(self, size_bytes: int, count: int) -> None:
        """Ask for no more than may be in memory, and for one message where nothing may."""
        self.size_bytes = max(1, min(PAGE_BYTES, size_bytes))
        self.count = max(1, min(PAGE_MESSAGES, count))
