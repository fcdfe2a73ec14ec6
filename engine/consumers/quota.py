"""Counts one thing per holder against one limit; engine.limits.user_quota has one quota per limit."""

from __future__ import annotations

from typing import Final

from engine.values.errors import LimitReached
from engine.values.wildcard import Wildcard

DURABLE_SUBSCRIPTIONS: Final = "limits.durable-subscriptions-per-user"
DURABLE_WILDCARD_TOPICS: Final = "limits.durable-wildcard-topics"


class Quota:
    """Each holder's number of one thing.

    name: of the limit.  things: what is counted, in words.  most: per holder, UNLIMITED for no limit.
    refused: how often the limit was enforced.
    """

    __slots__ = ("name", "things", "most", "refused", "_counts")

    def __init__(self, name: str, things: str, most: int) -> None:
        self.name = name
        self.things = things
        self.most = most
        self.refused = 0
        self._counts: dict[str, int] = {}

    def count(self, holder: str) -> int:
        return self._counts.get(holder, 0)

    def require(self, holder: str, more: int = 1) -> None:
        """Raises: LimitReached if the limit would be exceeded; holder "" has no limit."""
        count = self._counts.get(holder, 0)
        if holder and 0 <= self.most < count + more:
            self.refused += 1
            asked = "which is the limit" if count >= self.most else f"{more} more would exceed the limit"
            raise LimitReached(f"{holder} has {count} {self.things}, {asked} ({self.name}: {self.most})")

    def add(self, holder: str) -> None:
        """Count one more, whatever the limit."""
        if holder:
            self._counts[holder] = self._counts.get(holder, 0) + 1

    def give_back(self, holder: str) -> None:
        if not holder:
            return
        left = self._counts[holder] - 1
        if left:
            self._counts[holder] = left
        else:
            del self._counts[holder]


class DurableQuota(Quota):
    """Durable subscriptions per user.  wildcard_topics: topics with which one to a wildcard may begin."""

    __slots__ = ("wildcard_topics",)

    def __init__(self, most: int, wildcard_topics: int) -> None:
        super().__init__(DURABLE_SUBSCRIPTIONS, "durable subscriptions", most)
        self.wildcard_topics = wildcard_topics

    def require_topics(self, wildcard: Wildcard, count: int) -> None:
        """Raises: LimitReached for a durable subscription to a wildcard that would begin with too many topics."""
        if 0 <= self.wildcard_topics < count:
            raise LimitReached(
                f"{wildcard.uri()} matches {count} topics; a durable subscription may begin with "
                f"{self.wildcard_topics} ({DURABLE_WILDCARD_TOPICS})"
            )


def holder_of(user: str) -> str:
    """Return the holder of a user's things, in words; "" without a user."""
    return f"user {user[:200]!r}" if user else ""
