"""Consumer records in the log that failed attempts may still name."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from engine.store.state.progress import Progress

CLOSED_MAX: Final = 1024  # closed consumers kept before unnamed ones are forgotten


@dataclass(slots=True, eq=False)
class ConsumerRecords:
    """described: the JSON of each record, by the consumer's number.  next_number: of the next one.

    failing: queues and subscriptions with failed attempts, which name consumers, and some that have none any more.
    """

    described: dict[int, str] = field(default_factory=dict)
    next_number: int = 1
    failing: set[Progress] = field(default_factory=set)
    _closed: set[int] = field(default_factory=set)
    _closed_limit: int = CLOSED_MAX

    def add(self, number: int, described: str) -> None:
        self.described[number] = described
        self.next_number = max(self.next_number, number + 1)

    def close(self, number: int) -> None:
        """Note that nothing new will name a consumer; now and then, forget those that are not named at all."""
        if number in self.described:
            self._closed.add(number)
        if len(self._closed) > self._closed_limit:
            self.forget_unnamed()

    def close_all(self) -> None:
        """Close all, as the gateway that they belonged to is gone."""
        self._closed.update(self.described)

    def description(self, number: int) -> dict[str, str]:
        """Return a consumer's description, {} if it was forgotten."""
        described: dict[str, Any] = json.loads(self.described.get(number, "{}"))
        return {name: str(value) for name, value in described.items() if name not in ("id", "destination")}

    def forget_unnamed(self) -> None:
        """Forget the closed ones that no failed attempt names."""
        self.failing = {progress for progress in self.failing if progress.failed is not None}
        named: set[int] = set()
        for progress in self.failing:
            if progress.failed is not None:
                named.update(progress.failed.consumers)
        for number in self._closed - named:
            del self.described[number]
        self._closed &= named
        self._closed_limit = max(CLOSED_MAX, 2 * len(self._closed))
