"""Durable subscriptions to wildcards: how many a user may have, and how many topics they may take from.

Each topic is a cursor in the log and takes some kilobytes of memory, also while nobody is connected.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from engine.consumers.client import Client
from engine.consumers.permissions import Access
from engine.consumers.user_quota import Quota
from engine.sources.registry import Destinations
from engine.sources.topics.named_subscription import NamedSubscription
from engine.values.destination import ADVISORY_PREFIX
from engine.values.wildcard import Wildcard


@dataclass(slots=True, eq=False)
class DurableWildcards:
    """quota: of the subscriptions.  topics: of the topics that all of a user's wildcards take from together.

    subscriptions: by client id, name and True.
    """

    destinations: Destinations
    access: Access
    quota: Quota
    topics: Quota
    subscriptions: dict[tuple[str, str, bool], NamedSubscription] = field(default_factory=dict)

    def add(self, subscription: NamedSubscription) -> None:
        self.subscriptions[subscription.key()] = subscription
        self.quota.add(subscription.holder)

    def remove(self, subscription: NamedSubscription) -> None:
        """Forget a subscription that has ended; its topics are given back one by one."""
        if self.subscriptions.pop(subscription.key(), None) is not None:
            self.quota.give_back(subscription.holder)

    def matching(self, name: str) -> list[NamedSubscription]:
        """Return the subscriptions that take from a topic of this name."""
        return [
            one
            for one in self.subscriptions.values()
            if one.wildcard is not None and one.wildcard.matches(name) and self.access.may_keep_for(one.owner, name)
        ]

    def require(self, holder: str, wildcard: Wildcard, known: NamedSubscription | None) -> None:
        """Raises: LimitReached for one subscription too many, or one that begins with too many topics.

        known: the one that it replaces, if there is one.
        """
        if known is None or known.carrier is None or known.holder != holder:
            self.quota.require(holder)
        if not self.topics.has_room(holder, len(self.destinations.topics)):  # else all of them may match
            self.topics.require(holder, len(self.destinations.matching(wildcard)))

    def require_topics(self, client: Client, names: list[str]) -> None:
        """Raises: LimitReached for new topics that are too much for the wildcards of the user who makes them.

        Wildcards of another user are no reason to refuse them: they do without them.
        """
        if not self.subscriptions:
            return
        more: Counter[str] = Counter()
        for name in names:
            if not name.startswith(ADVISORY_PREFIX):
                more.update(one.holder for one in self.matching(name) if not one.is_of_another_user(client.user))
        for holder, count in more.items():
            self.topics.require(holder, count)
