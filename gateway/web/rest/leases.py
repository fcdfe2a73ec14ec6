"""Messages taken over HTTP: each has a lease, which returns the message if nobody settles it (docs/decisions/0058)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.consumers.consumer import INDIVIDUAL
from engine.values.delivery import Delivery, Refusal
from engine.values.errors import LimitReached
from engine.values.options import SubscribeOptions
from gateway.web.rest.client_registry import RestClients, new_token
from gateway.web.rest.requests import ACKNOWLEDGE, LEASE_MOST, RELEASE, Asking, Took, Watch
from gateway.web.rest.rest_client import PAGE_BYTES, RestClient

WAITING_MAX: Final = 32  # requests that take messages, of all users: half of the HTTP connections
WAITING_PER_ADDRESS_MAX: Final = 24

_REFUSALS: Final = {
    RELEASE: Refusal("requeue"),
    "fail": Refusal("redeliver"),
    "dead-letter": Refusal("dead-letter"),
}


@dataclass(eq=False, slots=True)
class Holding:
    """What one request has taken.  tokens: of the unsettled messages.  timer: ends the lease."""

    client: RestClient
    holder: str
    tokens: set[str]
    watch: Watch
    timer: asyncio.TimerHandle | None = None


class Leases:
    """_leases: by token.  _held: their number by holder.  _busy: clients of requests that take messages now."""

    def __init__(self, clients: RestClients) -> None:
        self._clients = clients
        self._leases: dict[str, tuple[Delivery, Holding]] = {}
        self._held: Counter[str] = Counter()
        self._busy: set[RestClient] = set()

    async def take(self, asking: Asking, queue: str, took: Took, watch: Watch) -> list[bytes]:
        """Return messages with leases, as JSON; none if none has come in time."""
        client = self._clients.client(asking)
        if self._held[client.holder] + took.count > LEASE_MOST:
            raise LimitReached(
                f"{client.holder} may have {LEASE_MOST} messages unsettled over HTTP, which is the limit"
            )
        of_address = sum(one.address == asking.address for one in self._busy)
        if len(self._busy) >= WAITING_MAX or of_address >= WAITING_PER_ADDRESS_MAX:
            raise LimitReached(
                f"{WAITING_MAX} requests, or {WAITING_PER_ADDRESS_MAX} of {asking.address}, take messages: the limit"
            )
        options = SubscribeOptions(
            INDIVIDUAL, prefetch=took.count, name="http", selector=took.selector, window_bytes=PAGE_BYTES
        )
        consumer = self._clients.subscribed(client, queue, options)
        watch.when_lost(lambda: self._clients.leave(client, False))  # nothing was sent to it yet
        self._busy.add(client)
        try:
            await self._clients.arrival(client, consumer, took.wait_ms)
            await self._clients.company(client, consumer, took.count)
            client.is_output_full = True  # what is settled makes no room for more
            taken = list(client.deliveries)
            tokens = [new_token() for _ in taken]
            shown = [(one.message, _lease(one, token)) for one, token in zip(taken, tokens, strict=True)]
            documents = await self._clients.documents(asking.address, shown, took.body_form)
        except BaseException:
            self._clients.leave(client, False)
            raise
        finally:
            self._busy.discard(client)
        watch.when_lost(None)
        if client.failure is not None:
            raise client.failure
        if client.is_gone or not taken:
            self._clients.leave(client, False)
            return []
        holding = Holding(client, client.holder, set(tokens), watch)
        self._leases.update((token, (one, holding)) for token, one in zip(tokens, taken, strict=True))
        self._held[client.holder] += len(tokens)
        loop = asyncio.get_running_loop()
        holding.timer = loop.call_later(took.lease_ms / 1000, self._return, holding)
        if took.ends_with_connection:
            watch.when_lost(lambda: self._return(holding))
        return documents

    async def settle(self, asking: Asking, tokens: Sequence[str], outcome: str) -> dict[str, Any]:
        """Settle messages by their leases; return once that is durable.  outcome: one of OUTCOMES."""
        holder = self._clients.client(asking).holder
        by_client: dict[Holding, list[Delivery]] = {}
        unknown: list[str] = []
        for token in dict.fromkeys(tokens):
            delivery, holding = self._leases.get(token, (None, None))
            if delivery is None or holding is None or holding.holder != holder or holding.client.is_gone:
                unknown.append(token)
                continue
            by_client.setdefault(holding, []).append(delivery)
            self._drop(token, holding)
        with self._clients.turn():
            for deliveries in by_client.values():
                if outcome == ACKNOWLEDGE:
                    self._clients.engine.acknowledge_all(deliveries)
                else:
                    self._clients.engine.refuse_all(deliveries, _REFUSALS[outcome])
        try:
            await asyncio.gather(*(holding.client.confirmed("the outcome was taken") for holding in by_client))
        finally:
            for holding in by_client:
                if not holding.tokens:
                    self._clients.leave(holding.client, False)
        return {"settled": sum(map(len, by_client.values())), "unknown": unknown}

    def _drop(self, token: str, holding: Holding) -> None:
        del self._leases[token]
        holding.tokens.discard(token)
        self._held[holding.holder] -= 1
        if not self._held[holding.holder]:
            del self._held[holding.holder]
        if not holding.tokens and holding.timer is not None:
            holding.timer.cancel()
            holding.watch.when_lost(None)

    def _return(self, holding: Holding, is_lost: bool = True) -> None:
        """End a lease: what is not settled returns, as from a client whose connection is lost."""
        for token in list(holding.tokens):
            self._drop(token, holding)
        self._clients.leave(holding.client, is_lost)

    def stop(self) -> None:
        """Return everything in order, which counts no attempt."""
        for _, holding in list(self._leases.values()):
            self._return(holding, is_lost=False)
        for client in self._busy:
            self._clients.leave(client, False)


def _lease(delivery: Delivery, token: str) -> dict[str, Any]:
    """Return the members of a message that say how it was taken."""
    return {"lease": token, "redelivered": delivery.is_redelivered, "delivery_count": delivery.failed_attempts + 1}
