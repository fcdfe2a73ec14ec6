"""Durable subscriptions of the running gateway: an operator lists them, and removes those that were abandoned."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from engine.sources.topics.named_subscription import NamedSubscription
from gateway.loop.durability import check_disk, until_durable
from gateway.loop.engine_loop import EngineLoop
from gateway.process.log_lines import PeerLines

log: Final = logging.getLogger("penstock")

LOOKED_AT_ONCE: Final = 1_000  # subscriptions, or topics of a wildcard, in one turn of the loop
SELECTOR_CHARACTERS: Final = 200  # shown of a selector, which may be long


class LiveSubscriptions:
    def __init__(self, engine_loop: EngineLoop, lines: PeerLines) -> None:
        self._engine_loop = engine_loop
        self._subscribing = engine_loop.broker.subscribing
        self._lines = lines

    async def listed(self, search: str, limit: int) -> dict[str, Any]:
        """Return the durable subscriptions made first, with what waits for each.

        search: only those whose client id, name, topic or owner contains it.
        """
        count = 0
        shown: list[dict[str, Any]] = []
        for number, one in enumerate(self._subscribing.durable_subscriptions(), 1):
            if number % LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)
            if any(search in text for text in (one.client_id, one.name, one.uri(), one.owner)):
                count += 1
                if len(shown) < limit:
                    shown.append(_described(one, await _waiting(one)))
        return {"durable": count, "subscriptions": shown}

    async def delete(self, client_id: str, name: str, operator: str) -> dict[str, Any]:
        """Remove a durable subscription, whoever owns it; return once that is durable.  operator: who asks, in words.

        Raises: UnknownSubscription, SubscriptionInUse, StoreError if the disk refuses it.
        """
        check_disk(self._engine_loop, "nothing was deleted")
        self._engine_loop.open_turn()
        self._subscribing.end_subscription(client_id, name)
        said = f"subscription {name!r} of client id {client_id!r}"
        self._lines.done(log, logging.INFO, operator, f"the durable {said} is deleted by {operator}")
        await until_durable(self._engine_loop, f"deleted {said}", "it is there again if the gateway is killed before")
        return {"client_id": client_id, "deleted": name}


async def _waiting(subscription: NamedSubscription) -> int:
    """Return how many messages of all its topics wait for a subscription or are held by its consumers."""
    queues = list(subscription.queues.values())
    waiting = 0
    for start in range(0, len(queues), LOOKED_AT_ONCE):
        if start:
            await asyncio.sleep(0)
        waiting += sum(queue.depth for queue in queues[start : start + LOOKED_AT_ONCE])
    return waiting


def _described(one: NamedSubscription, waiting: int) -> dict[str, Any]:
    return {
        "client_id": one.client_id,
        "name": one.name,
        "source": one.uri(),
        "selector": one.selector_text[:SELECTOR_CHARACTERS],
        "shared": one.is_shared,
        "owner": one.owner,
        "consumers": one.consumers,
        "waiting": waiting,
    }
