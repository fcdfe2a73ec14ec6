"""Whether the disk works: the one place that calls ``store_failed`` and ``store_healed``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.ports.store import StoreListener

LOG: Final = 0
CHECKPOINT: Final = 1
CONSUME_QUEUE: Final = 2
SYNC: Final = 3  # nothing failed, but it takes too long


@dataclass(slots=True, eq=False)
class Health:
    """The parts of the store that fail now, each with the system's reason."""

    _listener: StoreListener | None = None
    _reasons: dict[int, str] = field(default_factory=dict)

    def attach(self, listener: StoreListener) -> None:
        """Report to ``listener`` from now on."""
        self._listener = listener

    def is_good(self) -> bool:
        """Return whether nothing fails."""
        return not self._reasons

    def is_failing(self, part: int) -> bool:
        return part in self._reasons

    def fail(self, part: int, reason: str) -> None:
        """Note that ``part`` failed; reported once until everything works again."""
        was_good = not self._reasons
        self._reasons[part] = reason
        if was_good and self._listener is not None:
            self._listener.store_failed(reason)

    def heal(self, part: int) -> None:
        """Note that ``part`` works again, if it did not."""
        if not self._reasons:
            return
        if self._reasons.pop(part, None) is not None and not self._reasons and self._listener is not None:
            self._listener.store_healed()
